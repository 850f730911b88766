package graph

import (
	"errors"
	"math"

	"github.com/gospml/gospml/spml/internal/oplib"
	"github.com/gospml/gospml/torch"
)

// Network is a list of steps, ready to run. It is safe for many goroutines; its memory goes when it is freed or no
// longer used.
type Network struct {
	handle *torch.Tensor
	run    *torch.Operator
}

// Build makes a network of the steps that f writes down, of Float32 or BFloat16. The layers' own tensors are copied.
// BFloat16 is an error where the processor does not multiply it.
func Build(dtype torch.DType, f func(b *Builder)) (*Network, error) {
	return build(f, func(steps []Step, _ *torch.Arena) (*torch.Tensor, error) { return packed(dtype, steps), nil })
}

// packed is the handle of a network.
func packed(dtype torch.DType, steps []Step) *torch.Tensor {
	p := pack(steps)
	return torch.Call("spml::freeze", p.constants, p.steps, p.numbers, dtype)[0].(*torch.Tensor)
}

// build makes a network of the handle that pack makes of the steps that f writes down.
func build(f func(b *Builder), pack func(steps []Step, a *torch.Arena) (*torch.Tensor, error)) (*Network, error) {
	if err := oplib.CPU(); err != nil {
		return nil, err
	}
	n := &Network{run: torch.NewOperator("spml::frozen", "")}
	var described error
	err := torch.Try(func() {
		torch.Scope(func(a *torch.Arena) {
			torch.NoGrad(func() {
				var steps []Step
				if steps, described = Describe(f); described != nil {
					return
				}
				if n.handle, described = pack(steps, a); described == nil {
					a.Keep(n.handle)
				}
			})
		})
	})
	if err = errors.Join(described, err); err != nil {
		return nil, err
	}
	return n, nil
}

// packing is the form in which the operator spml::freeze takes steps.
type packing struct {
	constants []*torch.Tensor
	steps     []int
	numbers   []float64
	known     map[*torch.Tensor]int // steps that share a tensor share what is packed
}

// pack writes steps as records of spml/csrc/frozen.h.
func pack(steps []Step) packing {
	p := packing{known: map[*torch.Tensor]int{}}
	for _, s := range steps {
		extra, apart, first, second := 0, 0, 0.0, 0.0
		act := s.Act
		switch s.Act {
		case ReLU:
			act, second = clamp, math.Inf(1)
		case ReLU6:
			act, second = clamp, 6
		}
		switch s.Op {
		case OpNorm:
			first = s.Eps
		case OpAttention:
			extra, first = s.Heads, s.Scale
			if s.Apart {
				apart = 1
			}
		}
		if s.Ceil || s.Behind {
			extra = 1
		}
		p.steps = append(p.steps, int(s.Op), s.In, s.Out, s.Add, p.constant(s.Weight), p.constant(s.Bias),
			s.KernelH, s.KernelW, s.Stride, s.Pad, int(act), s.Channel, s.Channels, s.Count, extra, apart)
		p.numbers = append(p.numbers, first, second)
	}
	return p
}

// constant gives a tensor its number.
func (p *packing) constant(t *torch.Tensor) int {
	if t == nil {
		return -1
	}
	n, ok := p.known[t]
	if !ok {
		n = len(p.constants)
		p.constants = append(p.constants, t.Detach().ToDType(torch.Float32))
		p.known[t] = n
	}
	return n
}

// Run computes a value of images [B, 3, H, W] of any strides: [B, h, w, C]. table [N, C] belongs to networks with
// Tokens. threads 0 are those of an operation on this OS thread. It panics with *torch.Error where they do not fit.
func (n *Network) Run(images, table *torch.Tensor, v Value, threads int) *torch.Tensor {
	c := n.run.Begin()
	c.Tensor(n.handle)
	c.Tensor(images)
	c.Tensor(table)
	c.Int(v.id)
	c.Int(threads)
	return c.One()
}

// Free lets go of the weights.
func (n *Network) Free() { n.handle.Free() }
