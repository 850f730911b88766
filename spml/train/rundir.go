package train

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/module"

	"github.com/gospml/gospml"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/train/internal/tfevents"
	"github.com/gospml/gospml/third_party/native"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/safetensors"
)

// RunFormat is the format of run folders that this program writes. It reads this one and all before; a folder of a
// later one is refused. Folders without a format are of before 0.1.0.
const RunFormat = 1

// Environment is env.json: what is needed to understand or repeat a run.
type Environment struct {
	Format        int       `json:"format,omitempty"` // RunFormat
	Started       time.Time `json:"started"`
	Module        string    `json:"module_version"`
	Commit        string    `json:"commit,omitempty"`
	Go            string    `json:"go"`
	Libtorch      string    `json:"libtorch"`
	CPU           string    `json:"cpu_capability"`
	Threads       int       `json:"threads"`
	Cores         int       `json:"cores"`
	Data          string    `json:"data"`
	DataSHA256    string    `json:"data_sha256"`     // classes, image names, full labels, split
	ObservedSHA   string    `json:"observed_sha256"` // the labels that training saw
	LabelsFrom    string    `json:"labels_from"`
	SplitFrom     string    `json:"split_from"`
	ObservedFrom  string    `json:"observed_from"`
	WeightsSHA256 string    `json:"weights_sha256,omitempty"`
	Features      string    `json:"features_sha256,omitempty"`
	Strong        string    `json:"strong_features_sha256,omitempty"`
	Pseudo        string    `json:"pseudo_labels_sha256,omitempty"`
	Clip          string    `json:"clip_sha256,omitempty"` // of a single file
	Precision     string    `json:"precision"`
	Device        string    `json:"device"` // where it computed: cpu, or a card by name
	Processes     int       `json:"processes"`
	Seed          uint32    `json:"seed"`
	Rows          [3]int    `json:"rows_train_val_test"`
}

// device is where a run computed; versions before Device had the CPU only.
func (e *Environment) device() string {
	if e.Device == "" {
		return DeviceCPU
	}
	return e.Device
}

func environment(c Config, ds *data.Dataset, d torch.Device) (Environment, error) {
	e := Environment{
		Format: RunFormat,

		Started: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), Libtorch: native.TorchVersion,
		CPU: torch.CPUCapability(), Threads: torch.NumThreads(), Cores: runtime.NumCPU(),
		Data: ds.Name, DataSHA256: ds.Fingerprint(), ObservedSHA: ds.ObservedFingerprint(), LabelsFrom: ds.Info.Labels, SplitFrom: ds.Info.Split,
		ObservedFrom: ds.Info.Observed, Seed: c.Seed, Precision: c.Precision, Device: compute.CardName(d),
	}
	e.Module, e.Commit = BuildVersion()
	for _, s := range ds.Split {
		e.Rows[s]++
	}
	for _, h := range []struct {
		path string
		to   *string
	}{{c.weightsFile(), &e.WeightsSHA256}, {c.Features, &e.Features}, {c.StrongFeatures, &e.Strong}, {c.PseudoLabels, &e.Pseudo}, {c.clipFile(), &e.Clip}} {
		if h.path == "" || h.path == OwnFeatures {
			continue
		}
		var sums []string
		for _, path := range strings.Split(h.path, ",") {
			sum, err := safetensors.Hash(path)
			if err != nil {
				return e, err
			}
			sums = append(sums, sum)
		}
		*h.to = strings.Join(sums, ",")
	}
	return e, nil
}

// BuildVersion is the version of this module in the running program, and the commit it was built from where that is
// known.
func BuildVersion() (version, commit string) {
	version = "v" + gospml.Version
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, ""
	}
	const path = "github.com/gospml/gospml"
	for _, d := range info.Deps {
		if rev, err := module.PseudoVersionRev(d.Version); d.Path == path && err == nil {
			commit = rev
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && info.Main.Path == path {
			commit = s.Value
		}
	}
	return version, commit
}

// runDir writes the files of a run. Without a path it writes nothing.
type runDir struct {
	path   string
	curves *tfevents.Writer // opened by the first epoch that ends
	scored bool             // the file of scores has what this process wrote, and nothing later
}

