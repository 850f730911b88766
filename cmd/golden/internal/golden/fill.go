package golden

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gospml/gospml/internal/goldenfill"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// det is det(name, shape, scale) of the goldens.
func det(name string, dtype torch.DType, scale float64, shape ...int) *torch.Tensor {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return torch.FromSlice(goldenfill.Values(name, n, 0, scale), shape...).ToDType(dtype)
}

// fillModule fills every float tensor of a module by its key; rule says offset and scale.
func fillModule(m any, rule func(key string, shape []int) (offset, scale float64)) {
	torch.NoGrad(func() {
		nn.Walk(m, func(e nn.Entry) {
			if !e.Tensor.DType().IsFloat() {
				return
			}
			offset, scale := rule(e.Key, e.Tensor.Shape())
			torch.Scope(func(*torch.Arena) {
				v := torch.FromSlice(goldenfill.Values(e.Key, e.Tensor.Numel(), offset, scale)).View(e.Tensor.Shape()...)
				e.Tensor.Copy_(v.ToDType(e.Tensor.DType()))
			})
		})
	})
}

// summary describes a tensor as the files do: shape, sum, sum of squares, largest magnitude and the first values. Compare takes as many
// of those as the file has.
func summary(t *torch.Tensor) map[string]any {
	v := torch.ToSlice[float64](t.Detach().ToDType(torch.Float64).Contiguous())
	sum, sumsq, largest := 0.0, 0.0, 0.0
	for _, x := range v {
		sum, sumsq, largest = sum+x, sumsq+x*x, max(largest, x, -x)
	}
	return map[string]any{"shape": t.Shape(), "sum": sum, "sumsq": sumsq, "abs_max": largest, "first": v[:min(len(v), 64)]}
}

var detCall = regexp.MustCompile(`^det\('([^']+)',\s*\[([0-9, ]+)\],\s*scale ([0-9.]+)\)`)

// described makes the tensor that a text like "det('input:x',[1,6,5],scale 2)" describes.
func described(n node, dtype torch.DType) (*torch.Tensor, error) {
	text, _ := n.v.(string)
	m := detCall.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("%s: want det('name',[shape],scale s), got %v", n.at, n.v)
	}
	var shape []int
	for _, d := range strings.Split(m[2], ",") {
		v, err := strconv.Atoi(strings.TrimSpace(d))
		if err != nil {
			return nil, err
		}
		shape = append(shape, v)
	}
	scale, err := strconv.ParseFloat(m[3], 64)
	return det(m[1], dtype, scale, shape...), err
}
