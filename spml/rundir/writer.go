package rundir

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/onewriter"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/rundir/internal/tfevents"
)

// Dir writes the files of a run. Without a path it writes nothing. One goroutine at a time uses it.
type Dir struct {
	path   string
	curves *tfevents.Writer // opened by the first epoch that ends
	scored bool             // the file of scores has what this process wrote, and nothing later
}

// New makes the writer of a run directory; "" is for a run that keeps nothing.
func New(path string) *Dir { return &Dir{path: path} }

// Path is the directory, "" where nothing is kept.
func (r *Dir) Path() string { return r.path }

// Start writes what a run begins with.
func (r *Dir) Start(c config.Config, env Environment) error {
	if r.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(r.path, "model"), 0o755); err != nil {
		return fmt.Errorf("the run directory cannot be made: %w", err)
	}
	if err := r.JSON("env.json", env); err != nil {
		return err
	}
	return r.Settings(c)
}

// Settings writes run.yaml, by which Resume knows the folder.
func (r *Dir) Settings(c config.Config) error {
	settings, err := c.YAML()
	if err != nil || r.path == "" {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(r.path, SettingsFile), 0o644, settings)
}

// JSON writes a file of the directory anew.
func (r *Dir) JSON(name string, v any) error {
	if r.path == "" {
		return nil
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(r.path, name), 0o644, append(b, '\n'))
}

// Metrics writes metrics.csv anew.
func (r *Dir) Metrics(epochs []EpochRecord) error {
	if r.path == "" {
		return nil
	}
	return atomicfile.WriteFile(filepath.Join(r.path, metricsFile), 0o644, func(w io.Writer) error {
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
			_ = c.Write(
				[]string{
					strconv.Itoa(m.Epoch),
					strconv.FormatFloat(m.Loss, 'g', 9, 64),
					known(m.ValMAP, m.NoVal),
					known(m.TestMAP, m.NoTest),
					strconv.FormatBool(m.Best),
					f(m.Seconds, 2),
				},
			)
		}
		c.Flush()
		return c.Error()
	})
}

// Curves appends an epoch to the curves that TensorBoard reads. A run that goes on from a checkpoint begins a new
// file, whose first epoch takes the place of what an earlier file says of it and later ones.
func (r *Dir) Curves(e EpochRecord, hasVal bool) (err error) {
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

// Close ends what is open.
func (r *Dir) Close() error {
	if r.curves == nil {
		return nil
	}
	return r.curves.Close()
}

// Fresh refuses a directory that holds a run (ErrExists), and one that cannot be written.
func Fresh(path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(path, SettingsFile)); err == nil {
		return fmt.Errorf("%w: %s; go on with it by --resume, or choose another --run", ErrExists, path)
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

// ErrExists is the error for a run directory that already holds a run.
var ErrExists = errors.New("the run directory already holds a run")

// BusyError is the error for a folder that another process writes, with its id and host.
type BusyError = onewriter.Busy

// Lock makes a folder and keeps other writers off it until the lock is closed; those who read are not kept off. Where
// another process holds it, the error is a *BusyError.
func Lock(dir string, note func(string)) (*onewriter.Lock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("the run directory cannot be made: %w", err)
	}
	l, err := onewriter.Take(filepath.Join(dir, LockFile), dir)
	if err != nil {
		return nil, err
	}
	if !l.Works() {
		note(dir + " lies on a file system without locks: nothing keeps a second run from writing there")
	}
	return l, nil
}
