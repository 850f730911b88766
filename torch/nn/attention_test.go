package nn_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

type attentionCase struct {
	Kind     string `json:"kind"`
	DType    string `json:"dtype"`
	Training bool   `json:"training"`
	Seed     int64  `json:"seed"`
	Options  struct {
		BatchFirst  bool    `json:"batch_first"`
		Bias        *bool   `json:"bias"`
		KDim        int     `json:"kdim"`
		VDim        int     `json:"vdim"`
		AddBiasKV   bool    `json:"add_bias_kv"`
		AddZeroAttn bool    `json:"add_zero_attn"`
		Dropout     float64 `json:"dropout"`
		Causal      bool    `json:"causal"`
		Need        bool    `json:"need"`
		PerHead     bool    `json:"per_head"`
		NormFirst   bool    `json:"norm_first"`
		Activation  string  `json:"activation"`
		Eps         float64 `json:"layer_norm_eps"`
	} `json:"options"`
	Initial       map[string]array `json:"initial"`
	Keys          []string         `json:"keys"`
	State         map[string]array `json:"state"`
	Inputs        map[string]array `json:"inputs"`
	Masks         map[string]array `json:"masks"`
	Bool          []string         `json:"bool"`
	ForwardSeed   int64            `json:"forward_seed"`
	Output        array            `json:"output"`
	OutWeight     array            `json:"output_weight"`
	Weights       *array           `json:"weights"`
	WeightsWeight array            `json:"weights_weight"`
	InputGrads    map[string]array `json:"input_grads"`
	Grads         map[string]array `json:"grads"`
}

func (c *attentionCase) options() []nn.Option {
	o := c.Options
	opts := []nn.Option{nn.DType(dtypes[c.DType]), nn.DropoutP(o.Dropout), nn.BatchFirst(o.BatchFirst)}
	if o.Bias != nil {
		opts = append(opts, nn.Bias(*o.Bias))
	}
	return opts
}

func (c *attentionCase) blockOptions() []nn.Option {
	opts := append(c.options(), nn.FeedForward(6), nn.NormFirst(c.Options.NormFirst))
	if c.Options.Activation == "gelu" {
		opts = append(opts, nn.Activation(nn.GELU{}))
	}
	if c.Options.Eps != 0 {
		opts = append(opts, nn.Eps(c.Options.Eps))
	}
	return opts
}

// build makes the module and the function that runs it.
func (c *attentionCase) build() (m any, run func(x, mask map[string]*torch.Tensor) (y, w *torch.Tensor)) {
	const e, h = 8, 2
	encoder := func() *nn.TransformerEncoderLayer {
		return nn.NewTransformerEncoderLayer(e, h, c.blockOptions()...)
	}
	decoder := func() *nn.TransformerDecoderLayer {
		return nn.NewTransformerDecoderLayer(e, h, c.blockOptions()...)
	}
	own := func(mask map[string]*torch.Tensor) nn.Attention {
		return nn.Attention{Mask: mask["mask"], KeyPaddingMask: mask["padding"]}
	}
	cross := func(mask map[string]*torch.Tensor) nn.Attention {
		return nn.Attention{Mask: mask["memory_mask"], KeyPaddingMask: mask["memory_padding"]}
	}
	switch c.Kind {
	case "attention":
		opts := append(c.options(), nn.AddBiasKV(c.Options.AddBiasKV), nn.AddZeroAttn(c.Options.AddZeroAttn))
		if c.Options.KDim > 0 {
			opts = append(opts, nn.KDim(c.Options.KDim))
		}
		if c.Options.VDim > 0 {
			opts = append(opts, nn.VDim(c.Options.VDim))
		}
		a := nn.NewMultiheadAttention(e, h, opts...)
		return a, func(x, mask map[string]*torch.Tensor) (*torch.Tensor, *torch.Tensor) {
			k, v := x["query"], x["query"]
			if x["key"] != nil {
				k, v = x["key"], x["key"]
			}
			if x["value"] != nil {
				v = x["value"]
			}
			return a.Forward(x["query"], k, v, nn.Attention{
				KeyPaddingMask: mask["key_padding_mask"], Mask: mask["attn_mask"], Causal: c.Options.Causal, NeedWeights: c.Options.Need, PerHead: c.Options.PerHead,
			})
		}
	case "encoder_layer":
		l := encoder()
		return l, func(x, mask map[string]*torch.Tensor) (*torch.Tensor, *torch.Tensor) {
			return l.Forward(x["x"], own(mask)), nil
		}
	case "decoder_layer":
		l := decoder()
		return l, func(x, mask map[string]*torch.Tensor) (*torch.Tensor, *torch.Tensor) {
			return l.Forward(x["x"], x["memory"], own(mask), cross(mask)), nil
		}
	case "encoder":
		l := nn.NewTransformerEncoder(encoder(), 2, nn.NewLayerNorm([]int{e}, nn.DType(dtypes[c.DType])))
		return l, func(x, mask map[string]*torch.Tensor) (*torch.Tensor, *torch.Tensor) {
			return l.Forward(x["x"], own(mask)), nil
		}
	}
	l := nn.NewTransformerDecoder(decoder(), 2, nil)
	return l, func(x, mask map[string]*torch.Tensor) (*torch.Tensor, *torch.Tensor) {
		return l.Forward(x["x"], x["memory"], own(mask), cross(mask)), nil
	}
}

