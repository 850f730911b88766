package loss

import "github.com/gospml/gospml/torch"

// What a loss is built on, here and in a module of one's own: Z, Reduce and the terms of terms.go.

// Z is the logits in the type that losses are computed in: float64 as it is, float32 for every other.
func (b *Batch) Z() *torch.Tensor { return wide(b.Logits) }

// Reduce makes one number of the matrix of terms, as the options say.
func (o *Options) Reduce(terms *torch.Tensor) *torch.Tensor { return o.Reduction.apply(terms) }
