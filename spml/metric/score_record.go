package metric

import (
	"fmt"
	"math"
	"slices"
)

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

// Count adds an entry's score p to one of the groups, and to Pseudo where the method takes it for a positive.
// observed is
// 1, 0 or -1, truth 1 or 0, or -1 where it is not known; z is the logit, NaN where only p is known.
func (s *PartScores) Count(observed, truth int8, pseudo bool, p, z float64) {
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

// ScoresByLabel sorts scores σ(z) [n, C] of n images into groups by labels of the same shape: truth 0 or 1, observed
// 1, 0
// or -1.
func ScoresByLabel(scores []float32, truth, observed []int8, n int) (*PartScores, error) {
	out := &PartScores{Images: n}
	for i, p := range scores {
		out.Count(observed[i], truth[i], false, float64(p), math.NaN())
	}
	if out.Hidden == nil || out.Absent == nil {
		return out, nil
	}
	seen := slices.Clone(observed)
	for i, y := range seen { // Separate leaves out what is observed as positive
		if y == -1 {
			seen[i] = 1
		}
	}
	sep, err := Separate(scores, truth, seen, ScoreBins)
	if err != nil {
		return nil, err
	}
	out.W1 = &sep.W1
	return out, nil
}

// Check refuses what no record of scores is.
func (e *EpochScores) Check() error {
	for _, p := range []*PartScores{e.Train, e.Val} {
		if p == nil {
			continue
		}
		for _, g := range []*ScoreGroup{p.Positive, p.Negative, p.Hidden, p.Absent, p.Unknown, p.Pseudo} {
			if g != nil && len(g.Histogram) != ScoreBins {
				return fmt.Errorf("a histogram of %d bins, want %d", len(g.Histogram), ScoreBins)
			}
		}
	}
	return nil
}
