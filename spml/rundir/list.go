package rundir

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gospml/gospml/internal/onewriter"
)

// State is how far a run is.
type State string

// States.
const (
	Done       State = "done"       // all epochs, or a stop rule
	Running    State = "running"    // a process writes it
	Unfinished State = "unfinished" // it can be resumed
	Damaged    State = "damaged"    // what it holds cannot be read
)

// Summary is what a list shows of a run directory.
type Summary struct {
	Dir      string            `json:"run"`
	State    State             `json:"state"`
	Why      string            `json:"why,omitempty"` // of a damaged one
	Method   string            `json:"method,omitempty"`
	Backbone string            `json:"backbone,omitempty"`
	Data     string            `json:"data,omitempty"` // name of the data set
	Started  time.Time         `json:"started,omitzero"`
	Epochs   int               `json:"epochs,omitempty"` // that the settings ask for
	Curve    []EpochRecord     `json:"-"`                // epochs that ended
	Epoch    int               `json:"epoch"`            // the last one
	Best     int               `json:"best,omitempty"`   // the epoch whose model is kept; 0: none yet
	Val      *float64          `json:"val_map,omitempty"`
	Test     *float64          `json:"test_map,omitempty"` // of the best epoch, percent; nil where it says nothing
	Seconds  float64           `json:"seconds"`            // of all epochs
	Bytes    int64             `json:"bytes"`
	Settings map[string]string `json:"-"` // every setting as text
}

// List summarises the run directories at and below a folder, in the order of their paths. Links are not followed, and
// what lies in a run belongs to it. A run that cannot be read is Damaged, no error.
func List(folder string) (all []Summary, err error) {
	if _, err := os.Stat(folder); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return ignored(err)
		}
		if !Exists(path) {
			return nil
		}
		all = append(all, Summarize(path))
		return fs.SkipDir
	})
	return all, err
}

// ignored drops errors about what went away, or may not be read: a list is of what is there.
func ignored(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// Summarize reads what a run directory says of its run, however far it is.
func Summarize(dir string) Summary {
	s := Summary{Dir: dir}
	damaged := func(err error) Summary {
		s.State, s.Why = Damaged, err.Error()
		return s
	}
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return ignored(err)
		}
		info, err := d.Info()
		if err == nil {
			s.Bytes += info.Size()
		}
		return ignored(err)
	})
	if err != nil {
		return damaged(err)
	}
	r, err := ReadRecord(dir)
	if err != nil && errors.Is(err, fs.ErrNotExist) && exists(filepath.Join(dir, SettingsFile)) {
		err = fmt.Errorf("%s is missing", filepath.Join(dir, envFile))
	}
	if err != nil {
		return damaged(err)
	}
	c := r.Config
	s.Method, s.Backbone, s.Epochs, s.Started = c.Method.ID, c.Model.Backbone, c.Schedule.Epochs, r.Environment.Started
	s.Data = filepath.Base(filepath.Clean(c.Data.Path))
	if s.Settings, err = settingsOf(dir); err != nil {
		return damaged(err)
	}
	if s.Curve, err = ReadMetrics(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return damaged(err)
	}
	for _, e := range s.Curve {
		s.Epoch, s.Seconds = e.Epoch, s.Seconds+e.Seconds
		if e.Best {
			s.Best, s.Val, s.Test = e.Epoch, known(e.ValMAP, e.NoVal), known(e.TestMAP, e.NoTest)
		}
	}
	switch {
	case r.Result != nil:
		s.State = Done
	case onewriter.Written(filepath.Join(dir, LockFile)):
		s.State = Running
	default:
		s.State = Unfinished
	}
	return s
}

func known(v float64, none bool) *float64 {
	if none {
		return nil
	}
	return &v
}

// settingsOf are the settings of a run as texts.
func settingsOf(dir string) (map[string]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, SettingsFile))
	if err != nil {
		return nil, err
	}
	var values map[string]any
	if err := yaml.Unmarshal(b, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, SettingsFile), err)
	}
	out := map[string]string{}
	for k, v := range values {
		out[k] = fmt.Sprint(v)
	}
	return out, nil
}

// ReadMetrics reads metrics.csv of a run directory: the epochs that have ended.
func ReadMetrics(dir string) ([]EpochRecord, error) {
	path := filepath.Join(dir, metricsFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(strings.NewReader(string(b))).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var out []EpochRecord
	for i, row := range rows {
		if i == 0 {
			continue
		}
		var e EpochRecord
		var errs error
		number := func(text string, none *bool) float64 {
			if *none = text == ""; *none {
				return 0
			}
			v, err := strconv.ParseFloat(text, 64)
			errs = errors.Join(errs, err)
			return v
		}
		if len(row) != 6 {
			return nil, fmt.Errorf("%s: line %d has %d cells, want 6", path, i+1, len(row))
		}
		var none bool
		e.Epoch = int(number(row[0], &none))
		e.Loss = number(row[1], &none)
		e.ValMAP, e.TestMAP = number(row[2], &e.NoVal), number(row[3], &e.NoTest)
		e.Best = row[4] == "true"
		e.Seconds = number(row[5], &none)
		if errs != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, i+1, errs)
		}
		out = append(out, e)
	}
	return out, nil
}

// Delete removes a run directory with all that lies in it. A run that is being written is a *BusyError; what is no run
// directory is refused.
func Delete(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || !Exists(dir) {
		return fmt.Errorf("%s is no run directory (no %s); nothing is deleted", dir, SettingsFile)
	}
	lock, err := Lock(dir, func(string) {})
	if err != nil {
		return err
	}
	// Under another name first: a removal that is broken off leaves no half a run.
	gone := filepath.Join(filepath.Dir(filepath.Clean(dir)), ".deleted-"+filepath.Base(filepath.Clean(dir)))
	if err := os.Rename(dir, gone); err != nil {
		return errors.Join(err, lock.Close())
	}
	return errors.Join(lock.Close(), os.RemoveAll(gone))
}
