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
	if err := checkVLPL(cosines, tau, delta); err != nil {
		return nil, nil, err
	}
	if fusible(cosines) {
		return fusedVLPL(cosines, nil, tau, theta, delta)
	}
	return ComposedVLPL(cosines, tau, theta, delta)
}

// VLPLKeep is VLPL with negatives that take nothing back: the floor(δ·C) least similar of the classes that are positive neither in ℓ nor in the observed labels [B, C].
// It is this module's form.
func VLPLKeep(cosines, observed *torch.Tensor, tau, theta, delta float64) (pseudo, similarity *torch.Tensor, err error) {
	if err := checkVLPL(cosines, tau, delta); err != nil {
		return nil, nil, err
	}
	if err := same("observed labels", observed, cosines); err != nil {
		return nil, nil, err
	}
	if fusible(cosines, observed) {
		return fusedVLPL(cosines, observed, tau, theta, delta)
	}
	if pseudo, similarity, err = ComposedVLPL(cosines, tau, theta, 0); err != nil {
		return nil, nil, err
	}
	err = torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(s *torch.Arena) {
				if k := int(delta * float64(cosines.Size(1))); k > 0 {
					taken := pseudo.EqScalar(1).LogicalOr(observed.EqScalar(1))
					// A stable sort by the similarity, then one by whether the class is taken: free classes first, the least similar in front.
					_, order := similarity.SortStable(true, 1, false)
					_, free := taken.ToDType(torch.Int8).Gather(1, order).SortStable(true, 1, false)
					first := order.Gather(1, free.Slice(1, 0, k, 1))
					low := torch.Zeros(pseudo.Shape(), torch.Bool, pseudo.Device()).ScatterValue(1, first, true)
					pseudo = pseudo.MaskedFill(low.LogicalAnd(taken.LogicalNot()), -1)
				}
				s.Keep(pseudo)
			})
		})
	})
	return pseudo, similarity, err
}

func checkVLPL(cosines *torch.Tensor, tau, delta float64) error {
	if err := matrix("cosines", cosines); err != nil {
		return err
	}
	if !(tau > 0) || !(delta >= 0 && delta <= 1) {
		return fmt.Errorf("label: VLPL wants τ > 0 and δ in [0, 1], got %v and %v", tau, delta)
	}
	return nil
}

// ComposedVLPL is VLPL in libtorch's operators alone: what the fused operator is held to, for any floating type.
func ComposedVLPL(cosines *torch.Tensor, tau, theta, delta float64) (pseudo, similarity *torch.Tensor, err error) {
	if err := checkVLPL(cosines, tau, delta); err != nil {
		return nil, nil, err
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
