package loss

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
)

// Contrast holds label-wise embeddings of unit norm, one pair of views for each (image, class) that counts as positive:
// those of the batch, with gradients, and those of the memory queue.
type Contrast struct {
	Features *torch.Tensor // [M, 2, D]
	Labels   *torch.Tensor // [M], class ids from 1; below 0: the pair does not count, its features are any numbers
	Current  *torch.Tensor // [M]: 1 where the pair belongs to the batch; nil = all do
}

// Label-aware global consistency, the second stage.
func init() {
	mustRegister(Entry{
		ID:         "lac",
		WholeBatch: true,
		Aliases:    []string{"label-aware-global-consistency"},
		Title:      "label-aware global consistency",
		Formula:    "AN + λ·PLC + λ_LAC·L, L = -1/2M·Σ_i 1/|P(i)|·Σ_{j∈P(i)} [S_ij - log Σ_{a≠i} exp S_ia] over batch and queue, S = X·Xᵀ/τ",
		Source:     "Xie et al. 2022 (LAC), eq. (7); L as in the code (Khosla et al. 2020)",
		Notes:      "The paper's eq. (7) has the batch alone as anchors, other classes alone in the denominator and 1/(B·C) before sums (form=paper). Trained end to end it hurts: the second stage starts from PLC's best weights. Parts: loss_an, loss_plc, loss_lac.",
		Params: append(
			plcParams(0.9, "code, milkxie/SPML-LAC @ a630052, second_stage.py: threshold"),
			Param{
				Name:    "lam_lac",
				Doc:     "λ_LAC",
				Source:  "paper, lac Sec. 4.1: lambda_LAC, stage two",
				Default: 1,
				Max:     inf,
			},
			Param{
				Name:    "temperature",
				Doc:     "τ",
				Source:  "code, milkxie/SPML-LAC @ a630052, second_stage.py: temperature",
				Default: 0.5,
				Min:     1e-6,
				Max:     inf,
			},
		),
		Forms: map[string]Form{
			"paper": {Doc: "eq. (7), masks and sums of the paper", Set: Values{"form": 1}, Reduction: BatchMean},
		},
		Needs:     Observed | StrongView | Embeddings,
		Estimator: "queue",
		Tables:    []string{"LAC"},
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				an, consistency, _ := plc(&b, v, o)
				var contrast *torch.Tensor
				if v.is("form") {
					contrast = b.paperContrast(v["temperature"])
				} else {
					contrast = SupervisedContrast(wide(b.Contrast.Features), b.Contrast.Labels, v["temperature"])
				}
				b.report("loss_lac", contrast)
				return an.Add(consistency.MulScalar(v["lam"])).Add(contrast.MulScalar(v["lam_lac"]))
			}, nil
		},
		Fused: fusedLAC(),
	})
}

// paperContrast is eq. (7) with the batch's first views as anchors, divided by B·C of the rows that count.
func (b *Batch) paperContrast(tau float64) *torch.Tensor {
	x, c := wide(b.Contrast.Features), b.Contrast
	anchors, labels, use := x.Select(1, 0), c.Labels, c.Current
	if use != nil && x.Device().Type == torch.DeviceCPU { // elsewhere its size would be waited for
		rows := use.EqScalar(1).Nonzero().Flatten(0, -1)
		anchors, labels, use = anchors.IndexSelect(0, rows), labels.IndexSelect(0, rows), nil
	}
	sum := interClass(anchors, x.Select(1, 1), labels, c.Labels, use, tau)
	if b.Rows != nil {
		return sum.Div(b.Rows.NeScalar(0).Sum().MulScalar(-b.Logits.Size(1)))
	}
	return sum.DivScalar(-float64(b.Logits.Numel()))
}

