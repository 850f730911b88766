// Package compute finds the device of a run or a model and moves tensors to it.
package compute

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/cpu"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/dist"
	"github.com/gospml/gospml/torch/nn"
)

// Names of devices beside cuda:N.
const (
	Auto = "auto" // the graphics card where there is one that can be used, else the CPU
	CPU  = "cpu"
	CUDA = "cuda" // the first card, or the one that a launcher gives the process (LOCAL_RANK)
)

// LossForm is the form that losses take (loss.Impl), "" for the fastest; tests on devices without our operators set it.
var LossForm string

// deviceTypes are the devices by PyTorch's names; privateuseone is what a library of operators registers.
var deviceTypes = map[string]torch.DeviceType{CPU: torch.DeviceCPU, CUDA: torch.DeviceCUDA, "privateuseone": torch.DevicePrivateUse1}

// mostDevices is how many devices of a type libtorch can number.
const mostDevices = 128

// Check reads the name of a device. auto has no type.
func Check(name string) (d torch.Device, auto bool, err error) {
	if name == "" || name == Auto {
		return torch.CPU, true, nil
	}
	kind, number, numbered := strings.Cut(name, ":")
	t, ok := deviceTypes[kind]
	d = torch.Device{Type: t, Index: -1}
	if numbered {
		d.Index, err = strconv.Atoi(number)
	}
	if !ok || err != nil || numbered && (d.Index < 0 || d.Index >= mostDevices || t == torch.DeviceCPU) {
		return d, false, fault.Settingf("device %q is none of auto, cpu, cuda, cuda:N", name)
	}
	return d, false, nil
}

// Choose finds the device of a setting, and in words what it is and why.
func Choose(name string) (d torch.Device, words string, err error) {
	d, auto, err := Check(name)
	if err != nil {
		return d, "", err
	}
	why := "as set"
	if auto {
		why = "chosen because it is there; --device cpu overrides"
		switch err := cuda.Available(); {
		case err == nil:
			d = torch.Device{Type: torch.DeviceCUDA, Index: -1}
		case errors.Is(err, cuda.ErrNoDevice):
			return torch.CPU, "no CUDA device", nil
		default:
			return torch.CPU, fmt.Sprintf("the card cannot be used: %v", err), nil
		}
	}
	switch d.Type {
	case torch.DeviceCPU:
		return torch.CPU, "as set", nil
	case torch.DeviceCUDA:
		if err := cuda.Available(); err != nil {
			return d, "", fmt.Errorf("device %s: %w", name, err)
		}
	}
	if d.Index < 0 {
		n := mostDevices
		if d.Type == torch.DeviceCUDA {
			n = cuda.DeviceCount()
		}
		if d.Index, err = dist.Card(n); err != nil {
			return d, "", &fault.Setting{Msg: err.Error()}
		}
	}
	if d.Type != torch.DeviceCUDA {
		return d, fmt.Sprintf("%v, %s", d, why), nil
	}
	if n := cuda.DeviceCount(); d.Index >= n {
		return d, "", fault.Settingf("there is no card %v; this machine shows %d, so start at most as many processes on it", d, n)
	}
	p, err := cuda.DeviceProperties(d.Index)
	if err != nil {
		return d, "", err
	}
	return d, fmt.Sprintf("%v %s, %.0f GB, %s", d, p.Name, float64(p.TotalMemory)/1e9, why), nil
}

// Memory is what a card has, and what this process has of it, in bytes.
type Memory struct{ Used, Peak, Free, Total int64 }

// MemoryOf gives the memory of a card since the peak was reset; false: there is nothing to say, as of the CPU. Tests of
// other devices set it.
var MemoryOf = func(d torch.Device) (Memory, bool) {
	if d.Type != torch.DeviceCUDA {
		return Memory{}, false
	}
	s, err := cuda.Memory(max(d.Index, 0))
	if err != nil {
		return Memory{}, false
	}
	free, total, err := cuda.MemoryInfo(max(d.Index, 0))
	return Memory{s.Reserved.Current, s.Reserved.Peak, free, total}, err == nil
}

// UsedOn is what this process has of a card's memory, 0 of the CPU's.
func UsedOn(d torch.Device) int64 {
	m, _ := MemoryOf(d)
	return m.Used
}

