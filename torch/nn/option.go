package nn

import (
	"strings"

	"github.com/gospml/gospml/torch"
)

// Option changes what a constructor makes. Each constructor's comment names the options it takes; another one panics.
type Option struct {
	name string
	set  func(*config)
}

type config struct {
	dtype             torch.DType
	device            torch.Device
	gen               *torch.Generator
	noInit            bool
	bias, affine      bool
	kernel            [2]int
	stride            [2]int
	hasStride         bool
	padding, dilation [2]int
	groups            int
	eps, momentum     float64

	p                                             float64 // of dropout
	kdim, vdim, feedForward                       int
	batchFirst, normFirst, addBiasKV, addZeroAttn bool
	activation                                    Layer
	outputPadding                                 [2]int
	trackRunningStats                             bool
}

// DType sets the element type of the parameters; float32 by default. Python draws other numbers for float64 too.
func DType(d torch.DType) Option { return Option{"DType", func(c *config) { c.dtype = d }} }

// Device sets where the parameters live; the CPU by default.
func Device(d torch.Device) Option { return Option{"Device", func(c *config) { c.device = d }} }

// Generator draws the initial values from g instead of the default generator.
func Generator(g *torch.Generator) Option { return Option{"Generator", func(c *config) { c.gen = g }} }

// NoInit leaves parameters undefined and draws nothing, for a module whose state dict is loaded next
// (torch.nn.utils.skip_init). Gains, biases and statistics of normalisation still get their ones and zeros.
func NoInit() Option { return Option{"NoInit", func(c *config) { c.noInit = true }} }

// Bias says whether there is an additive bias; true by default.
func Bias(on bool) Option { return Option{"Bias", func(c *config) { c.bias = on }} }

// Affine says whether a normalisation has a trained gain and bias; true by default.
func Affine(on bool) Option { return Option{"Affine", func(c *config) { c.affine = on }} }

// KernelSize makes a window of another height and width than the constructor's square one.
func KernelSize(height, width int) Option {
	return Option{"KernelSize", func(c *config) { c.kernel = [2]int{height, width} }}
}

// Stride sets the step of the window: one number, or height and width.
func Stride(n ...int) Option {
	return Option{"Stride", func(c *config) { c.stride, c.hasStride = pair("Stride", n), true }}
}

// Padding sets the border of zeros (of minus infinity for MaxPool2d): one number, or height and width.
func Padding(n ...int) Option {
	return Option{"Padding", func(c *config) { c.padding = pair("Padding", n) }}
}

// Dilation sets the distance of the window's elements: one number, or height and width.
func Dilation(n ...int) Option {
	return Option{"Dilation", func(c *config) { c.dilation = pair("Dilation", n) }}
}

// Groups cuts the channels into groups that do not see each other; as many groups as channels is a depth-wise convolution.
func Groups(n int) Option { return Option{"Groups", func(c *config) { c.groups = n }} }

// Eps is what a normalisation adds to the variance; 1e-5 by default.
func Eps(eps float64) Option { return Option{"Eps", func(c *config) { c.eps = eps }} }

// Momentum is the weight of the newest batch in running statistics; 0.1 by default.
func Momentum(m float64) Option { return Option{"Momentum", func(c *config) { c.momentum = m }} }

// DropoutP sets the probability of the dropout inside a layer.
func DropoutP(p float64) Option {
	return Option{"DropoutP", func(c *config) { NewDropout(p); c.p = p }}
}

// BatchFirst says whether sequences are [N, L, E] instead of [L, N, E]; false by default, as in Python.
func BatchFirst(on bool) Option { return Option{"BatchFirst", func(c *config) { c.batchFirst = on }} }

// NormFirst puts the normalisation before each part of a transformer layer; false by default, as in Python.
func NormFirst(on bool) Option { return Option{"NormFirst", func(c *config) { c.normFirst = on }} }

// FeedForward sets the inner width of a transformer layer's feed-forward network; 2048 by default.
func FeedForward(width int) Option {
	return Option{"FeedForward", func(c *config) { c.feedForward = width }}
}

// Activation sets the nonlinearity of a transformer layer's feed-forward network; ReLU by default.
func Activation(f Layer) Option { return Option{"Activation", func(c *config) { c.activation = f }} }

// KDim sets the width of the keys of MultiheadAttention; the queries' by default.
func KDim(width int) Option { return Option{"KDim", func(c *config) { c.kdim = width }} }

// VDim sets the width of the values of MultiheadAttention; the queries' by default.
func VDim(width int) Option { return Option{"VDim", func(c *config) { c.vdim = width }} }

// AddBiasKV gives MultiheadAttention one more key and value, which are learned.
func AddBiasKV(on bool) Option { return Option{"AddBiasKV", func(c *config) { c.addBiasKV = on }} }

// AddZeroAttn gives MultiheadAttention one more key and value of zeros.
func AddZeroAttn(on bool) Option {
	return Option{"AddZeroAttn", func(c *config) { c.addZeroAttn = on }}
}

// OutputPadding makes the output of a transposed convolution larger on one side: one number, or height and width.
func OutputPadding(n ...int) Option {
	return Option{"OutputPadding", func(c *config) { c.outputPadding = pair("OutputPadding", n) }}
}

// TrackRunningStats says whether a normalisation keeps running statistics; its constructor names the default.
func TrackRunningStats(on bool) Option {
	return Option{"TrackRunningStats", func(c *config) { c.trackRunningStats = on }}
}

func pair(op string, n []int) [2]int {
	switch len(n) {
	case 1:
		return [2]int{n[0], n[0]}
	case 2:
		return [2]int{n[0], n[1]}
	}
	refuse("nn."+op, "takes one number, or height and width, not %d numbers", len(n))
	return [2]int{}
}

// factory are the options of every layer with parameters.
const factory = " DType Device Generator NoInit "

// gather applies opts after checking that the constructor takes them; takes lists names between spaces.
func gather(constructor, takes string, opts []Option) config {
	c := config{
		dtype: torch.Float32, device: torch.CPU, bias: true, affine: true,
		stride: [2]int{1, 1}, dilation: [2]int{1, 1}, groups: 1, eps: 1e-5, momentum: 0.1,
		feedForward: 2048, activation: ReLU{},
	}
	for _, o := range opts {
		if o.set == nil || !strings.Contains(takes, " "+o.name+" ") {
			refuse(constructor, "takes no option %q; it takes%s", o.name, strings.TrimRight(takes, " "))
		}
		o.set(&c)
	}
	return c
}

func (c *config) empty(shape ...int) *torch.Tensor { return torch.Empty(shape, c.dtype, c.device) }

func (c *config) ones(n ...int) *torch.Tensor { return torch.Ones(n, c.dtype, c.device) }

func (c *config) zeros(n ...int) *torch.Tensor { return torch.Zeros(n, c.dtype, c.device) }

// trained makes new tensors into parameters.
func trained(ts ...*torch.Tensor) {
	for _, t := range ts {
		if t != nil {
			t.SetRequiresGrad(true)
		}
	}
}

// Factory is what the options that every layer takes come to; for constructors of whole models.
type Factory struct {
	DType     torch.DType
	Device    torch.Device
	Generator *torch.Generator // nil is the default one
	NoInit    bool
}

// FactoryOf reads DType, Device, Generator and NoInit and panics at other options, naming the constructor.
func FactoryOf(constructor string, opts []Option) Factory {
	c := gather(constructor, factory, opts)
	return Factory{c.dtype, c.device, c.gen, c.noInit}
}
