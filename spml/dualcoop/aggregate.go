// Package dualcoop is DualCoOp: learned positive and negative prompt contexts through a frozen CLIP, with class-specific aggregation of image
// regions.
//
// Source: Sun et al. 2022 (DualCoOp) and its released code.
package dualcoop

import (
	"fmt"

	"github.com/gospml/gospml/torch"
)

// Scales of the released code: of the cosines, and of the aggregated logits.
const (
	cosineScale = 20
	logitScale  = 5
)

// Aggregate compares regions [B, E, L] with texts [2·C, E], the negative prompts of all classes first, and gives logits [B, 2, C] (negative, positive)
// and the probabilities of presence [B, C].
//
// cos = 20·⟨t̂, x̂_l⟩; the weights of the regions are the softmax over l of the positive prompts' cos, for both prompts; the logit is 5·Σ_l w_l·cos_l;
// the probability the softmax over (negative, positive). Autograd can differentiate both results.
func Aggregate(regions, texts *torch.Tensor) (logits, probability *torch.Tensor, err error) {
	if regions == nil || texts == nil || regions.Dim() != 3 || texts.Dim() != 2 || texts.Size(0)%2 != 0 || texts.Size(0) == 0 || texts.Size(1) != regions.Size(1) {
		return nil, nil, fmt.Errorf("dualcoop: want regions [B, E, L] and texts [2·C, E]")
	}
	err = torch.Try(func() {
		c := texts.Size(0) / 2
		unit := func(t *torch.Tensor, dim int) *torch.Tensor { return t.Div(t.Square().SumDim([]int{dim}, true).Sqrt()) }
		cos := unit(texts, 1).Matmul(unit(regions, 1)).MulScalar(cosineScale) // [B, 2C, L]
		weights := cos.Narrow(1, c, c).Softmax(-1)                            // [B, C, L]
		cos = cos.Unflatten(1, 2, c)                                          // [B, 2, C, L]
		logits = cos.Mul(weights.Unsqueeze(1)).SumDim([]int{-1}, false).MulScalar(logitScale)
		probability = logits.Softmax(1).Select(1, 1)
	})
	return logits, probability, err
}
