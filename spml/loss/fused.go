package loss

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/gospml/gospml/spml/internal/oplib"
	"github.com/gospml/gospml/torch"
)

// Impl says how a loss is computed.
type Impl string

// Implementations. Auto is the fused form where there is one for the entry, the batch and the machine, else the
// composed one. Fused asks for it: where there is none, that is an error. The fused form has no second derivative:
// backward with CreateGraph raises.
const (
	Auto     Impl = "auto"
	Composed Impl = "composed"
	Fused    Impl = "fused"
)

// FusedForm describes the form of a loss that is one operator of the ops library: value and gradient in one pass.
type FusedForm struct {
	Op     string // "spml::em"; without a graph Op + "_fwd"
	Except string // what the composed form computes instead, "" = nothing
	// New gives the computation for parameters and options.
	New func(v Values, o Options) Pass
}

// Pass computes a loss and its gradient at once. Its functions get a checked batch that is not empty and may panic with
// *torch.Error.
type Pass struct {
	// Value is recorded by autograd.
	Value func(b *Batch) *torch.Tensor
	// ValueGrad also gives the gradient with respect to the logits and records nothing.
	ValueGrad func(b *Batch) (value, grad *torch.Tensor)
	// Refuses, if not nil, says why a batch needs the composed form; "" = it does not.
	Refuses func(b *Batch) string
}

// code is the number that the operators know a reduction by.
func (r Reduction) code() int {
	switch r {
	case Sum:
		return 2
	case BatchMean:
		return 3
	default:
		return 1
	}
}

// pointwise is the fused form of a loss whose terms depend on one logit each: op(logits, labels…, numbers…, log_eps,
// reduction, rows). numbers are the operator's parameters, which may depend on the batch.
func pointwise(op string, labels func(b *Batch) (first, second *torch.Tensor), numbers func(v Values) func(b *Batch) []float64) *FusedForm {
	record, forward := torch.NewOperator("spml::"+op, ""), torch.NewOperator("spml::"+op+"_fwd", "")
	return &FusedForm{Op: "spml::" + op, New: func(v Values, o Options) Pass {
		of := numbers(v)
		fill := func(c *torch.OperatorCall, b *Batch) {
			c.Tensor(b.Logits)
			first, second := labels(b)
			c.Tensor(first)
			if second != nil {
				c.Tensor(second)
			}
			for _, x := range of(b) {
				c.Float(x)
			}
			c.Float(o.LogEps)
			c.Int(o.Reduction.code())
			c.Tensor(b.Rows)
		}
		return Pass{
			Value: func(b *Batch) *torch.Tensor {
				c := record.Begin()
				fill(&c, b)
				return c.One()
			},
			ValueGrad: func(b *Batch) (value, grad *torch.Tensor) {
				c := forward.Begin()
				fill(&c, b)
				return c.Two()
			},
		}
	}}
}

// except leaves some batches to the composed form: what, in words, and which.
func (f *FusedForm) except(what string, refuses func(b *Batch) string) *FusedForm {
	of := f.New
	return &FusedForm{Op: f.Op, Except: what, New: func(v Values, o Options) Pass {
		p := of(v, o)
		p.Refuses = refuses
		return p
	}}
}

// reporting puts out the parts of a loss before it is computed.
func (f *FusedForm) reporting(parts func(b *Batch, v Values)) *FusedForm {
	of := f.New
	return &FusedForm{Op: f.Op, Except: f.Except, New: func(v Values, o Options) Pass {
		p := of(v, o)
		value, valueGrad := p.Value, p.ValueGrad
		p.Value = func(b *Batch) *torch.Tensor {
			if b.Report != nil {
				parts(b, v)
			}
			return value(b)
		}
		p.ValueGrad = func(b *Batch) (*torch.Tensor, *torch.Tensor) {
			if b.Report != nil {
				parts(b, v)
			}
			return valueGrad(b)
		}
		return p
	}}
}

// padding says that no row counts: the loss is 0 then, whatever else adds to it.
func (b *Batch) padding() bool { return b.Rows != nil && b.Rows.NeScalar(0).Sum().ItemInt() == 0 }

func observedLabels(b *Batch) (first, second *torch.Tensor) { return b.Observed, nil }

func fullLabels(b *Batch) (first, second *torch.Tensor) { return b.Full, nil }

// fixed are numbers that do not depend on the batch.
func fixed(of func(v Values) []float64) func(v Values) func(b *Batch) []float64 {
	return func(v Values) func(b *Batch) []float64 {
		x := of(v)
		return func(*Batch) []float64 { return x }
	}
}

// OpsLibrary is the file of the fused operators.
const OpsLibrary = oplib.CPULibrary

// CUDALibrary is the file of the fused operators' CUDA kernels; `make cuda` builds it.
const CUDALibrary = oplib.CUDALibrary

// FusedAvailable loads the library of fused operators and says why they cannot be used; nil where they can.
func FusedAvailable() error { return oplib.CPU() }

var sayUnavailable = sync.OnceFunc(func() {
	slog.Warn("fused losses are not available, the slower composed forms are used", "reason", FusedAvailable())
})

// refuses says why this batch cannot take the fused form.
func (c *checked) refuses(b *Batch) string {
	switch {
	case b.Frozen != nil:
		return "Batch.Frozen needs the composed form"
	case b.Logits.Device().Type == torch.DeviceCUDA:
		if err := oplib.CUDA(); err != nil {
			return err.Error()
		}
	case b.Logits.Device().Type != torch.DeviceCPU && !oplib.Emulated.Load():
		return fmt.Sprintf("there are no fused kernels for %v", b.Logits.Device())
	}
	if c.pass.Refuses != nil {
		return c.pass.Refuses(b)
	}
	return ""
}

// fused says whether to take the fused form for this batch.
func (c *checked) fused(b *Batch) (bool, error) {
	if c.pass == nil {
		return false, nil
	}
	if err := FusedAvailable(); err != nil {
		if c.impl == Fused {
			return false, err
		}
		sayUnavailable()
		return false, nil
	}
	if why := c.refuses(b); why != "" {
		if c.impl == Fused {
			return false, fmt.Errorf("loss: impl=fused: %s", why)
		}
		return false, nil
	}
	return true, nil
}

// ValueGrad computes a loss and its gradient with respect to Batch.Logits, in the fused form in one pass and without
// autograd. The gradient has the logits' type, but float32 for float16. Gradients with respect to anything else are not
// computed.
func ValueGrad(l Loss, b Batch) (value, grad *torch.Tensor, err error) {
	if b.Logits == nil {
		return nil, nil, fmt.Errorf("loss: no logits")
	}
	if c, ok := l.(*checked); ok {
		var bad error
		done := false
		err = torch.Try(func() {
			if bad = b.check(c.needs); bad != nil || b.Logits.Numel() == 0 {
				return
			}
			if done, bad = c.fused(&b); done {
				value, grad = c.pass.ValueGrad(&b)
			}
		})
		if err == nil {
			err = bad
		}
		if done || err != nil {
			return value, grad, err
		}
	}
	var bad error
	err = torch.Try(func() {
		torch.EnableGrad(func() {
			z := b.Logits.Detach()
			if z.DType() == torch.Float16 {
				z = z.ToDType(torch.Float32)
			}
			b.Logits = z.SetRequiresGrad(true)
			if value, bad = l.Value(b); bad != nil {
				return
			}
			grad = torch.Grad([]*torch.Tensor{value}, []*torch.Tensor{z})[0]
			value = value.Detach()
		})
	})
	if err == nil {
		err = bad
	}
	return value, grad, err
}
