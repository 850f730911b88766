package decoder

import (
	"fmt"

	"github.com/gospml/gospml/torch"
)

// CAM are the class activation maps [B, C, H, W] of a classifier over pooled features: Σ_k w_ck·fm_k for a feature map fm [B, K, H, W] and the
// classifier's weight w [C, K]. Their means over positions are the logits without the bias.
//
// Source: Zhou et al. 2016, arXiv:1512.04150.
func CAM(featureMap, weight *torch.Tensor) (m *torch.Tensor, err error) {
	if featureMap == nil || weight == nil || featureMap.Dim() != 4 || weight.Dim() != 2 || featureMap.Size(1) != weight.Size(1) {
		return nil, fmt.Errorf("decoder: class activation maps want a feature map [B, K, H, W] and weights [C, K]")
	}
	err = torch.Try(func() { m = torch.Einsum("bkhw,ck->bchw", []*torch.Tensor{featureMap, weight}) })
	return m, err
}

// Boost is BoostLU: entries above 0 times alpha, the others as they are. On class maps, before their mean, it makes up
// for what assumed negatives take from the scores of labels that are there. The derivative at 0 is 1.
//
// Source: Kim et al. 2023 (BoostLU), released code; the paper's max(M, αM) is the same for α ≥ 1.
func Boost(maps *torch.Tensor, alpha float64) *torch.Tensor {
	return torch.Where(maps.GtScalar(0), maps.MulScalar(alpha), maps)
}
