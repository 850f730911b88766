package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/torch"
)

// epochScoresFile has a line of JSON for each epoch: an EpochScores.
const epochScoresFile = "scores.jsonl"

// ScoreBins is the number of equal bins on 0…1 of a ScoreGroup's histogram, GR's.
const ScoreBins = 100

// EpochScores say where the scores of an epoch lie, by what is known of their labels.
type EpochScores struct {
	Epoch int `json:"epoch"`
	// Train are the scores of the epoch's steps, as the loss saw them: of augmented images, by weights that change
	// meanwhile.
	Train *PartScores `json:"train,omitempty"`
	// Val are those of the validation part after the epoch; nil where its full labels are not known.
	Val *PartScores `json:"val,omitempty"`
}

// PartScores are the scores of images by what is known of their labels. A group without entries is nil.
type PartScores struct {
	Images   int         `json:"images"`
	Positive *ScoreGroup `json:"positive,omitempty"` // observed as positive
	Negative *ScoreGroup `json:"negative,omitempty"` // observed as negative
	Hidden   *ScoreGroup `json:"hidden,omitempty"`   // not observed; positive by the full labels
	Absent   *ScoreGroup `json:"absent,omitempty"`   // not observed; negative by the full labels
	Unknown  *ScoreGroup `json:"unknown,omitempty"`  // not observed, and no full labels to ask
	// Pseudo are those of the groups above but the first that the method takes for positives.
	Pseudo  *ScoreGroup `json:"pseudo,omitempty"`
	Correct int         `json:"pseudo_correct,omitempty"` // of Pseudo, positive by the full labels
	// W1 is the 1-Wasserstein distance of the hidden positives' and the absent labels' scores; of Val only. Source: Chen
	// et al. 2024 (GR), Fig. 3.
	W1 *float64 `json:"w1,omitempty"`
}

// ScoreGroup sums up the scores of some entries.
type ScoreGroup struct {
	Entries     int     `json:"entries"`
	Probability float64 `json:"probability"`         // Σ σ(z)
	AbsLogit    float64 `json:"abs_logit,omitempty"` // Σ |z|; of Train only
	LogLoss     float64 `json:"log_loss,omitempty"`  // Σ -log σ(z); of Train only
	Histogram   []int   `json:"histogram"`           // of σ(z), ScoreBins bins
}

// Mean is a sum over the entries of a group divided by their number; 0 for none.
func (g *ScoreGroup) Mean(sum func(*ScoreGroup) float64) float64 {
	if g == nil || g.Entries == 0 {
		return 0
	}
	return sum(g) / float64(g.Entries)
}

// add counts a score; z is its logit, NaN where only p is known.
func (g *ScoreGroup) add(p, z float64) {
	g.Entries++
	g.Probability += p
	g.Histogram[min(int(p*ScoreBins), ScoreBins-1)]++
	if math.Abs(z) <= math.MaxFloat32 {
		g.AbsLogit += math.Abs(z)
		g.LogLoss += max(-z, 0) + math.Log1p(math.Exp(-math.Abs(z)))
	}
}

// count adds an entry's score to one of the groups, and to Pseudo where it is taken for a positive.
func (s *PartScores) count(observed, truth int8, pseudo bool, p, z float64) {
	if p != p { // of an entry that the loss leaves out: a loss that is not finite ends the run
		return
	}
	to := func(g **ScoreGroup) {
		if *g == nil {
			*g = &ScoreGroup{Histogram: make([]int, ScoreBins)}
		}
		(*g).add(p, z)
	}
	switch {
	case observed == 1:
		to(&s.Positive)
		return
	case observed == -1:
		to(&s.Negative)
	case truth == 1:
		to(&s.Hidden)
	case truth == 0:
		to(&s.Absent)
	default:
		to(&s.Unknown)
	}
	if pseudo {
		to(&s.Pseudo)
		if truth == 1 {
			s.Correct++
		}
	}
}

// truthOf gives the full labels of a row, -1 where they are not known.
func truthOf(ds *data.Dataset, row int, unknown []int8) []int8 {
	if ds.Labels == nil || ds.Full != nil && !ds.Full[row] {
		return unknown
	}
	return ds.LabelRow(row)
}

func unknownRow(c int) []int8 {
	row := make([]int8, c)
	for i := range row {
		row[i] = -1
	}
	return row
}

