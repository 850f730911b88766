package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/metric"
)

// epochScoresFile has a line of JSON for each epoch: a metric.EpochScores.
const epochScoresFile = "scores.jsonl"

// Scores are the predictions for some rows of a data set.
type Scores struct {
	Rows   []int     // rows of the data set, in the order of Values; broken images are missing
	Values []float32 // σ(z), [len(Rows), C] row-major
}

// PerClass is the average precision of each class in 0…1 against labels of the whole data set [N, C], by the rules of
// the papers: equal scores share one precision, a class without positives counts as 0. Labels of -1 are not known:
// their scores do not count, and a class without a known label is NaN.
func (s *Scores) PerClass(ds *data.Dataset, labels []int8) ([]float64, error) {
	y, form := ds.Gather(labels, s.Rows), metric.Step
	if slices.Contains(y, -1) {
		form = metric.OpenImages
	}
	return metric.AveragePrecision(s.Values, y, ds.C(), form)
}

// MAP is the mean of PerClass in percent.
func (s *Scores) MAP(ds *data.Dataset, labels []int8) (float64, error) {
	ap, err := s.PerClass(ds, labels)
	if err != nil {
		return 0, err
	}
	return 100 * metric.Mean(ap), nil
}

// Scores appends the scores of an epoch; the first time it takes out what an attempt left that ended before its
// checkpoint.
func (r *Dir) Scores(e metric.EpochScores) error {
	if r.path == "" {
		return nil
	}
	path := filepath.Join(r.path, epochScoresFile)
	if !r.scored {
		before, err := ReadEpochScores(r.path)
		if err != nil {
			return err
		}
		err = atomicfile.WriteFile(path, 0o644, func(w io.Writer) error {
			to := json.NewEncoder(w)
			for _, x := range before {
				if x.Epoch < e.Epoch {
					if err := to.Encode(x); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		r.scored = true
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// ReadEpochScores reads where the scores of each epoch of a run lay; none for a run of a version that did not count
// them.
func ReadEpochScores(dir string) ([]metric.EpochScores, error) {
	path := filepath.Join(dir, epochScoresFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []metric.EpochScores
	whole := b[:bytes.LastIndexByte(b, '\n')+1] // a last line without an end was cut off
	for n, line := range bytes.SplitAfter(whole, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var e metric.EpochScores
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%w: %s, line %d: %w", fault.ErrData, path, n+1, err)
		}
		if err := e.Check(); err != nil {
			return nil, fmt.Errorf("%w: %s, line %d: %w", fault.ErrData, path, n+1, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// ReadTestScores reads the scores of a run's best epoch on the test part [n, C] with their rows of the data set.
func ReadTestScores(dir string) (*Scores, error) {
	a, err := npy.Read(filepath.Join(dir, scoresFile))
	if err != nil {
		return nil, err
	}
	values, err := a.Float32()
	if err != nil {
		return nil, err
	}
	r, err := npy.Read(filepath.Join(dir, rowsFile))
	if err != nil {
		return nil, err
	}
	rows, err := r.Int64()
	if err != nil {
		return nil, err
	}
	if len(a.Shape) != 2 || int(a.Shape[0]) != len(rows) {
		return nil, fmt.Errorf("%w: %s and %s in %s do not belong together", fault.ErrData, scoresFile, rowsFile, dir)
	}
	s := &Scores{Values: values, Rows: make([]int, len(rows))}
	for i, x := range rows {
		s.Rows[i] = int(x)
	}
	return s, nil
}

const (
	scoresFile = "test_scores.npy"
	rowsFile   = "test_rows.npy"
)

// TestScores keeps the scores of the best epoch on the test part.
func (r *Dir) TestScores(s *Scores) error {
	dir := r.path
	a, err := npy.New([]int64{int64(len(s.Rows)), int64(len(s.Values) / max(len(s.Rows), 1))}, s.Values)
	if err != nil {
		return err
	}
	rows := make([]int64, len(s.Rows))
	for i, r := range s.Rows {
		rows[i] = int64(r)
	}
	b, err := npy.New([]int64{int64(len(rows))}, rows)
	if err != nil {
		return err
	}
	if err := npy.Write(filepath.Join(dir, scoresFile), a); err != nil {
		return err
	}
	return npy.Write(filepath.Join(dir, rowsFile), b)
}