// ErrRunExists is the error for a run directory that already holds a run.
var ErrRunExists = errors.New("the run directory already holds a run")

// start writes what a run begins with.
func (r *runDir) start(c Config, env Environment) error {
	if r.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(r.path, "model"), 0o755); err != nil {
		return fmt.Errorf("the run directory cannot be made: %w", err)
	}
	if err := r.json("env.json", env); err != nil {
		return err
	}
	return r.settings(c)
}

// settings writes run.yaml, by which Resume knows the folder.
func (r *runDir) settings(c Config) error {
	settings, err := yaml.Marshal(c)
	if err != nil || r.path == "" {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(r.path, "run.yaml"), 0o644, settings)
}

// checkFresh refuses a directory that holds a run, before any work is done, and one that cannot be written.
func checkFresh(path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(path, "run.yaml")); err == nil {
		return fmt.Errorf("%w: %s; go on with it by --resume, or choose another --run", ErrRunExists, path)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("the run directory cannot be made: %w", err)
	}
	probe, err := os.CreateTemp(path, ".probe-*")
	if err != nil {
		return fmt.Errorf("the run directory cannot be written: %w", err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

func (r *runDir) json(name string, v any) error {
	if r.path == "" {
		return nil
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(r.path, name), 0o644, append(b, '\n'))
}

// metricsFile writes metrics.csv anew.
func (r *runDir) metricsFile(epochs []EpochRecord) error {
	if r.path == "" {
		return nil
	}
	return atomicfile.WriteFile(filepath.Join(r.path, "metrics.csv"), 0o644, func(w io.Writer) error {
		c := csv.NewWriter(w)
		_ = c.Write([]string{"epoch", "loss", "val_map", "test_map", "best", "seconds"})
		f := func(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
		known := func(v float64, none bool) string { // an empty cell says nothing; a 0 would be a score
			if none {
				return ""
			}
			return f(v, 4)
		}
		for _, m := range epochs {
			_ = c.Write([]string{strconv.Itoa(m.Epoch), strconv.FormatFloat(m.Loss, 'g', 9, 64), known(m.ValMAP, m.NoVal), known(m.TestMAP, m.NoTest), strconv.FormatBool(m.Best), f(m.Seconds, 2)})
		}
		c.Flush()
		return c.Error()
	})
}

// tensorBoard appends an epoch to the curves that TensorBoard reads. A run that goes on from a checkpoint begins a new
// file, whose first epoch takes the place of what an earlier file says of it and later ones.
func (r *runDir) tensorBoard(e EpochRecord, hasVal bool) (err error) {
	if r.path == "" {
		return nil
	}
	if r.curves == nil {
		if r.curves, err = tfevents.Open(filepath.Join(r.path, "tensorboard"), int64(e.Epoch)); err != nil {
			return err
		}
	}
	values := []tfevents.Scalar{{Tag: "loss/train", Value: e.Loss}, {Tag: "time/epoch_seconds", Value: e.Seconds}}
	if !e.NoTest {
		values = slices.Insert(values, 1, tfevents.Scalar{Tag: "mAP/test", Value: e.TestMAP})
	}
	if hasVal {
		values = append(values, tfevents.Scalar{Tag: "mAP/validation", Value: e.ValMAP})
	}
	return r.curves.Write(int64(e.Epoch), values...)
}

func (r *runDir) close() error {
	if r.curves == nil {
		return nil
	}
	return r.curves.Close()
}

// ReadRun reads the settings of a run directory.
func ReadRun(dir string) (Config, error) {
	c, err := LoadConfig(filepath.Join(dir, "run.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("%s is no run directory (no run.yaml); train one with `spml train --run %s …`: %w", dir, dir, err)
	}
	// First of all, because the settings may be of a later program too.
	if b, e := os.ReadFile(filepath.Join(dir, "env.json")); e == nil {
		var env struct {
			Format int    `json:"format"`
			Module string `json:"module_version"`
		}
		if json.Unmarshal(b, &env) == nil && env.Format > RunFormat {
			const why = "%w: %s is a run of gospml %s (format %d); this program reads formats up to %d: use that version"
			return Config{}, fmt.Errorf(why, ErrData, dir, env.Module, env.Format, RunFormat)
		}
	}
	return c, err
}
