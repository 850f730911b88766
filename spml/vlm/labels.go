package vlm

import (
	"fmt"
	"slices"

	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/torch"
)

// Labels are pseudo-labels of B photos with what they rest on, row-major.
type Labels struct {
	Pseudo []int8    // [B, C]: 1, 0, -1, without regard to what is observed
	Scores []float32 // [B, C]: what the thresholds are compared with: VLPL's softmax, DAMP's s_final
	Global []float32 // DAMP: [B, C], the softmax of the whole photo
	Best   []int64   // DAMP: [B, C], the tile with the highest softmax
	Top    []float32 // DAMP: [B, C], that softmax
	Local  []float32 // DAMP: [B], the local threshold
}

// Labels turns cosines of photos [B, C], and for DAMP of their tiles [R, B, C], into labels. observed are their observed labels [B, C] in {1, 0, -1}.
func (s *Settings) Labels(global, tiles *torch.Tensor, observed []int8) (*Labels, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if global == nil || global.Dim() != 2 || len(observed) != global.Numel() {
		return nil, fmt.Errorf("%w: cosines want the shape [B, C] and %d observed labels as many", ErrSettings, len(observed))
	}
	if s.Method == VLPL {
		return s.vlpl(global, observed)
	}
	b, c := global.Size(0), global.Size(1)
	var seen *torch.Tensor
	if err := torch.Try(func() { seen = torch.FromSlice(s.seen(torch.ToSlice[float32](global), observed, c), b, c) }); err != nil {
		return nil, err
	}
	defer seen.Free()
	r, err := label.DAMP(global, tiles, seen, s.damp())
	if err != nil {
		return nil, err
	}
	out := &Labels{}
	err = torch.Try(func() {
		out.Pseudo, out.Scores, out.Local = torch.ToSlice[int8](r.Pseudo), torch.ToSlice[float32](r.Final), torch.ToSlice[float32](r.Local)
		out.Global, out.Top, out.Best = torch.ToSlice[float32](r.Global), torch.ToSlice[float32](r.Best), torch.ToSlice[int64](r.Tile)
		for _, t := range []*torch.Tensor{r.Pseudo, r.Before, r.Local, r.Agg, r.Final, r.Average, r.Global, r.Best, r.Tile} {
			t.Free()
		}
	})
	return out, err
}

// seen are the observed positives, of a row without any its most similar class.
func (s *Settings) seen(cosines []float32, observed []int8, c int) []int8 {
	out := make([]int8, len(observed))
	for i := 0; i < len(out); i += c {
		any, best := false, i
		for j := i; j < i+c; j++ {
			if observed[j] == 1 {
				out[j], any = 1, true
			}
			if cosines[j] > cosines[best] {
				best = j
			}
		}
		if !any {
			out[best] = 1
		}
	}
	return out
}

func (s *Settings) vlpl(global *torch.Tensor, observed []int8) (*Labels, error) {
	delta := s.Delta
	if s.Form == Default {
		delta = 0
	}
	pseudo, p, err := label.VLPL(global, s.Tau, s.Theta, delta)
	if err != nil {
		return nil, err
	}
	out := &Labels{}
	err = torch.Try(func() {
		out.Pseudo, out.Scores = torch.ToSlice[int8](pseudo), torch.ToSlice[float32](p)
		pseudo.Free()
		p.Free()
	})
	if c := global.Size(1); err == nil && s.Form == Default {
		for i := 0; i < len(out.Pseudo); i += c {
			s.negatives(out.Pseudo[i:i+c], out.Scores[i:i+c], observed[i:i+c])
		}
	}
	return out, err
}

// negatives marks the floor(δ·C) least similar classes of those that are no positives, neither observed nor pseudo. Ties go to the lower class.
func (s *Settings) negatives(pseudo []int8, scores []float32, observed []int8) {
	var free []int
	for c := range pseudo {
		if pseudo[c] == 0 && observed[c] != 1 {
			free = append(free, c)
		}
	}
	slices.SortStableFunc(free, func(a, b int) int {
		switch {
		case scores[a] < scores[b]:
			return -1
		case scores[a] > scores[b]:
			return 1
		}
		return 0
	})
	for _, c := range free[:min(len(free), int(s.Delta*float64(len(pseudo))))] {
		pseudo[c] = -1
	}
}

// Merge puts observed labels over pseudo-labels: the final ones.
func Merge(pseudo, observed []int8) []int8 {
	out := slices.Clone(pseudo)
	for i, y := range observed {
		if y != 0 {
			out[i] = y
		}
	}
	return out
}
