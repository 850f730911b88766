package nn_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

func TestMain(m *testing.M) {
	if err := torch.SetNumThreads(1); err != nil { // the goldens were made with one
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// live counts the tensors after the garbage of earlier tests has been given back.
func live() int {
	for range 2 {
		runtime.GC()
		time.Sleep(5 * time.Millisecond) // cleanups run beside it
	}
	return torch.Live()
}

// array is a tensor in a golden file of testdata/nn.
type array struct {
	Shape []int     `json:"shape"`
	Data  []float64 `json:"data"`
}

// tensor converts to the golden's dtype.
func (a array) tensor(d torch.DType) *torch.Tensor {
	t := torch.FromSlice(a.Data, append([]int{}, a.Shape...)...)
	if len(a.Shape) == 0 {
		t = torch.Scalar(a.Data[0])
	}
	return t.ToDType(d)
}

// close compares with a tolerance relative to the largest expected value; 0 means every bit.
func (a array) close(t testing.TB, got *torch.Tensor, tol float64, what string) {
	t.Helper()
	require.NotNil(t, got, what)
	require.Equal(t, append([]int{}, a.Shape...), got.Shape(), what)
	largest := 0.0
	for _, v := range a.Data {
		largest = max(largest, math.Abs(v))
	}
	for i, v := range torch.ToSlice[float64](got) {
		want := a.Data[i]
		if got.DType() == torch.Float32 { // nine digits in the file: they name one float32
			want = float64(float32(want))
		}
		if !(math.Abs(v-want) <= tol*largest) {
			t.Fatalf("%s: element %d of %v is %v, PyTorch has %v", what, i, a.Shape, v, want)
		}
	}
}

func golden(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(testroot.Testdata("nn", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into))
}

var dtypes = map[string]torch.DType{"float32": torch.Float32, "float64": torch.Float64}

type layerCase struct {
	Layer       string           `json:"layer"`
	DType       string           `json:"dtype"`
	Training    bool             `json:"training"`
	Seed        int64            `json:"seed"`
	ForwardSeed int64            `json:"forward_seed"`
	Initial     map[string]array `json:"initial"`
	State       map[string]array `json:"state"`
	Input       array            `json:"input"`
	Output      array            `json:"output"`
	OutWeight   array            `json:"output_weight"`
	InputGrad   *array           `json:"input_grad"`
	Grads       map[string]array `json:"grads"`
	StateAfter  map[string]array `json:"state_after"`
}

// makers build the layers of testdata/nn/make.py.
var makers = map[string]func(o nn.Option) nn.Layer{
	"linear":         func(o nn.Option) nn.Layer { return nn.NewLinear(5, 4, o) },
	"linear_no_bias": func(o nn.Option) nn.Layer { return nn.NewLinear(5, 4, nn.Bias(false), o) },
	"conv2d":         func(o nn.Option) nn.Layer { return nn.NewConv2d(3, 4, 3, o) },
	"conv2d_stride_padding": func(o nn.Option) nn.Layer {
		return nn.NewConv2d(2, 3, 3, nn.Stride(2), nn.Padding(1), nn.Bias(false), o)
	},
	"conv2d_groups_dilation": func(o nn.Option) nn.Layer {
		return nn.NewConv2d(4, 6, 3, nn.Groups(2), nn.Dilation(2), nn.Padding(2), o)
	},
	"conv2d_depthwise": func(o nn.Option) nn.Layer {
		return nn.NewConv2d(4, 4, 3, nn.Groups(4), nn.Stride(2), nn.Padding(1), nn.Bias(false), o)
	},
	"conv2d_rectangle": func(o nn.Option) nn.Layer {
		return nn.NewConv2d(2, 3, 0, nn.KernelSize(3, 1), nn.Stride(1, 2), nn.Padding(1, 0), o)
	},
	"batchnorm2d":              func(o nn.Option) nn.Layer { return nn.NewBatchNorm2d(3, o) },
	"batchnorm2d_eps_momentum": func(o nn.Option) nn.Layer { return nn.NewBatchNorm2d(3, nn.Eps(1e-3), nn.Momentum(0.3), o) },
	"batchnorm2d_no_affine":    func(o nn.Option) nn.Layer { return nn.NewBatchNorm2d(3, nn.Affine(false), o) },
	"layernorm":                func(o nn.Option) nn.Layer { return nn.NewLayerNorm([]int{5}, o) },
	"layernorm_two_dims":       func(o nn.Option) nn.Layer { return nn.NewLayerNorm([]int{4, 5}, nn.Eps(1e-3), o) },
	"layernorm_no_bias":        func(o nn.Option) nn.Layer { return nn.NewLayerNorm([]int{5}, nn.Bias(false), o) },
	"layernorm_no_affine":      func(o nn.Option) nn.Layer { return nn.NewLayerNorm([]int{5}, nn.Affine(false), o) },
	"dropout":                  func(nn.Option) nn.Layer { return nn.NewDropout(0.3) },
	"dropout_all":              func(nn.Option) nn.Layer { return nn.NewDropout(1) },
	"relu":                     func(nn.Option) nn.Layer { return nn.ReLU{} },
	"relu6":                    func(nn.Option) nn.Layer { return nn.ReLU6{} },
	"gelu":                     func(nn.Option) nn.Layer { return nn.GELU{} },
	"gelu_tanh":                func(nn.Option) nn.Layer { return nn.GELU{Approximate: "tanh"} },
	"quick_gelu":               func(nn.Option) nn.Layer { return nn.QuickGELU{} },
	"silu":                     func(nn.Option) nn.Layer { return nn.SiLU{} },
	"max_pool2d":               func(nn.Option) nn.Layer { return nn.NewMaxPool2d(2) },
	"max_pool2d_stride_padding": func(nn.Option) nn.Layer {
		return nn.NewMaxPool2d(3, nn.Stride(2), nn.Padding(1))
	},
	"max_pool2d_ceil_dilation": func(nn.Option) nn.Layer {
		p := nn.NewMaxPool2d(2, nn.Stride(2), nn.Dilation(2))
		p.CeilMode = true
		return p
	},
	"avg_pool2d":         func(nn.Option) nn.Layer { return nn.NewAvgPool2d(2) },
	"avg_pool2d_padding": func(nn.Option) nn.Layer { return nn.NewAvgPool2d(3, nn.Stride(2), nn.Padding(1)) },
	"avg_pool2d_padding_not_counted": func(nn.Option) nn.Layer {
		p := nn.NewAvgPool2d(0, nn.KernelSize(3, 2), nn.Stride(2), nn.Padding(1))
		p.CeilMode, p.CountIncludePad = true, false
		return p
	},
	"adaptive_avg_pool2d":     func(nn.Option) nn.Layer { return nn.AdaptiveAvgPool2d{OutputSize: [2]int{1, 1}} },
	"adaptive_avg_pool2d_3x2": func(nn.Option) nn.Layer { return nn.AdaptiveAvgPool2d{OutputSize: [2]int{3, 2}} },
	"flatten":                 func(nn.Option) nn.Layer { return nn.NewFlatten() },
	"embedding":               func(o nn.Option) nn.Layer { return nn.NewEmbedding(7, 4, o) },
	"batchnorm1d":             func(o nn.Option) nn.Layer { return nn.NewBatchNorm1d(4, o) },
	"batchnorm1d_length":      func(o nn.Option) nn.Layer { return nn.NewBatchNorm1d(3, nn.Eps(1e-3), nn.Momentum(0.3), o) },
	"batchnorm1d_no_affine":   func(o nn.Option) nn.Layer { return nn.NewBatchNorm1d(4, nn.Affine(false), o) },
	"groupnorm":               func(o nn.Option) nn.Layer { return nn.NewGroupNorm(2, 4, o) },
	"groupnorm_no_affine":     func(o nn.Option) nn.Layer { return nn.NewGroupNorm(3, 3, nn.Eps(1e-3), nn.Affine(false), o) },
	"instancenorm2d":          func(o nn.Option) nn.Layer { return nn.NewInstanceNorm2d(3, o) },
	"instancenorm2d_affine":   func(o nn.Option) nn.Layer { return nn.NewInstanceNorm2d(3, nn.Affine(true), nn.Eps(1e-3), o) },
	"rmsnorm":                 func(o nn.Option) nn.Layer { return nn.NewRMSNorm([]int{5}, o) },
	"rmsnorm_eps":             func(o nn.Option) nn.Layer { return nn.NewRMSNorm([]int{4, 5}, nn.Eps(1e-2), o) },
	"conv1d": func(o nn.Option) nn.Layer {
		return nn.NewConv1d(2, 4, 3, nn.Stride(2), nn.Padding(1), nn.Groups(2), o)
	},
	"conv_transpose2d": func(o nn.Option) nn.Layer {
		return nn.NewConvTranspose2d(2, 4, 3, nn.Stride(2), nn.Padding(1), nn.OutputPadding(1), nn.Groups(2), o)
	},
	"leaky_relu":          func(nn.Option) nn.Layer { return nn.LeakyReLU{NegativeSlope: 0.1} },
	"elu":                 func(nn.Option) nn.Layer { return nn.ELU{Alpha: 0.7} },
	"prelu":               func(o nn.Option) nn.Layer { return nn.NewPReLU(3, o) },
	"sigmoid":             func(nn.Option) nn.Layer { return nn.Sigmoid{} },
	"tanh":                func(nn.Option) nn.Layer { return nn.Tanh{} },
	"softmax":             func(nn.Option) nn.Layer { return nn.Softmax{Dim: 1} },
	"softplus":            func(nn.Option) nn.Layer { return nn.Softplus{} },
	"mish":                func(nn.Option) nn.Layer { return nn.Mish{} },
	"hardswish":           func(nn.Option) nn.Layer { return nn.Hardswish{} },
	"hardsigmoid":         func(nn.Option) nn.Layer { return nn.Hardsigmoid{} },
	"dropout2d":           func(nn.Option) nn.Layer { return nn.NewDropout2d(0.4) },
	"adaptive_max_pool2d": func(nn.Option) nn.Layer { return nn.AdaptiveMaxPool2d{OutputSize: [2]int{3, 2}} },
	"pixel_shuffle":       func(nn.Option) nn.Layer { return nn.PixelShuffle{UpscaleFactor: 2} },
	"upsample_nearest": func(nn.Option) nn.Layer {
		return nn.Upsample{Interpolation: nn.Interpolation{ScaleFactor: []float64{2}}}
	},
	"upsample_bilinear": func(nn.Option) nn.Layer {
		return nn.Upsample{Interpolation: nn.Interpolation{Size: []int{5, 3}, Mode: "bilinear", AlignCorners: true}}
	},
	"sequential": func(o nn.Option) nn.Layer {
		return nn.Sequential{nn.NewLinear(6, 5, o), nn.ReLU{Inplace: true}, nn.Sequential{nn.NewLinear(5, 4, o), nn.NewDropout(0.4)}, nn.Identity{}}
	},
}

// TestLayers compares every layer with PyTorch: initial values to the bit, output, gradients and buffers, in training and
// evaluation mode.
func TestLayers(t *testing.T) {
	var file struct {
		Cases []layerCase `json:"cases"`
	}
	golden(t, "layers.json", &file)
	seen := map[string]bool{}
	for _, c := range file.Cases {
		seen[c.Layer] = true
		mode := map[bool]string{true: "train", false: "eval"}[c.Training]
		t.Run(c.Layer+"/"+c.DType+"/"+mode, func(t *testing.T) { checkLayer(t, c) })
	}
	require.Len(t, seen, len(makers), "a maker without a golden, or the reverse")
}

func checkLayer(t *testing.T, c layerCase) {
	d := dtypes[c.DType]
	tol := map[torch.DType]float64{torch.Float32: 1e-5, torch.Float64: 1e-10}[d]
	require.Contains(t, makers, c.Layer)
	torch.ManualSeed(c.Seed)
	m := makers[c.Layer](nn.DType(d))

	sd := nn.StateDictOf(m)
	require.Len(t, sd, len(c.Initial))
	for k, a := range c.Initial {
		require.Contains(t, sd, k)
		a.close(t, sd[k], 0, "initial "+k)
	}
	state := nn.StateDict{}
	for k, a := range c.State {
		state[k] = a.tensor(sd[k].DType())
	}
	r, err := nn.LoadStateDict(m, state, true)
	require.NoError(t, err)
	require.Equal(t, len(state), r.Loaded)

	nn.SetTraining(m, c.Training)
	x := c.Input.tensor(d)
	if c.InputGrad == nil {
		x = x.ToDType(torch.Int64)
	} else {
		x.SetRequiresGrad(true)
	}
	torch.ManualSeed(c.ForwardSeed)
	y := m.Forward(x)
	c.Output.close(t, y, tol, "output")
	y.Mul(c.OutWeight.tensor(d)).Sum().Backward()
	if c.InputGrad != nil {
		c.InputGrad.close(t, x.Grad(), tol, "gradient of the input")
	}
	n := 0
	for k, p := range nn.NamedParameters(m) {
		require.Contains(t, c.Grads, k)
		c.Grads[k].close(t, p.Grad(), tol, "gradient of "+k)
		n++
	}
	require.Len(t, c.Grads, n)
	n = 0
	for k, b := range nn.NamedBuffers(m) {
		require.Contains(t, c.StateAfter, k)
		c.StateAfter[k].close(t, b, tol, k+" afterwards")
		n++
	}
	require.Len(t, c.StateAfter, n)
}
