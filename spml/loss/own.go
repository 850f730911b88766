package loss

import "github.com/gospml/gospml/torch"

// What a loss of one's own is built on, beside torch.

// Z is the logits in the type that losses are computed in: float64 as it is, float32 for every other.
func (b *Batch) Z() *torch.Tensor { return b.logits() }

// Positive is -log p, or -log(p+eps), for every entry of z.
func Positive(z *torch.Tensor, eps float64) *torch.Tensor { return positive(z, eps) }

// Negative is -log(1-p), or -log(1-p+eps).
func Negative(z *torch.Tensor, eps float64) *torch.Tensor { return negative(z, eps) }

// ByLabel takes pos where y = 1, neg where y = -1, unknown elsewhere.
func ByLabel(y, pos, neg, unknown *torch.Tensor) *torch.Tensor { return known(y, pos, neg, unknown) }

// Reduce makes one number of the matrix of terms, as the options say.
func (o *Options) Reduce(terms *torch.Tensor) *torch.Tensor { return o.Reduction.apply(terms) }
