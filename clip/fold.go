package clip

import (
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// fold puts every batch normalisation of a tower into the convolution before it, for inference: y = conv(x)·g + (β - μ·g) with g = γ/√(σ²+ε) per channel. Weights become
// channels-last, which CPU kernels read without reordering. The normalisations' tensors are freed.
func (m *ModifiedResNet) fold() {
	foldInto(m.Conv1, m.BN1)
	foldInto(m.Conv2, m.BN2)
	foldInto(m.Conv3, m.BN3)
	m.BN1, m.BN2, m.BN3 = nil, nil, nil
	for _, layer := range [][]*Bottleneck{m.Layer1, m.Layer2, m.Layer3, m.Layer4} {
		for _, b := range layer {
			foldInto(b.Conv1, b.BN1)
			foldInto(b.Conv2, b.BN2)
			foldInto(b.Conv3, b.BN3)
			b.BN1, b.BN2, b.BN3 = nil, nil, nil
			if b.Downsample != nil {
				conv := b.Downsample[0].(*nn.Conv2d)
				foldInto(conv, b.Downsample[1].(*nn.BatchNorm2d))
				b.Downsample = nn.Sequential{conv}
			}
		}
	}
	m.folded = true
}

func foldInto(c *nn.Conv2d, b *nn.BatchNorm2d) {
	torch.Scope(func(s *torch.Arena) {
		torch.NoGrad(func() {
			g := b.Weight.Div(b.RunningVar.AddScalar(b.Eps).Sqrt())
			c.Bias = b.Bias.Sub(b.RunningMean.Mul(g))
			s.Keep(c.Bias)
			c.Weight.SetData(c.Weight.Mul(g.View(-1, 1, 1, 1)).ContiguousFormat(torch.ChannelsLast))
		})
	})
	free(b.Weight, b.Bias, b.RunningMean, b.RunningVar, b.NumBatchesTracked)
}
