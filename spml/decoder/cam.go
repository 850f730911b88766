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
