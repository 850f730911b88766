package decoder

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
)

// SinePosition is the fixed position code [dim, h, w] of LAC: the first half of the channels encodes y, the second x. With F = dim/2 features an axis,
// ŷ = (y+1)/(h+1e-6)·2π and d_j = 10000^(2j/F), channel 2j is sin(ŷ/d_j) and 2j+1 cos(ŷ/d_j).
//
// It is computed in float64 and rounded to dtype; the released model computes it in float32.
//
// Source: Carion et al. 2020 (DETR), as in LAC's released code.
func SinePosition(dim, h, w int, dtype torch.DType) (p *torch.Tensor, err error) {
	if dim < 4 || dim%4 != 0 || h < 1 || w < 1 {
		return nil, fmt.Errorf("decoder: a position code wants a multiple of 4 channels and a map, got %d channels on %d×%d", dim, h, w)
	}
	err = torch.Try(func() {
		torch.Scope(func(s *torch.Arena) {
			p = torch.FromSlice(sinePosition(dim, h, w), dim, h, w).ToDType(dtype)
			s.Keep(p)
		})
	})
	return p, err
}

func sinePosition(dim, h, w int) []float64 {
	f := dim / 2
	p := make([]float64, dim*h*w)
	code := func(channel, at, n int) float64 {
		j := channel / 2
		angle := float64(at+1) / (float64(n) + 1e-6) * 2 * math.Pi / math.Pow(10000, 2*float64(j)/float64(f))
		if channel%2 == 0 {
			return math.Sin(angle)
		}
		return math.Cos(angle)
	}
	for c := range f {
		y, x := p[c*h*w:(c+1)*h*w], p[(f+c)*h*w:(f+c+1)*h*w]
		for i := range h {
			v := code(c, i, h)
			for j := range w {
				y[i*w+j] = v
			}
		}
		for j := range w {
			v := code(c, j, w)
			for i := range h {
				x[i*w+j] = v
			}
		}
	}
	return p
}
