package label

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// PositiveMask says what of a picture IGNORE shows the network again: where the class map of its observed positive is
// high.
type PositiveMask struct {
	Threshold float64
	// Batch normalises maps at each position over the batch's rows, as the released code does, else each picture by
	// itself.
	Batch bool
}

// Keep gives masks [B, 1, h, w] of 0 and 1 from class maps [B, C, H, W] and observed labels [B, C], and the normalised
// maps [B, H, W]. Rows without a positive or with several keep everything; their maps are 0.
//
// By itself, a picture's map is (m - min m)/(max m - min m); a flat one keeps nothing. Over the batch it is
// (m - min_k m_k)/max_k m_k with minimum and maximum over the rows with one positive: values above 1 and below 0 occur,
// a single such row keeps nothing, and 0/0 keeps nothing. Maps grow to the picture bilinearly, half-pixel centres.
//
// Source: Song et al. 2024 (IGNORE), released code; by itself: ours.
func (c PositiveMask) Keep(maps, observed *torch.Tensor, h, w int) (mask, normalised *torch.Tensor, err error) {
	if err := matrix("observed labels", observed); err != nil {
		return nil, nil, err
	}
	if s := maps.Shape(); len(s) != 4 || s[0] != observed.Size(0) || s[1] != observed.Size(1) {
		return nil, nil, fmt.Errorf("label: class maps have shape %v, observed labels %v", s, observed.Shape())
	}
	err = torch.Try(func() {
		torch.NoGrad(func() {
			maps := maps.Detach()
			positive := observed.EqScalar(1)
			one := positive.SumDim([]int{1}, false).EqScalar(1).Reshape(-1, 1, 1) // [B, 1, 1]
			at := positive.ToDType(torch.Int64).Argmax(1, true)                   // [B, 1]
			m := maps.Gather(1, at.Reshape(-1, 1, 1, 1).Expand(-1, 1, maps.Size(2), maps.Size(3))).Select(1, 0)
			var low, span *torch.Tensor
			if c.Batch {
				others := one.LogicalNot()
				low = m.MaskedFill(others, math.Inf(1)).Amin([]int{0}, true)
				span = m.MaskedFill(others, math.Inf(-1)).Amax([]int{0}, true)
			} else {
				low = m.Amin([]int{1, 2}, true)
				span = m.Amax([]int{1, 2}, true).Sub(low)
			}
			normalised = torch.Where(one, m.Sub(low).Div(span), m.ZerosLike())
			up := nn.Interpolate(normalised.Unsqueeze(1), nn.Interpolation{Size: []int{h, w}, Mode: "bilinear"})
			mask = up.GtScalar(c.Threshold).LogicalOr(one.LogicalNot().Unsqueeze(1)).ToDType(maps.DType())
		})
	})
	return mask, normalised, err
}

// AttentionMaps are class maps [B, C, H, W] of a head with queries: the mean over channels of a feature map [B, K, H,
// W],
// weighted by each class's attention [B, C, H·W].
func AttentionMaps(features, attention *torch.Tensor) *torch.Tensor {
	return features.MeanDim([]int{1}, true).Mul(attention.Unflatten(2, features.Size(2), features.Size(3)))
}
