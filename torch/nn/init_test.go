package nn_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// TestInit compares the initialisers with torch.nn.init to the bit.
func TestInit(t *testing.T) {
	gain := nn.CalculateGain(nn.NonlinearityTanh, 0)
	functions := map[string]func(*torch.Tensor){
		"uniform":  func(x *torch.Tensor) { nn.Uniform_(x, -0.3, 0.7, nil) },
		"normal":   func(x *torch.Tensor) { nn.Normal_(x, 0.5, 2, nil) },
		"constant": func(x *torch.Tensor) { nn.Constant_(x, 0.25) },
		"zeros":    func(x *torch.Tensor) { nn.Zeros_(x) },
		"ones":     func(x *torch.Tensor) { nn.Ones_(x) },
		"kaiming_uniform_sqrt5": func(x *torch.Tensor) {
			nn.KaimingUniform_(x, math.Sqrt(5), nn.FanIn, nn.NonlinearityLeakyReLU, nil)
		},
		"kaiming_uniform_fan_out_relu": func(x *torch.Tensor) { nn.KaimingUniform_(x, 0, nn.FanOut, nn.NonlinearityReLU, nil) },
		"kaiming_normal_fan_out_relu":  func(x *torch.Tensor) { nn.KaimingNormal_(x, 0, nn.FanOut, nn.NonlinearityReLU, nil) },
		"kaiming_normal":               func(x *torch.Tensor) { nn.KaimingNormal_(x, 0, nn.FanIn, nn.NonlinearityLeakyReLU, nil) },
		"xavier_uniform":               func(x *torch.Tensor) { nn.XavierUniform_(x, 1, nil) },
		"xavier_uniform_gain_tanh":     func(x *torch.Tensor) { nn.XavierUniform_(x, gain, nil) },
		"xavier_normal":                func(x *torch.Tensor) { nn.XavierNormal_(x, 1, nil) },
		"trunc_normal":                 func(x *torch.Tensor) { nn.TruncNormal_(x, 0, 0.02, -2, 2, nil) },
		"trunc_normal_tight":           func(x *torch.Tensor) { nn.TruncNormal_(x, 0.1, 1.5, -1, 0.5, nil) },
		"normal_generator_11":          func(x *torch.Tensor) { nn.Normal_(x, 0.5, 2, torch.NewGenerator(11)) },
	}
	var file struct {
		Seed  int64 `json:"seed"`
		Cases []struct {
			Function string `json:"function"`
			DType    string `json:"dtype"`
			Value    array  `json:"value"`
		} `json:"cases"`
	}
	golden(t, "init.json", &file)
	seen := map[string]bool{}
	for _, c := range file.Cases {
		seen[c.Function] = true
		require.Contains(t, functions, c.Function)
		x := torch.Empty(c.Value.Shape, dtypes[c.DType], torch.RequiresGrad)
		torch.ManualSeed(file.Seed)
		functions[c.Function](x)
		c.Value.close(t, x, 0, c.Function+" "+c.DType)
		require.True(t, x.IsLeaf())
	}
	require.Len(t, seen, len(functions))
}

func TestInitErrors(t *testing.T) {
	require.ErrorContains(t, torch.Try(func() { nn.KaimingNormal_(torch.Zeros(torch.S(3)), 0, nn.FanIn, nn.NonlinearityReLU, nil) }), "at least 2 dimensions")
	require.ErrorContains(t, torch.Try(func() { nn.CalculateGain("sine", 0) }), `unknown nonlinearity "sine"`)
	// An empty weight draws nothing and is no error.
	nn.KaimingUniform_(torch.Zeros(torch.S(0, 3)), 0, nn.FanIn, nn.NonlinearityReLU, nil)
}

func TestNoInitAndGenerator(t *testing.T) {
	torch.ManualSeed(3)
	want := torch.ToSlice[float32](torch.Rand(torch.S(2)))
	torch.ManualSeed(3)
	nn.NewLinear(4, 3, nn.NoInit())
	nn.NewConv2d(4, 3, 3, nn.NoInit())
	nn.NewEmbedding(4, 3, nn.NoInit())
	g := torch.NewGenerator(9)
	a := nn.NewLinear(4, 3, nn.Generator(g))
	require.Equal(t, want, torch.ToSlice[float32](torch.Rand(torch.S(2))), "the default generator was used")
	torch.ManualSeed(9)
	require.True(t, nn.NewLinear(4, 3).Weight.Equal(a.Weight))
}
