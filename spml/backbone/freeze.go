package backbone

import (
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/gospml/gospml/spml/internal/graph"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// ErrForm is wrapped by errors of Freeze about a network that has no frozen form.
var ErrForm = graph.ErrForm

// lowered are the activations of a frozen network that can be asked for.
type lowered struct {
	features, logits, maps graph.Value
	tokens                 int // that come before those of the map
}

// lowerer writes a network down as steps.
type lowerer interface {
	lower(b *graph.Builder) lowered
}

// Freeze makes the form of a model that is for inference on this CPU alone: normalisation folded into the convolutions,
// weights packed for the processor, activations computed with the sums, one call for the whole network. It has its own
// copy of the weights, so later changes of m's do not reach it, and no parameters. In Float32 its results are m's in
// evaluation mode up to the order of sums (1e-4 of the largest logit). In BFloat16 weights and activations have 8 bits
// (the cosine of features and logits is above 0.9999 on photos), sums are float32, and it is about twice as fast; a
// processor that does not multiply bfloat16 is an error. In both the bits are the same for any batch and number of
// threads. It is safe for many goroutines. A model that is not of this package, or has a layer that is not of its kind,
// has no such form: the error wraps ErrForm.
func Freeze(m Model, dtype torch.DType) (Model, error) {
	f, err := freeze(m, func(f func(b *graph.Builder)) (*graph.Network, error) { return graph.Build(dtype, f) })
	if err != nil {
		return nil, err
	}
	return f, nil
}

// freeze makes a model of the network that build makes of m's steps.
func freeze(m Model, build func(f func(b *graph.Builder)) (*graph.Network, error)) (*frozen, error) {
	l, ok := m.(lowerer)
	if !ok {
		return nil, fmt.Errorf("backbone: %w of %T", ErrForm, m)
	}
	f := &frozen{key: m.HeadKey(), pooled: true, tables: &sync.Map{}}
	if p, ok := m.(interface{ MeanPooled() bool }); ok {
		f.pooled = p.MeanPooled()
	}
	var err error
	if f.net, err = build(func(b *graph.Builder) { f.at = written(m, l, b) }); err != nil {
		return nil, fmt.Errorf("backbone: %w", err)
	}
	f.dim = f.at.features.Channels()
	return f, torch.Try(func() {
		torch.NoGrad(func() {
			if h := m.Head(); h != nil {
				f.head = &nn.Linear{Weight: h.Weight.Detach().Clone(), InFeatures: h.InFeatures, OutFeatures: h.OutFeatures}
				if h.Bias != nil {
					f.head.Bias = h.Bias.Detach().Clone()
				}
				f.own = true
			}
			if v, ok := m.(*ViT); ok {
				f.position(v)
			}
		})
	})
}

// written are the steps of a model; a tensor that none of them reads is refused.
func written(m Model, l lowerer, b *graph.Builder) lowered {
	at := l.lower(b)
	nn.Walk(m, func(e nn.Entry) {
		if e.Tensor.DType().IsFloat() && !b.Reads(e.Tensor) && !strings.HasPrefix(e.Key, m.HeadKey()+".") {
			b.Refuse("a network whose %s no step reads", e.Key)
		}
	})
	return at
}

// Describe writes a model down as the steps of its frozen form, for packages of this module that make other forms of
// it. Steps have the model's own tensors, or new ones, which are the caller's scope's. A model without a frozen form is
// an error that wraps ErrForm.
func Describe(m Model) (*graph.Description, error) {
	l, ok := m.(lowerer)
	if !ok {
		return nil, fmt.Errorf("backbone: %w of %T", ErrForm, m)
	}
	var at lowered
	steps, err := graph.Describe(func(b *graph.Builder) { at = written(m, l, b) })
	if err != nil {
		return nil, fmt.Errorf("backbone: %w", err)
	}
	d := &graph.Description{Steps: steps, Features: at.features, Logits: at.logits, Maps: at.maps, Prefix: at.tokens}
	if v, ok := m.(*ViT); ok {
		d.Table = func(height, width int) *torch.Tensor {
			k := v.Patch.Proj.KernelSize
			return v.table(height/k[0], width/k[1])
		}
	}
	return d, nil
}

// Threads is a frozen model that computes with n threads wherever it is called, over the same weights; 0: with those of
// an operation on the calling thread, as Freeze makes it. Another model comes back as it is.
func Threads(m Model, n int) Model {
	f, ok := m.(*frozen)
	if !ok {
		return m
	}
	g := *f
	g.threads = n
	return &g
}

// frozen is a Model of packed steps.
type frozen struct {
	net     *graph.Network
	threads int
	at      lowered
	head    *nn.Linear
	own     bool // the steps have the head
	dim     int
	key     string
	pooled  bool

	vit    *ViT      // of a ViT: its positions, nothing else
	tables *sync.Map // [2]int{h, w} -> []float32
}

// position keeps what the table of positions for a size of images is made of.
func (f *frozen) position(v *ViT) {
	f.vit = &ViT{
		Position: v.Position.Detach().Clone(),
		Patch:    &vitPatch{Proj: &nn.Conv2d{KernelSize: v.Patch.Proj.KernelSize}},
	}
	if v.ClassToken != nil {
		f.vit.ClassToken = v.ClassToken.Detach().Clone()
	}
}

// table is what comes with images of this size: positions, the class token added to its own; nil but for a ViT. Its
// numbers are kept, not the tensor, which would be the caller's scope's.
func (f *frozen) table(x *torch.Tensor) *torch.Tensor {
	if f.vit == nil {
		return nil
	}
	k := f.vit.Patch.Proj.KernelSize
	size := [2]int{x.Size(2) / k[0], x.Size(3) / k[1]}
	values, ok := f.tables.Load(size)
	if !ok {
		torch.Scope(func(*torch.Arena) {
			torch.NoGrad(func() {
				values = torch.ToSlice[float32](f.vit.table(size[0], size[1]).Contiguous())
			})
		})
		f.tables.Store(size, values)
	}
	v := values.([]float32)
	return torch.FromSlice(v, len(v)/f.dim, f.dim)
}

// table are the positions of h × w patches, [N, D], the class token added to its own.
func (m *ViT) table(h, w int) *torch.Tensor {
	p := m.positions(h, w).Select(0, 0)
	if m.ClassToken == nil {
		return p
	}
	first := p.Slice(0, 0, 1, 1).Add(m.ClassToken.Select(0, 0))
	return torch.Cat([]*torch.Tensor{first, p.Slice(0, 1, p.Size(0), 1)}, 0)
}

// run computes an activation, [B, h, w, C].
func (f *frozen) run(x *torch.Tensor, v graph.Value) *torch.Tensor {
	t := f.table(x)
	y := f.net.Run(x, t, v, f.threads)
	if t != nil {
		t.Free()
	}
	return y
}

// rows are those of an activation of one pixel, [B, C].
func rows(y *torch.Tensor) *torch.Tensor {
	defer y.Free()
	return y.View(y.Size(0), y.Size(3))
}

func (f *frozen) Forward(x *torch.Tensor) *torch.Tensor {
	if !f.own {
		return classify(f.head, f.Features(x))
	}
	return rows(f.run(x, f.at.logits))
}

func (f *frozen) FeatureMap(x *torch.Tensor) *torch.Tensor {
	y := f.run(x, f.at.maps)
	defer y.Free()
	if f.at.tokens == 0 {
		return y.Permute(0, 3, 1, 2)
	}
	k := f.vit.Patch.Proj.KernelSize
	t := y.Slice(2, f.at.tokens, y.Size(2), 1)
	return t.Reshape(y.Size(0), x.Size(2)/k[0], x.Size(3)/k[1], f.dim).Permute(0, 3, 1, 2)
}

func (f *frozen) Features(x *torch.Tensor) *torch.Tensor { return rows(f.run(x, f.at.features)) }
func (f *frozen) FeatureDim() int                        { return f.dim }
func (f *frozen) Head() *nn.Linear                       { return f.head }
func (f *frozen) HeadKey() string                        { return f.key }
func (f *frozen) MeanPooled() bool                       { return f.pooled }

func (f *frozen) SetHead(l *nn.Linear) { f.head, f.own = l, false }

// headed ends a network: features, and logits where it has a head.
func headed(b *graph.Builder, maps, features graph.Value, head *nn.Linear) lowered {
	l := lowered{features: features, maps: maps}
	if head != nil {
		l.logits = b.Linear(features, head.Weight, head.Bias, graph.Then{})
	}
	return l
}

func (m *ResNet) lower(b *graph.Builder) lowered {
	x := b.Conv(b.Input(), m.Conv1, graph.Then{Norm: m.BN1, Act: graph.ReLU})
	x = b.MaxPool(x, m.MaxPool)
	for _, s := range []nn.Sequential{m.Layer1, m.Layer2, m.Layer3, m.Layer4} {
		for _, block := range s {
			switch k := block.(type) {
			case *BasicBlock:
				short := lowerShortcut(b, x, k.Downsample)
				x = b.Conv(x, k.Conv1, graph.Then{Norm: k.BN1, Act: graph.ReLU})
				x = b.Conv(x, k.Conv2, graph.Then{Norm: k.BN2, Add: &short, Act: graph.ReLU})
			case *Bottleneck:
				short := lowerShortcut(b, x, k.Downsample)
				x = b.Conv(x, k.Conv1, graph.Then{Norm: k.BN1, Act: graph.ReLU})
				x = b.Conv(x, k.Conv2, graph.Then{Norm: k.BN2, Act: graph.ReLU})
				x = b.Conv(x, k.Conv3, graph.Then{Norm: k.BN3, Add: &short, Act: graph.ReLU})
			default:
				b.Refuse("a layer %T", block)
			}
		}
	}
	return headed(b, x, b.Mean(x), m.FC)
}

func lowerShortcut(b *graph.Builder, x graph.Value, down nn.Sequential) graph.Value {
	if down == nil {
		return x
	}
	return lowerLayers(b, x, down)
}

// lowerLayers writes convolutions down with what follows each: normalisation and ReLU.
func lowerLayers(b *graph.Builder, x graph.Value, s nn.Sequential) graph.Value {
	for i := 0; i < len(s); i++ {
		switch l := s[i].(type) {
		case *nn.Conv2d:
			var then graph.Then
			if i+1 < len(s) {
				if n, ok := s[i+1].(*nn.BatchNorm2d); ok {
					then.Norm = n
					i++
				}
			}
			if i+1 < len(s) {
				switch s[i+1].(type) {
				case nn.ReLU:
					then.Act = graph.ReLU
					i++
				case nn.ReLU6:
					then.Act = graph.ReLU6
					i++
				}
			}
			x = b.Conv(x, l, then)
		case *nn.MaxPool2d:
			x = b.MaxPool(x, l)
		case nn.Sequential:
			x = lowerLayers(b, x, l)
		case *InvertedResidual:
			x = l.lower(b, x)
		case *Fire:
			x = l.lower(b, x)
		default:
			b.Refuse("a layer %T", l)
		}
	}
	return x
}

// lower adds x in the last convolution, which has no activation.
func (r *InvertedResidual) lower(b *graph.Builder, x graph.Value) graph.Value {
	n := len(r.Conv)
	conv, okConv := r.Conv[n-2].(*nn.Conv2d)
	norm, okNorm := r.Conv[n-1].(*nn.BatchNorm2d)
	if !okConv || !okNorm {
		b.Refuse("a layer %T", r)
		return x
	}
	then := graph.Then{Norm: norm}
	if r.Shortcut {
		then.Add = &x
	}
	return b.Conv(lowerLayers(b, x, r.Conv[:n-2]), conv, then)
}

func (f *Fire) lower(b *graph.Builder, x graph.Value) graph.Value {
	relu := graph.Then{Act: graph.ReLU}
	s := b.Conv(x, f.Squeeze, relu)
	out := b.Channels(f.Expand1x1.OutChannels + f.Expand3x3.OutChannels)
	b.ConvInto(out, 0, s, f.Expand1x1, relu)
	return b.ConvInto(out, f.Expand1x1.OutChannels, s, f.Expand3x3, relu)
}

func (m *MobileNetV2) lower(b *graph.Builder) lowered {
	x := lowerLayers(b, b.Input(), m.Blocks)
	return headed(b, x, b.Mean(x), lastLinear(m.Classifier))
}

func (m *SqueezeNet) lower(b *graph.Builder) lowered {
	x := lowerLayers(b, b.Input(), m.Blocks)
	return headed(b, x, b.Mean(x), lastLinear(m.Classifier))
}

func (m *SmallCNN) lower(b *graph.Builder) lowered {
	x := lowerLayers(b, b.Input(), m.Blocks)
	return headed(b, x, b.Mean(x), m.FC)
}

// lastLinear is the head behind its dropout; nil where another head has taken its place.
func lastLinear(s nn.Sequential) *nn.Linear {
	l, _ := s[len(s)-1].(*nn.Linear)
	return l
}

func (m *ConvNeXt) lower(b *graph.Builder) lowered {
	x := lowerNormed(b, b.Input(), m.Stem)
	for _, s := range m.Stages {
		if s.Downsample != nil {
			x = lowerNormed(b, x, s.Downsample)
		}
		for _, k := range s.Blocks {
			y := b.Conv(x, k.ConvDW, graph.Then{})
			y = b.Norm(y, k.Norm.Weight, k.Norm.Bias, k.Norm.Eps)
			y = b.Linear(y, k.MLP.FC1.Weight, k.MLP.FC1.Bias, graph.Then{Act: graph.GELU})
			x = b.Linear(y, k.MLP.FC2.Weight, k.MLP.FC2.Bias, graph.Then{Scale: k.Gamma, Add: &x})
		}
	}
	mean := b.Mean(x)
	return headed(b, x, b.Norm(mean, m.Top.Norm.Weight, m.Top.Norm.Bias, m.Top.Norm.Eps), m.Top.FC)
}

// lowerNormed writes a convolution and a normalisation of channels down, in either order.
func lowerNormed(b *graph.Builder, x graph.Value, s nn.Sequential) graph.Value {
	for _, l := range s {
		switch l := l.(type) {
		case *nn.Conv2d:
			x = b.Conv(x, l, graph.Then{})
		case *channelNorm:
			x = b.Norm(x, l.Weight, l.Bias, l.Eps)
		default:
			b.Refuse("a layer %T", l)
		}
	}
	return x
}

// lower computes of the last block only the class token, where that is the features and the map is not asked for:
// nothing else is read.
func (m *ViT) lower(b *graph.Builder) lowered {
	b.Read(m.ClassToken, m.Position) // of the table
	t := b.Tokens(b.Input(), m.patches(b), m.ClassToken != nil)
	last := len(m.Blocks) - 1
	for _, k := range m.Blocks[:last] {
		t = k.lower(b, t, m.act())
	}
	normed := func(t graph.Value) graph.Value { return b.Norm(t, m.Norm.Weight, m.Norm.Bias, m.Norm.Eps) }
	if m.Pool != nil {
		maps := normed(m.Blocks[last].lower(b, t, m.act()))
		return headed(b, maps, m.Pool.lower(b, maps, m.act()), m.Classifier)
	}
	features := normed(m.Blocks[last].lowerFirst(b, t, m.act()))
	l := headed(b, normed(m.Blocks[last].lower(b, t, m.act())), features, m.Classifier)
	l.tokens = m.prefix()
	return l
}

// then is what follows the last linear layer of a branch: its factors, and what the branch is added to.
func (l *LayerScale) then(t *graph.Value) graph.Then {
	if l == nil {
		return graph.Then{Add: t}
	}
	return graph.Then{Scale: l.Gamma, Add: t}
}

func (m *ViT) act() graph.Act {
	if m.gelu == "tanh" {
		return graph.GELUTanh
	}
	return graph.GELU
}

// patches is the convolution of the patches, with the change of the input's range, where there is one, in its weights:
// it has no border, so that both are linear.
func (m *ViT) patches(b *graph.Builder) *nn.Conv2d {
	c := m.Patch.Proj
	if m.from == nil {
		return c
	}
	b.Read(c.Weight, c.Bias)
	w := c.Weight.Detach().ToDType(torch.Float64) // [D, 3, p, p]
	scale, shift := m.from.numbers()
	bias := w.Mul(torch.FromSlice(shift, 3, 1, 1)).SumDim([]int{1, 2, 3}, false)
	if c.Bias != nil {
		bias = bias.Add(c.Bias.Detach())
	}
	folded := *c
	folded.Weight = w.Mul(torch.FromSlice(scale, 3, 1, 1)).ToDType(torch.Float32)
	folded.Bias = bias.ToDType(torch.Float32)
	return &folded
}

func (p *ViTPool) lower(b *graph.Builder, t graph.Value, act graph.Act) graph.Value {
	b.Read(p.Latent, p.Q.Weight, p.Q.Bias)
	q := b.Same(t, p.Q.Forward(p.Latent).View(-1))
	kv := b.Linear(t, p.KV.Weight, p.KV.Bias, graph.Then{})
	scale := 1 / math.Sqrt(float64(p.Q.InFeatures/p.NumHeads))
	y := b.Linear(b.Attend(q, kv, p.NumHeads, scale), p.Proj.Weight, p.Proj.Bias, graph.Then{})
	n := b.Norm(y, p.Norm.Weight, p.Norm.Bias, p.Norm.Eps)
	n = b.Linear(n, p.MLP.FC1.Weight, p.MLP.FC1.Bias, graph.Then{Act: act})
	return b.Linear(n, p.MLP.FC2.Weight, p.MLP.FC2.Bias, graph.Then{Add: &y})
}

func (k *ViTBlock) lower(b *graph.Builder, t graph.Value, act graph.Act) graph.Value {
	n := b.Norm(t, k.Norm1.Weight, k.Norm1.Bias, k.Norm1.Eps)
	qkv := b.Linear(n, k.Attn.QKV.Weight, k.Attn.QKV.Bias, graph.Then{})
	y := b.Attention(qkv, k.Attn.NumHeads, k.scale())
	t = b.Linear(y, k.Attn.Proj.Weight, k.Attn.Proj.Bias, k.LS1.then(&t))
	return k.lowerMLP(b, t, act)
}

func (k *ViTBlock) lowerMLP(b *graph.Builder, t graph.Value, act graph.Act) graph.Value {
	n := b.Norm(t, k.Norm2.Weight, k.Norm2.Bias, k.Norm2.Eps)
	y := b.Linear(n, k.MLP.FC1.Weight, k.MLP.FC1.Bias, graph.Then{Act: act})
	return b.Linear(y, k.MLP.FC2.Weight, k.MLP.FC2.Bias, k.LS2.then(&t))
}

// lowerFirst is lower of the first token alone, which asks all.
func (k *ViTBlock) lowerFirst(b *graph.Builder, t graph.Value, act graph.Act) graph.Value {
	n := b.Norm(t, k.Norm1.Weight, k.Norm1.Bias, k.Norm1.Eps)
	d := t.Channels()
	part := func(w *torch.Tensor, from, to int) *torch.Tensor {
		if w == nil {
			return nil
		}
		return w.Detach().Slice(0, from, to, 1)
	}
	w, c := k.Attn.QKV.Weight, k.Attn.QKV.Bias
	q := b.Linear(b.First(n), part(w, 0, d), part(c, 0, d), graph.Then{})
	kv := b.Linear(n, part(w, d, 3*d), part(c, d, 3*d), graph.Then{})
	y := b.Attend(q, kv, k.Attn.NumHeads, k.scale())
	first := b.First(t)
	t = b.Linear(y, k.Attn.Proj.Weight, k.Attn.Proj.Bias, k.LS1.then(&first))
	return k.lowerMLP(b, t, act)
}

// scale is 1/√(width of a head).
func (k *ViTBlock) scale() float64 {
	return 1 / math.Sqrt(float64(k.Attn.QKV.InFeatures/k.Attn.NumHeads))
}