// BrainFloat says whether a card multiplies bfloat16 in its matrix units: from Ampere on.
func BrainFloat(d torch.Device) bool {
	p, err := cuda.DeviceProperties(max(d.Index, 0))
	return err == nil && p.Major >= 8
}

// PrepareCard sets what libtorch leaves open on cards, for the process: fp32 means float32, so no TensorFloat-32, and convolutions take the kernels that give
// the same bits each time.
func PrepareCard(d torch.Device) {
	if d.Type == torch.DeviceCUDA {
		torch.SetAllowTF32(false)
		torch.SetCuDNNDeterministic(true)
		torch.SetCuDNNBenchmark(false)
	}
}

// To brings a tensor to a device and frees it where it was.
func To(t *torch.Tensor, d torch.Device) *torch.Tensor {
	if t == nil || t.Device() == d || d.Type == torch.DeviceCPU && t.Device().Type == d.Type {
		return t
	}
	u := t.ToDevice(d)
	t.Free()
	return u
}

// Upload makes a tensor of numbers on a device and does not wait for it.
func Upload[T torch.Element](d torch.Device, data []T, shape ...int) *torch.Tensor {
	return torch.Upload(d, data, shape...)
}

// Place puts a model on a device.
func Place(m any, d torch.Device) {
	if d.Type == torch.DeviceCPU {
		return
	}
	if own, ok := m.(interface{ ToDevice(d torch.Device) }); ok {
		own.ToDevice(d)
	} else {
		nn.ToDevice(m, d)
	}
}

// piecesAtOnce is how many numbers of results a device keeps before they come to the host: each copy waits for all work before it.
const piecesAtOnce = 4 << 20

// Collected are results, row by row, that a device computes in pieces.
type Collected struct {
	values  []float32
	pending []*torch.Tensor
	numbers int
}

// Add takes the rows of a piece, float32, inside the scope of an arena.
func (c *Collected) Add(a *torch.Arena, t *torch.Tensor) {
	if t.Device().Type == torch.DeviceCPU {
		c.values = append(c.values, torch.ToSlice[float32](t)...)
		return
	}
	c.pending = append(c.pending, a.Keep(t.Detach()))
	if c.numbers += t.Numel(); c.numbers >= piecesAtOnce {
		c.Flush()
	}
}

// Flush brings what is left to the host.
func (c *Collected) Flush() []float32 {
	if len(c.pending) > 0 {
		torch.Scope(func(*torch.Arena) {
			flat := make([]*torch.Tensor, len(c.pending))
			for i, t := range c.pending {
				flat[i] = t.Reshape(-1)
			}
			c.values = append(c.values, torch.ToSlice[float32](torch.Cat(flat, 0))...)
		})
		for _, t := range c.pending {
			t.Free()
		}
		c.pending, c.numbers = nil, 0
	}
	return c.values
}

// CardName is where a run computes, for its record: cpu, or the name of the card without its number.
func CardName(d torch.Device) string {
	switch d.Type {
	case torch.DeviceCPU:
		return CPU
	case torch.DeviceCUDA:
		if p, err := cuda.DeviceProperties(max(d.Index, 0)); err == nil {
			return "cuda, " + p.Name
		}
	}
	d.Index = -1
	return d.String()
}

// Sigmoids are σ(z) of logits [B, C], float32.
func Sigmoids(logits *torch.Tensor) *torch.Tensor {
	return logits.ToDType(torch.Float32).Sigmoid()
}

// Guard keeps f on one OS thread and turns a panic into its error: of tensor maths a *torch.Error, any other a *caught.Error.
func Guard(f func() error) (err error) {
	defer caught.Recover(&err)
	return torch.Do(func() error {
		if e := torch.Try(func() { err = f() }); e != nil {
			return e
		}
		return err
	})
}

// MatrixUnit says whether the processor multiplies bfloat16 matrices in a unit of their own (AMX): there bf16 is
// several
// times as fast as float32, elsewhere at most twice. Tests replace it.
var MatrixUnit = func() bool { return cpu.X86.HasAMXTile && cpu.X86.HasAMXBF16 }
