package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/metric"
)

// EpochRecord is one row of metrics.csv.
type EpochRecord struct {
	Epoch   int     `json:"epoch"`
	Loss    float64 `json:"loss"`     // Σ batch loss · batch size / images
	ValMAP  float64 `json:"val_map"`  // percent
	TestMAP float64 `json:"test_map"` // percent
	Best    bool    `json:"best"`     // highest validation mAP so far
	Seconds float64 `json:"seconds"`
	// ValObserved: the validation rows have no full labels. ValMAP is then against the observed ones, where what is not
	// observed counts as absent: lower than with full labels, but it orders epochs.
	ValObserved bool `json:"val_observed,omitempty"`
	NoVal       bool `json:"no_val,omitempty"`  // nothing was validated: ValMAP says nothing
	NoTest      bool `json:"no_test,omitempty"` // no test row has full labels: TestMAP says nothing
	Average     bool `json:"average,omitempty"` // the numbers are those of the running average of the weights
	// Pseudo says how good the epoch's pseudo-labels were; nil without them, and where no image has full labels.
	Pseudo *metric.PseudoRecord `json:"pseudo_labels,omitempty"`
}

// Val is the validation mAP with two digits, "n/a" where there is none.
func (r EpochRecord) Val() string { return percent(r.ValMAP, r.NoVal) }

// Test is the test mAP with two digits, "n/a" where there is none.
func (r EpochRecord) Test() string { return percent(r.TestMAP, r.NoTest) }

func percent(v float64, none bool) string {
	if none {
		return "n/a"
	}
	return fmt.Sprintf("%.2f", v)
}

// Result is what a run ended with.
type Result struct {
	// the epoch with the highest validation mAP; the last one where there is no validation part
	Best   EpochRecord   `json:"best"`
	Epochs []EpochRecord `json:"epochs"` // all
	Broken []data.Broken `json:"-"`      // images that could not be read
	// Stopped says why the run ended: all epochs, or a stop rule.
	Stopped string `json:"stopped"`
}

// Record is what a run directory says of a run.
type Record struct {
	Dir         string
	Config      config.Config
	Environment Environment
	Result      *Result // nil where the run has not ended
}

// ReadRecord reads the settings, the environment and the result of a run directory.
func ReadRecord(dir string) (*Record, error) {
	c, err := Read(dir)
	if err != nil {
		return nil, err
	}
	c.Run.Dir = dir
	r := &Record{Dir: dir, Config: c}
	read := func(name string, to any) error {
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(b, to); err != nil {
			return fmt.Errorf("%w: %s: %w", fault.ErrData, path, err)
		}
		return nil
	}
	if err := read("env.json", &r.Environment); err != nil {
		return nil, err
	}
	var result Result
	switch err := read(ResultFile, &result); {
	case err == nil:
		r.Result = &result
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return r, nil
}

// Read reads the settings of a run directory.
func Read(dir string) (config.Config, error) {
	c, err := config.Load(filepath.Join(dir, SettingsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf(
			"%s is no run directory (no %s); train one with `spml train --run %s …`: %w",
			dir,
			SettingsFile,
			dir,
			err,
		)
	}
	c.Method.ID = method.Recorded(c.Method.ID, c.Model.Head, c.Method.Params)
	// First of all, because the settings may be of a later program too.
	if b, e := os.ReadFile(filepath.Join(dir, envFile)); e == nil {
		var env struct {
			Format int    `json:"format"`
			Module string `json:"module_version"`
		}
		if json.Unmarshal(b, &env) == nil && env.Format > Format {
			const why = "%w: %s is a run of gospml %s (format %d); this program reads formats up to %d: use that version"
			return config.Config{}, fmt.Errorf(why, fault.ErrData, dir, env.Module, env.Format, Format)
		}
	}
	return c, err
}

// Exists says whether a folder holds a run that can go on.
func Exists(dir string) bool { return exists(filepath.Join(dir, SettingsFile)) }

// Finished gives the result of the run in the directory of resolved settings with absolute paths, where it is done with
// exactly these; on which device it was does not matter. Else it gives false.
func Finished(c config.Config) (*Result, bool) {
	old, err := Read(c.Run.Dir)
	old.Run.Device = c.Run.Device
	if err != nil || config.Differences(old, c) != "" {
		return nil, false
	}
	b, err := os.ReadFile(filepath.Join(c.Run.Dir, ResultFile))
	if err != nil {
		return nil, false
	}
	var r Result
	if json.Unmarshal(b, &r) != nil || len(r.Epochs) == 0 {
		return nil, false
	}
	return &r, true
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