// countStep adds the scores of a step's parts to those of the epoch.
func (t *trainer) countStep(done []part) error {
	if t.procs.Rank() > 0 || t.dir.path == "" {
		return nil
	}
	if t.p.Scores == nil {
		t.p.Scores = &PartScores{}
	}
	for _, d := range done {
		if d.b.Logits == nil {
			continue
		}
		s := scoresOnWay{places: d.v.places, logits: d.b.Logits.Detach().ToDType(torch.Float32).Contiguous()}
		if given := t.method.Positives(d.b, t.values); given != nil {
			s.pseudo = given.ToDType(torch.Int8).Contiguous()
		}
		if !t.late {
			t.count(s)
			continue
		}
		var err error
		if s.logits, err = t.send(s.logits); err == nil && s.pseudo != nil {
			s.pseudo, err = t.send(s.pseudo)
		}
		if err != nil {
			return err
		}
		t.now.scores = append(t.now.scores, s)
	}
	return nil
}

// count adds the scores of some places.
func (t *trainer) count(s scoresOnWay) {
	logits := torch.ToSlice[float32](s.logits)
	var pseudo []int8
	if s.pseudo != nil {
		pseudo = torch.ToSlice[int8](s.pseudo)
	}
	c, usable, unknown, none := t.ds.C(), t.l.usable(), unknownRow(t.ds.C()), make([]int8, t.ds.C())
	for i, place := range s.places {
		row := usable[place]
		t.p.Scores.Images++
		observed, truth := t.ds.ObservedRow(row), truthOf(t.ds, row, unknown)
		if observed == nil {
			observed = none
		}
		for k, y := range observed {
			z := float64(logits[i*c+k])
			t.p.Scores.count(y, truth[k], pseudo != nil && pseudo[i*c+k] != 0, 1/(1+math.Exp(-z)), z)
		}
	}
}

// partScores sort the scores of rows with full labels into groups.
func partScores(ds *data.Dataset, s *Scores) (*PartScores, error) {
	out, c := &PartScores{Images: len(s.Rows)}, ds.C()
	truth, observed := ds.Gather(ds.Labels, s.Rows), make([]int8, len(s.Rows)*c)
	if ds.Observed != nil {
		observed = ds.Gather(ds.Observed, s.Rows)
	}
	for i, p := range s.Values {
		out.count(observed[i], truth[i], false, float64(p), math.NaN())
	}
	if out.Hidden == nil || out.Absent == nil {
		return out, nil
	}
	for i, y := range observed { // Separate leaves out what is observed as positive
		if y == -1 {
			observed[i] = 1
		}
	}
	sep, err := metric.Separate(s.Values, truth, observed, ScoreBins)
	if err != nil {
		return nil, err
	}
	out.W1 = &sep.W1
	return out, nil
}

// recordScores ends the record of an epoch's scores.
func (t *trainer) recordScores(n int, val *Scores) error {
	if t.dir.path == "" {
		return nil
	}
	e := EpochScores{Epoch: n, Train: t.p.Scores}
	if val != nil && len(val.Rows) > 0 && labelled(t.ds, data.Val) {
		var err error
		if e.Val, err = partScores(t.ds, val); err != nil {
			return err
		}
	}
	return t.dir.scores(e)
}

// scores appends the scores of an epoch; the first time it takes out what an attempt left that ended before its
// checkpoint.
func (r *runDir) scores(e EpochScores) error {
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
func ReadEpochScores(dir string) ([]EpochScores, error) {
	path := filepath.Join(dir, epochScoresFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []EpochScores
	whole := b[:bytes.LastIndexByte(b, '\n')+1] // a last line without an end was cut off
	for n, line := range bytes.SplitAfter(whole, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var e EpochScores
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%w: %s, line %d: %w", ErrData, path, n+1, err)
		}
		for _, p := range []*PartScores{e.Train, e.Val} {
			if p == nil {
				continue
			}
			for _, g := range []*ScoreGroup{p.Positive, p.Negative, p.Hidden, p.Absent, p.Unknown, p.Pseudo} {
				if g != nil && len(g.Histogram) != ScoreBins {
					return nil, fmt.Errorf("%w: %s, line %d: a histogram of %d bins, want %d", ErrData, path, n+1, len(g.Histogram), ScoreBins)
				}
			}
		}
		out = append(out, e)
	}
	return out, nil
}
