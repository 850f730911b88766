package torch

// S is a shape: S(2, 3). S() is the shape of a zero-dimensional tensor.
func S(dims ...int) []int { return dims }

// Option sets the dtype, the device or the gradient flag of a new tensor: a DType, a Device or RequiresGrad.
type Option interface{ option() }

type options struct {
	dtype    DType
	hasDType bool
	device   Device
	grad     bool
	gen      *Generator
}

type requiresGrad struct{}

func (DType) option()        {}
func (Device) option()       {}
func (*Generator) option()   {}
func (requiresGrad) option() {}

// RequiresGrad is the option that makes a new tensor a leaf that autograd records.
var RequiresGrad Option = requiresGrad{}

func gather(opts []Option) options {
	o := options{device: CPU}
	for _, opt := range opts {
		switch x := opt.(type) {
		case DType:
			o.dtype, o.hasDType = x, true
		case Device:
			o.device = x
		case *Generator:
			o.gen = x
		case requiresGrad:
			o.grad = true
		}
	}
	return o
}

// tail pushes dtype, layout, device, pin_memory; floats is the default dtype that a missing one means.
func (o *options) tail(a *args) {
	if o.hasDType {
		a.dtype(o.dtype)
	} else {
		a.none()
	}
	a.none()
	if o.device.Type == DeviceCPU {
		a.none() // the default, and cheaper
	} else {
		a.device(o.device)
	}
	a.none()
}

func (o *options) finish(t *Tensor) *Tensor {
	if o.grad {
		t.SetRequiresGrad(true)
	}
	return t
}

var (
	opEmpty    = opRef{name: "aten::empty", overload: "memory_format"}
	opZeros    = opRef{name: "aten::zeros"}
	opOnes     = opRef{name: "aten::ones"}
	opFull     = opRef{name: "aten::full"}
	opRand     = opRef{name: "aten::rand", overload: "generator"}
	opRandn    = opRef{name: "aten::randn", overload: "generator"}
	opRandint  = opRef{name: "aten::randint", overload: "low_generator"}
	opRandperm = opRef{name: "aten::randperm", overload: "generator"}
	opArange   = opRef{name: "aten::arange", overload: "start_step"}
	opLinspace = opRef{name: "aten::linspace"}
	opEye      = opRef{name: "aten::eye"}
)

// Empty makes a tensor whose values are undefined. The default dtype of all makers is Float32, the default device CPU.
func Empty(shape []int, opts ...Option) *Tensor {
	o := gather(opts)
	a := args{op: &opEmpty}
	a.ints(shape)
	o.tail(&a)
	return o.finish(a.one())
}

// Zeros makes a tensor of zeros.
func Zeros(shape []int, opts ...Option) *Tensor {
	o := gather(opts)
	a := args{op: &opZeros}
	a.ints(shape)
	o.tail(&a)
	return o.finish(a.one())
}

// Ones makes a tensor of ones.
func Ones(shape []int, opts ...Option) *Tensor {
	o := gather(opts)
	a := args{op: &opOnes}
	a.ints(shape)
	o.tail(&a)
	return o.finish(a.one())
}

// Full makes a tensor filled with v; without a DType option an int gives int64, a float float32, a bool bool, as in PyTorch.
func Full[N Number](shape []int, v N, opts ...Option) *Tensor { return full(shape, v, opts...) }

func full(shape []int, v any, opts ...Option) *Tensor {
	o := gather(opts)
	a := args{op: &opFull}
	a.ints(shape)
	a.scalar(v)
	o.tail(&a)
	return o.finish(a.one())
}

// Rand draws from the uniform distribution on [0, 1).
func Rand(shape []int, opts ...Option) *Tensor { return drawn(&opRand, shape, opts) }

// Randn draws from the standard normal distribution.
func Randn(shape []int, opts ...Option) *Tensor { return drawn(&opRandn, shape, opts) }

func drawn(op *opRef, shape []int, opts []Option) *Tensor {
	o := gather(opts)
	a := args{op: op}
	a.ints(shape)
	a.gen(o.gen)
	o.tail(&a)
	return o.finish(a.one())
}

// Randint draws integers from [low, high), int64 by default.
func Randint(low, high int, shape []int, opts ...Option) *Tensor {
	o := gather(opts)
	if !o.hasDType {
		o.dtype, o.hasDType = Int64, true
	}
	a := args{op: &opRandint}
	a.int(low)
	a.int(high)
	a.ints(shape)
	a.gen(o.gen)
	o.tail(&a)
	return o.finish(a.one())
}

// Randperm is a random permutation of 0 … n-1, int64 by default.
func Randperm(n int, opts ...Option) *Tensor {
	o := gather(opts)
	if !o.hasDType {
		o.dtype, o.hasDType = Int64, true
	}
	a := args{op: &opRandperm}
	a.int(n)
	a.gen(o.gen)
	o.tail(&a)
	return o.finish(a.one())
}

// Arange is start, start+step, … below end; ints give int64, floats float32.
func Arange[N Number](start, end, step N, opts ...Option) *Tensor {
	o := gather(opts)
	a := args{op: &opArange}
	a.scalar(start)
	a.scalar(end)
	a.scalar(step)
	o.tail(&a)
	return o.finish(a.one())
}

// Linspace is steps equally spaced values from start to end, both included.
func Linspace(start, end float64, steps int, opts ...Option) *Tensor {
	o := gather(opts)
	a := args{op: &opLinspace}
	a.float(start)
	a.float(end)
	a.int(steps)
	o.tail(&a)
	return o.finish(a.one())
}

// Eye is the n×n identity matrix.
func Eye(n int, opts ...Option) *Tensor {
	o := gather(opts)
	a := args{op: &opEye}
	a.int(n)
	o.tail(&a)
	return o.finish(a.one())
}
