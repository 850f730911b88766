package clip

import (
	"fmt"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// silu is QuickGELU with its factor folded into the weights on both sides.
const silu Act = "silu"

// remote says whether the model computes elsewhere than on the CPU.
func (o *Options) remote() bool { return o.Device.Type != torch.DeviceCPU }

// checkDevice says what a device lacks, and gives a card without a number the first one's.
func (o *Options) checkDevice() error {
	if o.Device.Type != torch.DeviceCUDA {
		return nil
	}
	if o.Device.Index < 0 {
		o.Device.Index = 0
	}
	if err := cuda.Available(); err != nil {
		return fmt.Errorf("clip: %v: %w", o.Device, err)
	}
	if n := cuda.DeviceCount(); o.Device.Index >= n {
		return fmt.Errorf("clip: %v: there are %d cards here", o.Device, n)
	}
	return nil
}

// move brings the towers to a device in dtype. The logit scale and bias stay where they are: cosines are multiplied on the CPU.
func (c *CLIP) move(d torch.Device, dtype torch.DType, plain bool) {
	if !plain {
		for _, l := range nn.Modules(c) {
			if b, ok := l.(*Block); ok {
				b.foldScales()
				if dtype != torch.Float32 {
					b.Mlp.foldFactor()
				}
			}
		}
	}
	nn.Walk(c, func(e nn.Entry) {
		if e.Tensor == c.LogitScale || e.Tensor == c.LogitBias {
			return
		}
		torch.Scope(func(*torch.Arena) {
			torch.NoGrad(func() {
				to := e.Tensor.DType()
				if to.IsFloat() {
					to = dtype
				}
				e.Tensor.SetData(e.Tensor.ToDeviceDType(d, to))
			})
		})
	})
}

// foldFactor turns QuickGELU, three passes over the widest tensor, into one: see quickGELUFactor.
func (m *MLP) foldFactor() {
	if m.act != QuickGELU {
		return
	}
	torch.Scope(func(*torch.Arena) {
		torch.NoGrad(func() {
			m.CFc.Weight.SetData(m.CFc.Weight.MulScalar(quickGELUFactor))
			m.CFc.Bias.SetData(m.CFc.Bias.MulScalar(quickGELUFactor))
			m.CProj.Weight.SetData(m.CProj.Weight.MulScalar(1 / quickGELUFactor))
		})
	})
	m.act = silu
}

// upload brings a tensor to the model's device in dtype. It does not wait for what the device has to do before.
func (m *Model) upload(x *torch.Tensor, dtype torch.DType) *torch.Tensor {
	d := m.o.Device
	if m.o.remote() && x.Device().Type == torch.DeviceCPU {
		x = x.Contiguous().Send(d)
	}
	if m.o.remote() && x.Device() != d {
		return x.ToDeviceDType(d, dtype)
	}
	return x.ToDType(dtype)
}

// download gives a result as float32 on the CPU, when it is there.
func (m *Model) download(x *torch.Tensor) *torch.Tensor {
	if x = x.ToDType(torch.Float32); m.o.remote() {
		x = x.ToDevice(torch.CPU)
	}
	return x
}

// forward computes a tower's embeddings of x, which is on the device, by a graph where there is one for its shape.
func (m *Model) forward(tower string, x *torch.Tensor, f func(*torch.Tensor) *torch.Tensor) *torch.Tensor {
	if m.graphs == nil {
		return f(x)
	}
	return m.graphs.run(tower, x, f)
}

// empty makes memory for a batch of n pictures: page-locked where it goes to a card.
func (p *Preprocessor) empty(n, h, w int) *torch.Tensor {
	shape, dtype := torch.S(n, 3, h, w), torch.Float32
	if p.raw {
		shape, dtype = torch.S(n, h, w, 3), torch.Uint8
	}
	if p.pinned {
		return torch.Call("aten::empty.memory_format", shape, dtype, nil, nil, true, nil)[0].(*torch.Tensor)
	}
	return torch.Empty(shape, dtype)
}

// constants normalise bytes on a device. Each is a tensor there, because a division by a number would be a product
// with its reciprocal, whose last bit differs.
type constants struct{ levels, mean, std *torch.Tensor }

func (m *Model) newConstants() (c constants, err error) {
	if m.pre == nil || !m.o.remote() {
		return c, nil
	}
	err = torch.Try(func() {
		c.levels = torch.Upload(m.o.Device, []float32{255})
		c.mean = torch.Upload(m.o.Device, m.pre.Mean[:], 1, 3, 1, 1)
		c.std = torch.Upload(m.o.Device, m.pre.Std[:], 1, 3, 1, 1)
	})
	return c, err
}

// pictures brings prepared pictures to the model's device: numbers [n, 3, H, W], or bytes [n, H, W, 3], which it
// normalises there.
func (m *Model) pictures(x *torch.Tensor) *torch.Tensor {
	if x.DType() != torch.Uint8 {
		return m.upload(x, m.o.DType)
	}
	if m.constants.levels == nil {
		panic(&torch.Error{Kind: torch.KindValue, Op: "clip.Model",
			Msg: "bytes are normalised on another device than the CPU alone; prepare the pictures without SendBytes"})
	}
	x = m.upload(x, torch.Uint8).Permute(0, 3, 1, 2).ToDType(torch.Float32).Contiguous()
	return x.Div(m.constants.levels).Sub(m.constants.mean).Div(m.constants.std).ToDType(m.o.DType)
}
