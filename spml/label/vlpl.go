package label

import (
	"fmt"

	"github.com/gospml/gospml/torch"
)

// VLPL turns cosines of image and text embeddings [B, C] into pseudo-labels ℓ in {1, 0, -1}, int8 [B, C], and the similarities
// softmax(cos/τ) they rest on: 1 where the similarity is above θ; then the floor(δ·C) least similar classes of each row get -1, also where they had 1.
// Ties go to the lower class.
//
// Source: Xing et al. 2024 and its released code, whose loop leaves out the last class and which gives -1 in one of four backbones
// only. The algorithm box has a threshold for negatives where text and code have a share.
func VLPL(cosines *torch.Tensor, tau, theta, delta float64) (pseudo, similarity *torch.Tensor, err error) {
	if err := matrix("cosines", cosines); err != nil {
		return nil, nil, err
	}
	if !(tau > 0) || !(delta >= 0 && delta <= 1) {
		return nil, nil, fmt.Errorf("label: VLPL wants τ > 0 and δ in [0, 1], got %v and %v", tau, delta)
	}
	err = torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(s *torch.Arena) {
				similarity = cosines.DivScalar(tau).Softmax(1)
				pseudo = similarity.GtScalar(theta).ToDType(torch.Int8)
				if k := int(delta * float64(cosines.Size(1))); k > 0 {
					pseudo = pseudo.ScatterValue(1, lowest(similarity, k), -1)
				}
				s.Keep(pseudo, similarity)
			})
		})
	})
	return pseudo, similarity, err
}

// lowest are the indices [B, k] of each row's k smallest values, ties to the lower index.
func lowest(t *torch.Tensor, k int) *torch.Tensor {
	_, order := t.SortStable(true, 1, false)
	return order.Slice(1, 0, k, 1)
}