// check says what is wrong with embeddings [M, 2, D] and labels [M].
func (c *Contrast) check() error {
	f, l := c.Features, c.Labels
	if f == nil || l == nil || f.Dim() != 3 || f.Size(1) != 2 || l.Dim() != 1 || l.Size(0) != f.Size(0) {
		return fmt.Errorf("loss: embeddings want features [M, 2, D] and labels [M]")
	}
	return nil
}

// SupervisedContrast is the released contrast of views x [M, 2, D] with class ids [M]: every vector is an anchor, its
// positives are all others of its class, the denominator runs over all others. The diagonal is left out before the
// maximum, so that a small τ cannot empty the denominator. Pairs with an id below 0 do not count. No pair: 0.
func SupervisedContrast(x, labels *torch.Tensor, tau float64) *torch.Tensor {
	if x.Size(0) == 0 {
		return x.Sum()
	}
	all := torch.Cat([]*torch.Tensor{x.Select(1, 0), x.Select(1, 1)}, 0) // [2M, D]
	id := torch.Cat([]*torch.Tensor{labels, labels}, 0)
	self := torch.Eye(all.Size(0), torch.Bool, x.Device())
	s := all.Matmul(all.T()).DivScalar(tau)
	counts := mask(id.GeScalar(0), s)
	left := self.LogicalOr(id.LtScalar(0).Unsqueeze(0))
	others := s.MaskedFill(left, math.Inf(-1))
	// The bounds change nothing where there are others, whose sum is at least 1: they keep rows without one finite. No
	// bound is a value that occurs, because libtorch's derivative there depends on its version.
	others = others.Sub(others.Detach().Amax([]int{1}, true).ClampMin(-math.MaxFloat32))
	logProbability := others.MaskedFill(left, 0).Sub(others.Exp().SumDim([]int{1}, true).ClampMin(0.5).Log())
	p := mask(id.Unsqueeze(1).Eq(id.Unsqueeze(0)).LogicalAnd(left.LogicalNot()), s)
	mean := p.Mul(logProbability).SumDim([]int{1}, false).Div(p.SumDim([]int{1}, false).ClampMin(1))
	return mean.Mul(counts).Sum().Div(counts.Sum().ClampMin(1).Neg())
}

// InterClassContrast is the paper's eq. (7): anchors [A, D] against contrasts [K, D], positives of the anchor's class
// summed, the denominator over other classes only, divided by total = B·C. Anchors without another class are left out,
// and so are pairs with an id below 0.
func InterClassContrast(anchors, contrasts, anchorLabels, contrastLabels *torch.Tensor, tau, total float64) *torch.Tensor {
	return interClass(anchors, contrasts, anchorLabels, contrastLabels, nil, tau).DivScalar(-total)
}

// interClass is the sum of InterClassContrast. use [A], if not nil, is 0 for anchors that do not count.
func interClass(anchors, contrasts, anchorLabels, contrastLabels, use *torch.Tensor, tau float64) *torch.Tensor {
	s := anchors.Matmul(contrasts.T()).DivScalar(tau)
	if s.Numel() == 0 {
		return s.Sum()
	}
	empty := contrastLabels.LtScalar(0).Unsqueeze(0)
	same := anchorLabels.Unsqueeze(1).Eq(contrastLabels.Unsqueeze(0)).LogicalOr(empty)
	some := same.LogicalNot().AnyDim(1, true).LogicalAnd(anchorLabels.GeScalar(0).Unsqueeze(1))
	if use != nil {
		some = some.LogicalAnd(use.NeScalar(0).Unsqueeze(1))
	}
	// Rows without another class keep finite entries for the logarithm and get no weight.
	inter := s.MaskedFill(same.LogicalAnd(some), math.Inf(-1))
	top := inter.Detach().Amax([]int{1}, true)
	positives := mask(same.LogicalAnd(some).LogicalAnd(empty.LogicalNot()), s)
	return positives.Mul(s.Sub(top).Sub(inter.Sub(top).Exp().SumDim([]int{1}, true).Log())).Sum()
}
