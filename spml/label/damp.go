package label

import (
	"fmt"
	"slices"

	"github.com/gospml/gospml/torch"
)

// DAMPForm says which description of DAMP is followed where they differ.
type DAMPForm string

const (
	// DAMPDefault takes the floor(Δ·C) lowest s_avg for negatives, but neither pseudo-positives nor the observed class.
	DAMPDefault DAMPForm = ""
	// DAMPPaper takes every class with s_avg up to the Δ-quantile (linear interpolation), whatever it was before, and compares ≥ ζ_loc.
	DAMPPaper DAMPForm = "paper"
	// DAMPCount takes the floor(Δ·C) lowest s_avg, whatever they were before.
	DAMPCount DAMPForm = "count"
	// DAMPCode compares > ζ_loc and writes 0 in the place of -1, as the released code does, whose negatives can only take positives back.
	DAMPCode DAMPForm = "code"
)

// DAMPConfig are the numbers of DAMP.
type DAMPConfig struct {
	Tau      float64 // τ, temperature of the softmax over classes
	Nu       float64 // ν, upper bound of the local threshold
	TopK     int     // positives come from the k best classes
	Zeta     float64 // ζ, least score of a positive
	Negative float64 // Δ, share of the classes that are negative
	Form     DAMPForm
}

// DAMPResult holds pseudo-labels ℓ [B, C] (int8) and the scores they rest on.
type DAMPResult struct {
	Pseudo  *torch.Tensor
	Before  *torch.Tensor // ℓ before the negatives were written
	Local   *torch.Tensor // ζ_loc [B]
	Agg     *torch.Tensor // s_agg
	Final   *torch.Tensor // s_final = ½(s_global + s_agg)
	Average *torch.Tensor // s_avg = ½(s_global + mean of the patches)
	Global  *torch.Tensor // s_global
	Best    *torch.Tensor // ω
	Tile    *torch.Tensor // the patch that has ω, int64 [B, C]
}

// DAMP makes pseudo-labels from the cosines of the whole image [B, C] and of its patches [R, B, C] with the class texts, and the
// observed labels [B, C] in {1, 0}.
//
// For each image s are softmaxes over the classes, ω and ψ a class's best and worst patch, ζ_loc = min(s_global[observed class], ν);
// s_agg = ω where ω ≥ ζ_loc, else ψ. Positive: among the k best of s_final with s_final ≥ ζ. Negative: by the form. Ties go to the
// lower class. The observed positive is not written into ℓ.
//
// Source: Tran et al. 2025 (AEVLP), released code and supplement.
func DAMP(global, patches, observed *torch.Tensor, c DAMPConfig) (*DAMPResult, error) {
	if err := c.check(global, patches, observed); err != nil {
		return nil, err
	}
	if fusible(global, patches, observed) {
		return fusedDAMP(global, patches, observed, c)
	}
	return ComposedDAMP(global, patches, observed, c)
}

func (c DAMPConfig) check(global, patches, observed *torch.Tensor) error {
	if err := matrix("cosines", global); err != nil {
		return err
	}
	if err := same("observed labels", observed, global); err != nil {
		return err
	}
	b, classes := global.Size(0), global.Size(1)
	if patches == nil || patches.Dim() != 3 || patches.Size(0) < 1 || patches.Size(1) != b || patches.Size(2) != classes {
		return fmt.Errorf("label: DAMP wants cosines of patches [R, %d, %d]", b, classes)
	}
	if !slices.Contains(dampForms, c.Form) {
		return fmt.Errorf("label: DAMP has no form %q; it has paper, count, code and the default, which is empty", c.Form)
	}
	if !(c.Tau > 0) || c.TopK < 0 || !(c.Negative >= 0 && c.Negative <= 1) {
		return fmt.Errorf("label: DAMP wants τ > 0, k ≥ 0 and Δ in [0, 1], got %v, %d, %v", c.Tau, c.TopK, c.Negative)
	}
	return nil
}

// dampForms in the order of the operator's numbers.
var dampForms = []DAMPForm{DAMPDefault, DAMPPaper, DAMPCount, DAMPCode}

// ComposedDAMP is DAMP in libtorch's operators alone: what the fused operator is held to, for any floating type.
func ComposedDAMP(global, patches, observed *torch.Tensor, c DAMPConfig) (*DAMPResult, error) {
	if err := c.check(global, patches, observed); err != nil {
		return nil, err
	}
	classes := global.Size(1)
	r := &DAMPResult{}
	err := torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(s *torch.Arena) {
				sg, sl := global.DivScalar(c.Tau).Softmax(1), patches.DivScalar(c.Tau).Softmax(2)
				best, tile := sl.MaxDim(0, false)
				worst := sl.Amin([]int{0}, false)
				seen := sg.Gather(1, observed.ToDType(torch.Float32).Argmax(1, true))
				r.Local, r.Global, r.Best, r.Tile = seen.ClampMax(c.Nu), sg, best, tile
				if c.Form == DAMPCode {
					r.Agg = torch.Where(best.Gt(r.Local), best, worst)
				} else {
					r.Agg = torch.Where(best.Ge(r.Local), best, worst)
				}
				r.Local = r.Local.Squeeze(1)
				r.Final = sg.Add(r.Agg).MulScalar(0.5)
				r.Average = sg.Add(inOrder(sl).DivScalar(sl.Size(0))).MulScalar(0.5)
				_, order := r.Final.SortStable(true, 1, true)
				top := torch.Zeros(global.Shape(), torch.Bool, global.Device()).ScatterValue(1, order.Slice(1, 0, min(c.TopK, classes), 1), true)
				r.Before = top.LogicalAnd(r.Final.GeScalar(c.Zeta)).ToDType(torch.Int8)
				r.Pseudo = c.negatives(r.Before, r.Average, observed)
				s.Keep(r.Pseudo, r.Before, r.Local, r.Agg, r.Final, r.Average, r.Global, r.Best, r.Tile)
			})
		})
	})
	return r, err
}

// inOrder adds the patches [R, B, C] one after the other. The order of libtorch's own sum depends on where a photo lies in the batch.
func inOrder(patches *torch.Tensor) *torch.Tensor {
	parts := patches.Unbind(0)
	sum := parts[0]
	for _, p := range parts[1:] {
		sum = sum.Add(p)
	}
	return sum
}

// negatives writes the negatives into the positives ℓ.
func (c DAMPConfig) negatives(before, average, observed *torch.Tensor) *torch.Tensor {
	k := int(c.Negative * float64(before.Size(1)))
	if c.Form == DAMPPaper {
		low := average.Le(average.Quantile(c.Negative, 1, true))
		return before.MaskedFill(low, -1)
	}
	if k == 0 {
		return before.Clone()
	}
	switch c.Form {
	case DAMPCode:
		return before.ScatterValue(1, lowest(average, k), 0)
	case DAMPCount:
		return before.ScatterValue(1, lowest(average, k), -1)
	}
	low := torch.Zeros(before.Shape(), torch.Bool, before.Device()).ScatterValue(1, lowest(average, k), true)
	return before.MaskedFill(low.LogicalAnd(before.EqScalar(0)).LogicalAnd(observed.EqScalar(1).LogicalNot()), -1)
}
