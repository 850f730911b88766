package label

import (
	"fmt"

	"github.com/gospml/gospml/torch"
)

// DAMPConfig are the numbers of DAMP.
type DAMPConfig struct {
	Tau      float64 // τ, temperature of the softmax over classes
	Nu       float64 // ν, upper bound of the local threshold
	TopK     int     // positives come from the k best classes
	Zeta     float64 // ζ, least score of a positive
	Negative float64 // Δ, share of the classes that are negative
	// Cancel writes 0 in the place of -1, as the released code does, whose negatives can only take positives back.
	Cancel bool
}

// DAMPResult holds pseudo-labels ℓ [B, C] (int8) and the scores they rest on.
type DAMPResult struct {
	Pseudo  *torch.Tensor
	Before  *torch.Tensor // ℓ before the negatives were written
	Final   *torch.Tensor // s_final = ½(s_global + s_agg)
	Average *torch.Tensor // s_avg = ½(s_global + mean of the patches)
}

// DAMP makes pseudo-labels from the cosines of the whole image [B, C] and of its patches [R, B, C] with the class texts, and the
// observed labels [B, C] in {1, 0}.
//
// For each image s are softmaxes over the classes, ω and ψ a class's best and worst patch, ζ_loc = min(s_global[observed class], ν);
// s_agg = ω where ω > ζ_loc, else ψ. Positive: among the k best of s_final with s_final ≥ ζ. Negative: the floor(Δ·C) lowest s_avg,
// written last. Ties go to the lower class.
//
// Source: Tran et al. 2025 (AEVLP), released code. The paper compares with ≥ where the code has >.
func DAMP(global, patches, observed *torch.Tensor, c DAMPConfig) (*DAMPResult, error) {
	if err := matrix("cosines", global); err != nil {
		return nil, err
	}
	if err := same("observed labels", observed, global); err != nil {
		return nil, err
	}
	b, classes := global.Size(0), global.Size(1)
	if patches == nil || patches.Dim() != 3 || patches.Size(0) < 1 || patches.Size(1) != b || patches.Size(2) != classes {
		return nil, fmt.Errorf("label: DAMP wants cosines of patches [R, %d, %d]", b, classes)
	}
	if !(c.Tau > 0) || c.TopK < 0 || !(c.Negative >= 0 && c.Negative <= 1) {
		return nil, fmt.Errorf("label: DAMP wants τ > 0, k ≥ 0 and Δ in [0, 1], got %v, %d, %v", c.Tau, c.TopK, c.Negative)
	}
	r := &DAMPResult{}
	err := torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(s *torch.Arena) {
				sg, sl := global.DivScalar(c.Tau).Softmax(1), patches.DivScalar(c.Tau).Softmax(2)
				best, worst := sl.Amax([]int{0}, false), sl.Amin([]int{0}, false)
				seen := sg.Gather(1, observed.ToDType(torch.Float32).Argmax(1, true))
				agg := torch.Where(best.Gt(seen.ClampMax(c.Nu)), best, worst)
				r.Final = sg.Add(agg).MulScalar(0.5)
				r.Average = sg.Add(sl.MeanDim([]int{0}, false)).MulScalar(0.5)
				_, order := r.Final.SortStable(true, 1, true)
				top := torch.Zeros(global.Shape(), torch.Bool).ScatterValue(1, order.Slice(1, 0, min(c.TopK, classes), 1), true)
				r.Before = top.LogicalAnd(r.Final.GeScalar(c.Zeta)).ToDType(torch.Int8)
				r.Pseudo = r.Before.Clone()
				if k := int(c.Negative * float64(classes)); k > 0 {
					value := -1
					if c.Cancel {
						value = 0
					}
					r.Pseudo = r.Pseudo.ScatterValue(1, lowest(r.Average, k), value)
				}
				s.Keep(r.Pseudo, r.Before, r.Final, r.Average)
			})
		})
	})
	return r, err
}
