package clip

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// ModifiedResNet is the ResNet of CLIP (Radford et al. 2021, section 2.4): a stem of three convolutions, average pooling instead of strides, and an
// attention pool at the end.
type ModifiedResNet struct {
	Conv1 *nn.Conv2d
	BN1   *nn.BatchNorm2d
	Conv2 *nn.Conv2d
	BN2   *nn.BatchNorm2d
	Conv3 *nn.Conv2d
	BN3   *nn.BatchNorm2d

	Layer1, Layer2, Layer3, Layer4 []*Bottleneck
	AttnPool                       *AttentionPool `torch:"attnpool"`

	cfg    Vision
	folded bool // the norms are part of the convolutions
}

// Bottleneck is 1×1, 3×3, pool, 1×1 with a shortcut that is pooled and widened where it has to be.
type Bottleneck struct {
	Conv1      *nn.Conv2d
	BN1        *nn.BatchNorm2d
	Conv2      *nn.Conv2d
	BN2        *nn.BatchNorm2d
	Conv3      *nn.Conv2d
	BN3        *nn.BatchNorm2d
	Downsample nn.Sequential // convolution, norm; nil where the shortcut fits

	stride int
}

// AttentionPool reads a map out with one query, the mean of its places.
type AttentionPool struct {
	PositionalEmbedding *torch.Tensor // [1+rows·columns, F], the mean's first
	KProj, QProj, VProj *nn.Linear
	CProj               *nn.Linear

	heads int
	cfg   Vision
}

func newModifiedResNet(c Vision, embed int, d draw) *ModifiedResNet {
	conv := func(in, out, kernel, stride int) *nn.Conv2d {
		return nn.NewConv2d(in, out, kernel, append(d.opts, nn.Stride(stride), nn.Padding(kernel/2), nn.Bias(false))...)
	}
	w := c.Width
	m := &ModifiedResNet{cfg: c,
		Conv1: conv(3, w/2, 3, 2), BN1: nn.NewBatchNorm2d(w / 2), Conv2: conv(w/2, w/2, 3, 1), BN2: nn.NewBatchNorm2d(w / 2),
		Conv3: conv(w/2, w, 3, 1), BN3: nn.NewBatchNorm2d(w)}
	in := w
	for i, layer := range []*[]*Bottleneck{&m.Layer1, &m.Layer2, &m.Layer3, &m.Layer4} {
		planes := w << i
		for k := range c.Stages[i] {
			stride := 1
			if i > 0 && k == 0 {
				stride = 2
			}
			b := &Bottleneck{stride: stride,
				Conv1: conv(in, planes, 1, 1), BN1: nn.NewBatchNorm2d(planes), Conv2: conv(planes, planes, 3, 1), BN2: nn.NewBatchNorm2d(planes),
				Conv3: conv(planes, 4*planes, 1, 1), BN3: nn.NewBatchNorm2d(4 * planes)}
			if stride > 1 || in != 4*planes {
				b.Downsample = nn.Sequential{conv(in, 4*planes, 1, 1), nn.NewBatchNorm2d(4 * planes)}
			}
			if d.fill {
				nn.Zeros_(b.BN3.Weight)
			}
			*layer = append(*layer, b)
			in = 4 * planes
		}
	}
	rows, columns := c.Grid()
	p := &AttentionPool{heads: c.Heads, cfg: c, PositionalEmbedding: d.normal(1/math.Sqrt(float64(in)), 1+rows*columns, in)}
	for _, l := range []**nn.Linear{&p.KProj, &p.QProj, &p.VProj} {
		*l = nn.NewLinear(in, in, d.opts...)
	}
	p.CProj = nn.NewLinear(in, embed, d.opts...)
	if d.fill {
		for _, l := range []*nn.Linear{p.KProj, p.QProj, p.VProj, p.CProj} {
			nn.Normal_(l.Weight, 0, 1/math.Sqrt(float64(in)), nil)
		}
	}
	m.AttnPool = p
	return m
}

// Forward maps [B, 3, H, W] to [B, E].
func (m *ModifiedResNet) Forward(x *torch.Tensor) *torch.Tensor {
	return m.Details(x, Want{}).Embeddings
}