// TestAttention compares MultiheadAttention and the transformer layers with PyTorch: initial values to the bit, the order of
// the parameters, outputs, weights and gradients, under every kind of mask.
func TestAttention(t *testing.T) {
	var file struct {
		Cases []*attentionCase `json:"cases"`
	}
	golden(t, "attention.json", &file)
	require.Greater(t, len(file.Cases), 50)
	kinds := map[string]bool{}
	for i, c := range file.Cases {
		kinds[c.Kind] = true
		t.Run(fmt.Sprintf("%d/%s/%s", i, c.Kind, c.DType), func(t *testing.T) { checkAttention(t, c) })
	}
	require.Len(t, kinds, 5)
}

func checkAttention(t *testing.T, c *attentionCase) {
	d := dtypes[c.DType]
	tol := map[torch.DType]float64{torch.Float32: 1e-5, torch.Float64: 1e-10}[d]
	torch.ManualSeed(c.Seed)
	m, run := c.build()
	sd := nn.StateDictOf(m)
	require.Len(t, sd, len(c.State))
	for k, a := range c.Initial {
		require.Contains(t, sd, k)
		a.close(t, sd[k], 0, "initial "+k)
	}
	state, keys := nn.StateDict{}, []string{}
	for k, a := range c.State {
		state[k] = a.tensor(d)
	}
	_, err := nn.LoadStateDict(m, state, true)
	require.NoError(t, err)
	for k := range nn.NamedParameters(m) {
		keys = append(keys, k)
	}
	require.Equal(t, c.Keys, keys)

	nn.SetTraining(m, c.Training)
	x, mask := map[string]*torch.Tensor{}, map[string]*torch.Tensor{}
	for k, a := range c.Inputs {
		x[k] = a.tensor(d).SetRequiresGrad(true)
	}
	for k, a := range c.Masks {
		for i, v := range a.Data {
			if v == -1e300 {
				a.Data[i] = math.Inf(-1)
			}
		}
		mask[k] = a.tensor(d)
	}
	for _, k := range c.Bool {
		mask[k] = mask[k].ToDType(torch.Bool)
	}
	torch.ManualSeed(c.ForwardSeed)
	y, w := run(x, mask)
	c.Output.close(t, y, tol, "output")
	loss := y.Mul(c.OutWeight.tensor(d)).Sum()
	require.Equal(t, c.Weights != nil, w != nil)
	if w != nil {
		c.Weights.close(t, w, tol, "weights")
		loss = loss.Add(w.Mul(c.WeightsWeight.tensor(d)).Sum())
	}
	loss.Backward()
	for k, a := range c.InputGrads {
		a.close(t, x[k].Grad(), 3*tol, "gradient of "+k)
	}
	for k, p := range nn.NamedParameters(m) {
		c.Grads[k].close(t, p.Grad(), 3*tol, "gradient of "+k)
	}
}

func TestAttentionErrors(t *testing.T) {
	m := nn.NewMultiheadAttention(8, 2)
	x, mask := torch.Zeros(torch.S(5, 3, 8)), torch.Zeros(torch.S(4, 4))
	for want, f := range map[string]func(){
		"embed_dim 7 must be a positive multiple of num_heads 2": func() { nn.NewMultiheadAttention(7, 2) },
		"Mask is [4 4]; it must be [5 5] or [6 5 5]":             func() { m.Forward(x, x, x, nn.Attention{Mask: mask}) },
		"KeyPaddingMask is [4 4]; it must be [3 5]":              func() { m.Forward(x, x, x, nn.Attention{KeyPaddingMask: mask}) },
		"Causal and Mask exclude each other":                     func() { m.Forward(x, x, x, nn.Attention{Mask: mask, Causal: true}) },
		"must all have 3 dimensions":                             func() { m.Forward(x, mask, x, nn.Attention{}) },
		"the widths of query, key, value are 8, 8, 4": func() {
			m.Forward(x, x, torch.Zeros(torch.S(5, 3, 4)), nn.Attention{})
		},
		"do not belong together": func() { m.Forward(x, torch.Zeros(torch.S(5, 2, 8)), x, nn.Attention{}) },
	} {
		require.ErrorContains(t, torch.Try(f), want)
	}
}

