package label

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gospml/gospml/torch"
)

// ClassPrior is CRISP's estimate of how frequent a class is.
type ClassPrior struct {
	Prior     float64 // π; NaN where no image shows the class
	Threshold float64 // the score whose share was taken
	Objective float64 // what the threshold minimises
}

// ClassPriors estimates the frequency of each class from scores [n, C] and observed labels [n, C] (1, 0, -1), as slices
// of rows. q(z) is the share of all scores at or above z, q⁺(z) that of the images observed with the class; ẑ
// minimises
// q/q⁺ + (1+τ)/q⁺·(√(ln(4/δ)/2n) + √(ln(4/δ)/2n⁺)) among the scores, the lowest among equals, and π =
// q(ẑ)/q⁺(ẑ), at
// most 1. Entries that are known to be negative are left out, and count as such: their share is of frequency 0.
//
// It assumes that the observed images of a class are a random draw of all that have it, and tends to be too high where
// scores overlap. O(n·log n) a class.
//
// Source: Liu et al. 2023 (CRISP), arXiv 2309.13886.
func ClassPriors(scores []float64, observed []int8, classes int, delta, tau float64) ([]ClassPrior, error) {
	if classes < 1 || len(scores) != len(observed) || len(scores)%classes != 0 || !(delta > 0 &&
		delta <= 1) || !(tau >= 0) {
		return nil, fmt.Errorf("label: class priors of %d scores, %d labels, %d classes, δ %v, τ %v", len(scores),
			len(observed), classes, delta, tau)
	}
	type seen struct {
		score    float64
		positive bool
	}
	out := make([]ClassPrior, classes)
	rows := make([]seen, 0, len(scores)/classes)
	for c := range out {
		rows = rows[:0]
		positives := 0
		for i := c; i < len(scores); i += classes {
			if observed[i] == -1 {
				continue
			}
			if math.IsNaN(scores[i]) {
				return nil, fmt.Errorf("label: the score of row %d, class %d is no number", i/classes, c)
			}
			rows = append(rows, seen{scores[i], observed[i] == 1})
			if observed[i] == 1 {
				positives++
			}
		}
		out[c] = ClassPrior{math.NaN(), math.NaN(), math.Inf(1)}
		if positives == 0 {
			continue
		}
		slices.SortFunc(rows, func(a, b seen) int { return cmp.Compare(a.score, b.score) })
		n, above := float64(len(rows)), positives
		slack := (1 + tau) * (math.Sqrt(math.Log(4/delta)/(2*n)) + math.Sqrt(math.Log(4/delta)/(2*float64(positives))))
		for i, r := range rows {
			if (i == 0 || r.score != rows[i-1].score) && above > 0 {
				q, shown := float64(len(rows)-i)/n, float64(above)/float64(positives)
				if o := q/shown + slack/shown; o < out[c].Objective {
					out[c] = ClassPrior{min(q/shown, 1), r.score, o}
				}
			}
			if r.positive {
				above--
			}
		}
		out[c].Prior *= n / float64(len(scores)/classes)
	}
	return out, nil
}

// PriorConfig are the numbers of CRISP's estimator.
type PriorConfig struct {
	Delta, Tau float64
	Warmup     int // epochs before the first estimate is used: it is made at the end of the last of them
	Every      int // epochs between two estimates
	// Given, if not nil, are frequencies [C] that are known, NaN for none: nothing is estimated then.
	Given []float64
}

// Priors estimates the frequencies of all classes between epochs. A class without an estimate keeps the one before.
type Priors struct {
	None
	c        PriorConfig
	observed []int8
	prior    *torch.Tensor // [C]
	note     func(string)
}

// NewPriors starts from observed labels [n, C]. note, if not nil, is told what each estimate adds up to.
func NewPriors(observed *torch.Tensor, c PriorConfig, note func(string)) (*Priors, error) {
	if err := matrix("observed labels", observed); err != nil {
		return nil, err
	}
	if c.Warmup < 1 || c.Every < 1 {
		return nil, fmt.Errorf("label: class priors after %d epochs, then every %d: want 1 or more", c.Warmup, c.Every)
	}
	if c.Given != nil && len(c.Given) != observed.Size(1) {
		return nil, fmt.Errorf("label: %d given class priors for %d classes", len(c.Given), observed.Size(1))
	}
	p := &Priors{c: c, note: note}
	err := build(func(s *torch.Arena) {
		p.observed = torch.ToSlice[int8](observed.ToDevice(torch.CPU).ToDType(torch.Int8).Contiguous())
		p.prior = s.Keep(torch.Full(torch.S(observed.Size(1)), math.NaN(),
			torch.Float64).ToDType(torch.Float32).ToDevice(observed.Device()))
		if c.Given != nil {
			p.prior.Copy_(torch.FromSlice(c.Given, len(c.Given)))
		}
	})
	return p, err
}

// Prior are the estimates [C], NaN where there is none.
func (p *Priors) Prior() *torch.Tensor { return p.prior }

// Fill gives a batch the estimates.
func (p *Priors) Fill(s *Step) error {
	s.Batch.Prior = p.prior
	return nil
}

// End makes the estimates of the epochs after it.
func (p *Priors) End(epoch int, scores func() (*torch.Tensor, error)) error {
	if since := epoch - p.c.Warmup; p.c.Given != nil || since < 0 || since%p.c.Every != 0 {
		return nil
	}
	s, err := scores()
	if err != nil {
		return err
	}
	var values []float64
	now := make([]float32, p.prior.Size(0))
	err = torch.Try(func() {
		torch.Scope(func(*torch.Arena) {
			values = torch.ToSlice[float64](s.Detach().ToDevice(torch.CPU).ToDType(torch.Float64).Contiguous())
			copy(now, torch.ToSlice[float32](p.prior.ToDevice(torch.CPU)))
		})
	})
	if err != nil {
		return err
	}
	all, err := ClassPriors(values, p.observed, len(now), p.c.Delta, p.c.Tau)
	if err != nil {
		return err
	}
	sum := 0.0
	for c, e := range all {
		if !math.IsNaN(e.Prior) {
			now[c] = float32(e.Prior)
		}
		if !math.IsNaN(float64(now[c])) {
			sum += float64(now[c])
		}
	}
	if p.note != nil {
		p.note(fmt.Sprintf("epoch %d: the estimated class frequencies add up to %.2f labels a photo", epoch, sum))
	}
	return torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(*torch.Arena) { p.prior.Copy_(torch.FromSlice(now, len(now))) })
		})
	})
}

// State holds the estimates.
func (p *Priors) State() State {
	return State{Tensors: map[string]*torch.Tensor{"prior": p.prior}}
}

// LoadState restores them.
func (p *Priors) LoadState(s State) error { return s.restore("prior", p.prior) }
