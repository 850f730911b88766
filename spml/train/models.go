package train

import (
	"context"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/evaluate"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/progress"
	"github.com/gospml/gospml/spml/rundir"
)

// Names that programs used before packages config, model, network and evaluate had them.
type (
	// Deprecated: use evaluate.Report.
	Report = evaluate.Report
	// Deprecated: use evaluate.Options.
	EvalOptions = evaluate.Options

	// Deprecated: use config.Config.
	Config = config.Config
	// Deprecated: use config.Error.
	ConfigError = config.Error
	// Deprecated: use model.Config.
	ModelConfig = model.Config
	// Deprecated: use model.Tagger.
	Tagger = model.Tagger
	// Deprecated: use model.TaggerOptions.
	TaggerOptions = model.TaggerOptions
	// Deprecated: use model.Label.
	Label = model.Label
	// Deprecated: use model.Explanation.
	Explanation = model.Explanation
	// ExportOptions are the choices of Export.
	ExportOptions = model.ExportOptions
)

// Forms that Export writes.
const (
	ExportTimm        = model.ExportTimm
	ExportSafetensors = model.ExportSafetensors
	ExportTorchScript = model.ExportTorchScript
)

// Events tell a caller how a run goes on.
type Events = progress.Events

// Step is one optimiser step, or one batch of another phase.
type Step = progress.Step

// EpochRecord is one row of metrics.csv.
type EpochRecord = rundir.EpochRecord

// Evaluate scores the saved model of a run on a part of its data.
//
// Deprecated: use evaluate.Run.
func Evaluate(ctx context.Context, dir string, part data.Split, ev Events) (*Report, error) {
	return evaluate.Run(ctx, dir, evaluate.Options{Part: part}, ev)
}

// Load reads the model of a run directory (or a model folder itself).
//
// Deprecated: use model.OpenTagger.
func Load(dir string, opt TaggerOptions) (*Tagger, error) { return model.OpenTagger(dir, opt) }

// ReadModelConfig reads config.json of a run's saved model (or of a model folder).
//
// Deprecated: use model.ReadConfig.
func ReadModelConfig(dir string) (ModelConfig, error) { return model.ReadConfig(dir) }

// ClassNames are the classes of a run's saved model (or of a model folder), in the order of its outputs.
func ClassNames(dir string) ([]string, error) {
	c, err := model.ReadConfig(dir)
	return c.LabelNames, err
}

// Export is model.Export with a model card that says what the run directory knows: data, settings, scores.
func Export(dir, to string, o ExportOptions) error {
	o.Card = func(c *model.Config) ([]byte, error) { return rundir.Card(dir, c) }
	return model.Export(dir, to, o)
}
