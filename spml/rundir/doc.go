// Package rundir knows the files of a run directory: what a run writes there, and what others read of it.
//
//	run.yaml         the effective settings (config.Config)
//	env.json         versions, hashes, machine (Environment)
//	metrics.csv      a row for each epoch (EpochRecord)
//	scores.jsonl     where each epoch's scores lie (metric.EpochScores)
//	pseudo_labels.*  how good the pseudo-labels were, where the method makes some
//	model/           config.json and model.safetensors of the selected epoch
//	test_scores.npy  scores of that epoch on the test part, test_rows.npy their rows (Scores)
//	result.json      how the run ended (Result)
//	tensorboard/     the curves
//	checkpoints/     where a run goes on (package checkpoint)
//
// One process writes a directory (Lock). Readers take no lock: files are written beside and renamed.
package rundir

// Names of files in a run directory.
const (
	SettingsFile = "run.yaml"
	ResultFile   = "result.json"
	LockFile     = ".lock" // lies there while a process writes
	envFile      = "env.json"
	metricsFile  = "metrics.csv"
)