// Inference frees what lies between the operations: only the result is left.
func TestAttentionKeepsOnlyItsResult(t *testing.T) {
	l := nn.NewTransformerDecoderLayer(8, 2)
	nn.SetTraining(l, false)
	x, memory := torch.Zeros(torch.S(5, 3, 8)), torch.Zeros(torch.S(4, 3, 8))
	torch.Inference(func() {
		before := live()
		y := l.Forward(x, memory, nn.Attention{Causal: true}, nn.Attention{})
		require.Equal(t, before+1, torch.Live())
		y.Free()
	})
}

func TestCopy(t *testing.T) {
	type tied struct {
		A, B  *nn.Linear
		Extra nn.Sequential
		Table *torch.Tensor `torch:"-"`
	}
	l := nn.NewLinear(2, 3)
	m := &tied{A: l, B: l, Extra: nn.Sequential{nn.NewBatchNorm2d(2), nn.NewDropout(0.5)}, Table: torch.Ones(torch.S(2))}
	l.Bias.SetRequiresGrad(false)
	c := nn.Copy(m)
	require.Same(t, c.A, c.B)
	require.NotSame(t, m.A, c.A)
	require.NotSame(t, m.Table, c.Table)
	require.True(t, c.A.Weight.RequiresGrad() && c.A.Weight.IsLeaf())
	require.False(t, c.A.Bias.RequiresGrad())
	require.Equal(t, nn.StateDictOf(m).Keys(), nn.StateDictOf(c).Keys())
	nn.SetTraining(c, false)
	require.True(t, m.Extra[1].(*nn.Dropout).Training)
	before := m.A.Weight.Detach().Clone()
	require.True(t, before.Equal(c.A.Weight))
	nn.Zeros_(c.A.Weight)
	nn.Zeros_(c.Table)
	require.True(t, before.Equal(m.A.Weight))
	require.Equal(t, 2.0, m.Table.Sum().Item())
}

type interpolateCase struct {
	Mode         string    `json:"mode"`
	Size         []int     `json:"size"`
	ScaleFactor  []float64 `json:"scale_factor"`
	AlignCorners bool      `json:"align_corners"`
	Antialias    bool      `json:"antialias"`
	Input        array     `json:"input"`
	Output       array     `json:"output"`
	OutputWeight array     `json:"output_weight"`
	InputGrad    array     `json:"input_grad"`
}

func TestInterpolate(t *testing.T) {
	var file struct {
		Cases []interpolateCase `json:"cases"`
	}
	golden(t, "interpolate.json", &file)
	for _, c := range file.Cases {
		what := fmt.Sprintf("%s %v %v corners %v antialias %v", c.Mode, c.Size, c.ScaleFactor, c.AlignCorners, c.Antialias)
		x := c.Input.tensor(torch.Float64).SetRequiresGrad(true)
		y := nn.Interpolate(x, nn.Interpolation{Size: c.Size, ScaleFactor: c.ScaleFactor, Mode: c.Mode, AlignCorners: c.AlignCorners, Antialias: c.Antialias})
		c.Output.close(t, y, 1e-12, what)
		y.Mul(c.OutputWeight.tensor(torch.Float64)).Sum().Backward()
		c.InputGrad.close(t, x.Grad(), 1e-12, "gradient of "+what)
	}
	x := torch.Zeros(torch.S(1, 1, 2, 2))
	for want, o := range map[string]nn.Interpolation{
		"give either Size or ScaleFactor":        {},
		"does not have one number for each":      {Size: []int{2}},
		"unknown mode \"cubic\"":                 {Size: []int{2, 2}, Mode: "cubic"},
		"Antialias goes with":                    {Size: []int{2, 2}, Antialias: true},
		"AlignCorners goes with":                 {Size: []int{2, 2}, AlignCorners: true},
		"the mode \"linear\" needs 3 dimensions": {Size: []int{2, 2}, Mode: "linear"},
	} {
		require.ErrorContains(t, torch.Try(func() { nn.Interpolate(x, o) }), want)
	}
}
