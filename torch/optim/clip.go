package optim

import (
	"math"

	"github.com/gospml/gospml/torch"
)

// ClipGradNorm scales the gradients of all parameters by one factor so that together they have at most this norm, and
// returns the norm before, as a tensor of one element (torch.nn.utils.clip_grad_norm_). normType is p, 2 as a rule, or
// math.Inf(1). Parameters without a gradient do not count; without any gradient the norm is 0. A norm that is not finite makes
// every gradient NaN, as in PyTorch.
func ClipGradNorm(params []*torch.Tensor, maxNorm, normType float64) *torch.Tensor {
	var total *torch.Tensor
	torch.Scope(func(s *torch.Arena) {
		torch.NoGrad(func() {
			grads := gradients(params)
			if len(grads) == 0 {
				total = s.Keep(torch.Zeros(torch.S()))
				return
			}
			norms := torch.ForeachNorm(grads, normType)
			for i, n := range norms {
				norms[i] = n.ToDevice(norms[0].Device())
			}
			total = torch.Stack(norms, 0).VectorNorm(normType, nil, false)
			factor := total.AddScalar(1e-6).Reciprocal().MulScalar(maxNorm).ClampMax(1.0)
			for _, g := range byDevice(grads) {
				torch.ForeachMulTensor_(g, factor.ToDevice(g[0].Device()))
			}
			s.Keep(total)
		})
	})
	return total
}

// ClipGradValue limits every element of the gradients to ±limit (torch.nn.utils.clip_grad_value_).
func ClipGradValue(params []*torch.Tensor, limit float64) {
	if !(limit >= 0) || math.IsInf(limit, 0) {
		refuse("clip", "the limit must be a number of at least 0, not %v", limit)
	}
	torch.Scope(func(*torch.Arena) {
		torch.NoGrad(func() {
			for _, g := range byDevice(gradients(params)) {
				torch.ForeachClampMin_(g, -limit)
				torch.Call("aten::_foreach_clamp_max_.Scalar", g, limit)
			}
		})
	})
}

func gradients(params []*torch.Tensor) (grads []*torch.Tensor) {
	for _, g := range torch.Grads(params) {
		if g != nil {
			grads = append(grads, g)
		}
	}
	return grads
}

func byDevice(ts []*torch.Tensor) [][]*torch.Tensor {
	at := map[torch.Device]int{}
	var lists [][]*torch.Tensor
	for _, t := range ts {
		d := t.Device()
		i, ok := at[d]
		if !ok {
			i = len(lists)
			at[d], lists = i, append(lists, nil)
		}
		lists[i] = append(lists[i], t)
	}
	return lists
}
