package nn

import (
	"math"

	"github.com/gospml/gospml/torch"
)

// FanMode says which connections of a weight set its scale.
type FanMode int

// Fan modes: the variance is kept in the forward pass or in the backward pass.
const (
	FanIn FanMode = iota
	FanOut
)

// Nonlinearity names the function after a layer, as in torch.nn.init.calculate_gain.
type Nonlinearity string

// The nonlinearities that CalculateGain knows.
const (
	NonlinearityLinear    Nonlinearity = "linear" // and sigmoid, convolutions
	NonlinearityTanh      Nonlinearity = "tanh"
	NonlinearityReLU      Nonlinearity = "relu"
	NonlinearityLeakyReLU Nonlinearity = "leaky_relu" // slope is its negative slope
	NonlinearitySELU      Nonlinearity = "selu"
)

// CalculateGain is the recommended gain of a nonlinearity; slope counts for leaky_relu only (torch.nn.init.calculate_gain).
func CalculateGain(n Nonlinearity, slope float64) float64 {
	switch n {
	case NonlinearityLinear, "sigmoid", "conv1d", "conv2d", "conv3d":
		return 1
	case NonlinearityTanh:
		return 5.0 / 3
	case NonlinearityReLU:
		return math.Sqrt2
	case NonlinearityLeakyReLU:
		return math.Sqrt(2 / (1 + slope*slope))
	case NonlinearitySELU:
		return 3.0 / 4
	}
	refuse("nn.CalculateGain", "unknown nonlinearity %q", string(n))
	return 0
}

// Fans are the numbers of inputs and outputs of one element of a weight [out, in, kernel…].
func Fans(t *torch.Tensor) (fanIn, fanOut int) {
	s := t.Shape()
	if len(s) < 2 {
		refuse("nn.Fans", "fan in and fan out need a weight of at least 2 dimensions, not %v", s)
	}
	field := 1
	for _, n := range s[2:] {
		field *= n
	}
	return s[1] * field, s[0] * field
}

func fan(t *torch.Tensor, mode FanMode) float64 {
	in, out := Fans(t)
	if mode == FanOut {
		return float64(out)
	}
	return float64(in)
}

// The functions below overwrite a tensor in place without recording, with torch.nn.init's numbers: a nil generator is the
// default one. They return the tensor.

// Uniform_ draws from U(a, b).
func Uniform_(t *torch.Tensor, a, b float64, g *torch.Generator) *torch.Tensor {
	torch.NoGrad(func() { t.Uniform_(a, b, g) })
	return t
}

// Normal_ draws from N(mean, std²).
func Normal_(t *torch.Tensor, mean, std float64, g *torch.Generator) *torch.Tensor {
	torch.NoGrad(func() { t.Normal_(mean, std, g) })
	return t
}

// Constant_ fills with v.
func Constant_(t *torch.Tensor, v float64) *torch.Tensor {
	torch.NoGrad(func() { t.Fill_(v) })
	return t
}

// Zeros_ fills with zeros.
func Zeros_(t *torch.Tensor) *torch.Tensor { return Constant_(t, 0) }

// Ones_ fills with ones.
func Ones_(t *torch.Tensor) *torch.Tensor { return Constant_(t, 1) }

// KaimingUniform_ draws from U(-b, b), b = gain·√(3/fan): He et al. 2015, arXiv:1502.01852. a is the slope of leaky_relu.
func KaimingUniform_(t *torch.Tensor, a float64, mode FanMode, n Nonlinearity, g *torch.Generator) *torch.Tensor {
	if t.Numel() == 0 {
		return t
	}
	std := CalculateGain(n, a) / math.Sqrt(fan(t, mode))
	bound := math.Sqrt(3) * std
	return Uniform_(t, -bound, bound, g)
}

// KaimingNormal_ draws from N(0, gain²/fan): He et al. 2015, arXiv:1502.01852. a is the slope of leaky_relu.
func KaimingNormal_(t *torch.Tensor, a float64, mode FanMode, n Nonlinearity, g *torch.Generator) *torch.Tensor {
	if t.Numel() == 0 {
		return t
	}
	return Normal_(t, 0, CalculateGain(n, a)/math.Sqrt(fan(t, mode)), g)
}

// XavierUniform_ draws from U(-b, b), b = gain·√(6/(fan_in+fan_out)): Glorot and Bengio 2010.
func XavierUniform_(t *torch.Tensor, gain float64, g *torch.Generator) *torch.Tensor {
	in, out := Fans(t)
	bound := math.Sqrt(3) * (gain * math.Sqrt(2/float64(in+out)))
	return Uniform_(t, -bound, bound, g)
}

// XavierNormal_ draws from N(0, gain²·2/(fan_in+fan_out)): Glorot and Bengio 2010.
func XavierNormal_(t *torch.Tensor, gain float64, g *torch.Generator) *torch.Tensor {
	in, out := Fans(t)
	return Normal_(t, 0, gain*math.Sqrt(2/float64(in+out)), g)
}

// TruncNormal_ draws from N(mean, std²) restricted to [a, b], by the inverse of the distribution function.
func TruncNormal_(t *torch.Tensor, mean, std, a, b float64, g *torch.Generator) *torch.Tensor {
	cdf := func(x float64) float64 { return (1 + math.Erf(x/math.Sqrt2)) / 2 }
	l, u := cdf((a-mean)/std), cdf((b-mean)/std)
	torch.NoGrad(func() {
		t.Uniform_(2*l-1, 2*u-1, g)
		torch.Call("aten::erfinv_", t)
		t.MulScalar_(std * math.Sqrt2)
		t.AddScalar_(mean)
		t.Clamp_(a, b)
	})
	return t
}

// reset draws weight and bias as torch.nn.Linear and torch.nn.Conv2d do: kaiming_uniform with a = √5, then U(±1/√fan_in).
func (c *config) reset(weight, bias *torch.Tensor) {
	if c.noInit {
		return
	}
	KaimingUniform_(weight, math.Sqrt(5), FanIn, NonlinearityLeakyReLU, c.gen)
	if bias == nil {
		return
	}
	if in, _ := Fans(weight); in > 0 {
		bound := 1 / math.Sqrt(float64(in))
		Uniform_(bias, -bound, bound, c.gen)
	}
}
