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
	var shape []int
	if global != nil {
		shape = global.Shape()
	}
	if len(shape) != 2 || len(observed) != shape[0]*shape[1] {
		return nil, fmt.Errorf("%w: cosines want the shape [B, C] and %d observed labels as many", ErrSettings, len(observed))
	}
	if s.Method == VLPL {
		return s.vlpl(global, observed)
	}
	var v *label.DAMPValues
	var bad error
	err := torch.Try(func() {
		torch.Scope(func(*torch.Arena) {
			seen := torch.FromSlice(s.seen(func() []float32 { return torch.ToSlice[float32](global) }, observed, shape[1]), shape...)
			if d := global.Device(); d.Type != torch.DeviceCPU {
				seen = seen.ToDevice(d)
			}
			v, bad = label.DAMPSlices(global, tiles, seen, s.damp())
		})
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, err
	}
	return &Labels{Pseudo: v.Pseudo, Scores: v.Final, Global: v.Global, Best: v.Tile, Top: v.Best, Local: v.Local}, nil
}

// seen are the observed labels; in a row without a positive the most similar class stands in for one.
func (s *Settings) seen(cosines func() []float32, observed []int8, c int) []int8 {
	var cos []float32
	out := observed
	for i := 0; i < len(observed); i += c {
		if slices.Contains(observed[i:i+c], 1) {
			continue
		}
		if cos == nil {
			cos, out = cosines(), slices.Clone(observed)
		}
		best := i
		for j := i; j < i+c; j++ {
			if cos[j] > cos[best] {
				best = j
			}
		}
		out[best] = 1
	}
	return out
}

func (s *Settings) vlpl(global *torch.Tensor, observed []int8) (*Labels, error) {
	var pseudo, p *torch.Tensor
	var err error
	if s.Form == Default {
		var seen *torch.Tensor
		if err := torch.Try(func() { seen = torch.FromSlice(observed, global.Shape()...).ToDevice(global.Device()) }); err != nil {
			return nil, err
		}
		defer seen.Free()
		pseudo, p, err = label.VLPLKeep(global, seen, s.Tau, s.Theta, s.Delta)
	} else {
		pseudo, p, err = label.VLPL(global, s.Tau, s.Theta, s.Delta)
	}
	if err != nil {
		return nil, err
	}
	out := &Labels{}
	err = torch.Try(func() {
		out.Pseudo, out.Scores = torch.ToSlice[int8](pseudo), torch.ToSlice[float32](p)
		pseudo.Free()
		p.Free()
	})
	return out, err
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