// Details is Forward with the feature map and the attention pool's weights.
func (m *ModifiedResNet) Details(x *torch.Tensor, want Want) Details {
	if s := x.Shape(); len(s) != 4 || s[1] != 3 || s[2] < 32 || s[3] < 32 {
		panic(&torch.Error{Kind: torch.KindValue, Op: "clip.ModifiedResNet", Shapes: [][]int{s}, Msg: "want pictures [B, 3, H, W] of at least 32×32"})
	}
	in := x
	if m.folded {
		in = x.ContiguousFormat(torch.ChannelsLast)
	}
	h := step(in, m.Conv1, m.BN1, false)
	if in != x {
		in.Free()
	}
	h = step(h, m.Conv2, m.BN2, true)
	h = step(h, m.Conv3, m.BN3, true)
	h = replace(h, pool(h, 2))
	for _, layer := range [][]*Bottleneck{m.Layer1, m.Layer2, m.Layer3, m.Layer4} {
		for _, b := range layer {
			h = replace(h, b.forward(h))
		}
	}
	var out Details
	var weights *torch.Tensor
	out.Embeddings, weights = m.AttnPool.forward(h, want.Attention)
	if want.Attention {
		out.Attention = []*torch.Tensor{weights}
	}
	if want.Tokens {
		out.Tokens = h
	} else {
		h.Free()
	}
	return out
}

// replace frees the old value of a variable.
func replace(old, now *torch.Tensor) *torch.Tensor {
	old.Free()
	return now
}

// step is relu(bn(conv(x))); b is nil where it is folded.
func step(x *torch.Tensor, c *nn.Conv2d, b *nn.BatchNorm2d, own bool) *torch.Tensor {
	y := c.Forward(x)
	if own {
		x.Free()
	}
	if b == nil {
		y.Relu_()
		return y
	}
	n := b.Forward(y)
	r := n.Relu()
	free(y, n)
	return r
}

func pool(x *torch.Tensor, side int) *torch.Tensor {
	return x.AvgPool2d([]int{side, side}, []int{side, side}, []int{0, 0}, false, true)
}

func (b *Bottleneck) forward(x *torch.Tensor) *torch.Tensor {
	h := step(x, b.Conv1, b.BN1, false)
	h = step(h, b.Conv2, b.BN2, true)
	if b.stride > 1 {
		h = replace(h, pool(h, b.stride))
	}
	h = replace(h, b.Conv3.Forward(h))
	if b.BN3 != nil {
		h = replace(h, b.BN3.Forward(h))
	}
	short := x
	if b.Downsample != nil {
		in := x
		if b.stride > 1 {
			in = pool(x, b.stride)
		}
		short = b.Downsample.Forward(in)
		if in != x {
			in.Free()
		}
	}
	sum := h.Add(short)
	y := sum.Relu()
	free(h, sum)
	if short != x {
		short.Free()
	}
	return y
}

// forward maps [B, F, h, w] to [B, E].
func (p *AttentionPool) forward(x *torch.Tensor, maps bool) (y, weights *torch.Tensor) {
	s := x.Shape()
	b, f, rows, columns := s[0], s[1], s[2], s[3]
	if f != p.PositionalEmbedding.Size(1) {
		panic(&torch.Error{Kind: torch.KindValue, Op: "clip.AttentionPool", Shapes: [][]int{s}, Msg: fmt.Sprintf("want a map of %d channels", p.PositionalEmbedding.Size(1))})
	}
	flat := x.Flatten(2, 3).Transpose(1, 2) // [B, rows·columns, F]
	mean := flat.MeanDim([]int{1}, true)
	tokens := torch.Cat([]*torch.Tensor{mean, flat}, 1)
	tokens = replace(tokens, tokens.Add(ResizePositions(p.PositionalEmbedding, p.cfg, rows, columns)))
	heads := func(l *nn.Linear, t *torch.Tensor) *torch.Tensor {
		return l.Forward(t).View(b, -1, p.heads, f/p.heads).Transpose(1, 2) // [B, heads, L, F/heads]
	}
	q, k, v := heads(p.QProj, tokens.Slice(1, 0, 1, 1)), heads(p.KProj, tokens), heads(p.VProj, tokens)
	var o *torch.Tensor
	if maps {
		weights = attentionMap(q, k, false)
		o = weights.Matmul(v)
	} else {
		o = torch.ScaledDotProductAttention(q, k, v, nil, 0, false)
	}
	return p.CProj.Forward(o.Transpose(1, 2).Reshape(b, f)), weights
}
