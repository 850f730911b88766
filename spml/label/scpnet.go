package label

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
)

// ClassShares are SCPNet's class states: from the latest labels of all images, how much has been learned of each class,
// which sets the confidence that a pseudo-label of the class must have. The label graph is NewGraph, its convolution
// ConvolveGraph, the loss loss.Propagated.
//
// Source: Ding et al. 2023 (SCPNet), released code.
type ClassShares struct {
	Labels *torch.Tensor // [N, C] of 0 and 1, the latest of each image
	Top    int           // labels that an image may get
}

// NewClassShares starts without labels.
func NewClassShares(n, classes, top int, dtype torch.DType, d torch.Device) (*ClassShares, error) {
	if n < 1 || classes < 1 || top < 1 || top > classes {
		return nil, fmt.Errorf("label: class shares of %d images, %d classes, %d labels each", n, classes, top)
	}
	s := &ClassShares{Top: top}
	return s, build(func(a *torch.Arena) { s.Labels = a.Keep(torch.Zeros(torch.S(n, classes), dtype, d)) })
}

// Shares are a [C]: the images N_c that have the class as a share of the largest N_c, or, while more labels are not
// given yet (Top·N in all), as a share of those; 1/C at least, and all over where no label is given.
func (s *ClassShares) Shares() *torch.Tensor {
	n, c := s.Labels.Size(0), s.Labels.Size(1)
	counts := s.Labels.SumDim([]int{0}, false)
	most := counts.Amax([]int{0}, true).Maximum(counts.Sum().RsubScalar(float64(s.Top * n)))
	return counts.Div(most.ClampMin(1)).ClampMin(1 / float64(c))
}

// Store keeps the labels [len(rows), C] of some images.
func (s *ClassShares) Store(rows []int, labels *torch.Tensor) error {
	ids, err := index(rows, s.Labels)
	if err != nil {
		return err
	}
	return torch.Try(func() { s.Labels.IndexCopy_(0, ids, labels.Detach().ToDType(s.Labels.DType())) })
}

// ShareThresholds are the scores cutoff·a/(2 - a) from which on a class of share a [C] is a pseudo-label.
func ShareThresholds(shares *torch.Tensor, cutoff float64) *torch.Tensor {
	return shares.MulScalar(cutoff).Div(shares.RsubScalar(2))
}

// TopLabels are pseudo-labels [B, C] of 0 and 1 from scores [B, C]: the observed positives and those of a row's top
// scores that reach their threshold [C]. counts [B] says in which rows one of the top scores does. Labels that are
// known to be negative are none of the top ones.
func TopLabels(scores, observed, thresholds *torch.Tensor, top int) (labels, counts *torch.Tensor) {
	negative := observed.EqScalar(-1)
	_, best := scores.MaskedFill(negative, math.Inf(-1)).Topk(top, 1, true, true)
	picked := torch.Zeros(scores.Shape(), torch.Bool, scores.Device()).ScatterValue(1, best, true)
	reached := picked.LogicalAnd(scores.Ge(thresholds)).LogicalAnd(negative.LogicalNot())
	return reached.LogicalOr(observed.EqScalar(1)).ToDType(scores.DType()), reached.AnyDim(1,
		false).ToDType(scores.DType())
}
