package train

import (
	"math"

	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/torch"
)

// drawHead draws the linear classifier z = x Wᵀ + b as the reference runs do: W [C, D] row-major, then b [C], both uniform in
// ±1/√D from numpy's generator, rounded to float32.
func drawHead(g *random.RandomState, classes, dim int) (weight, bias *torch.Tensor) {
	limit := 1 / math.Sqrt(float64(dim))
	draw := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(g.Uniform(-limit, limit))
		}
		return v
	}
	weight = torch.FromSlice(draw(classes*dim), classes, dim)
	bias = torch.FromSlice(draw(classes), classes)
	return weight, bias
}
