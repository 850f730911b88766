package torchtest_test

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"testing"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
	"github.com/gospml/gospml/torch/torchtest"
	"github.com/stretchr/testify/require"
)

// The device comes before any backward.
func TestMain(m *testing.M) {
	if err := torchtest.OpenDevice(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func numbers(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(math.Sin(float64(i)*1.7)) * 2
	}
	return v
}

func bits(t *torch.Tensor) []uint32 {
	v := torch.ToSlice[float32](t)
	out := make([]uint32, len(v))
	for i, x := range v {
		out[i] = math.Float32bits(x)
	}
	return out
}

func TestDeviceRoundTrip(t *testing.T) {
	torchtest.NoLeaks(t)
	d := torchtest.Device(t)
	require.Equal(t, "privateuseone:0", d.String())
	x := torch.FromSlice(numbers(24), 2, 3, 4)
	y := x.ToDevice(d)
	require.Equal(t, d, y.Device())
	require.Equal(t, bits(x), bits(y))
	require.Equal(t, bits(x.Permute(2, 0, 1)), bits(y.Permute(2, 0, 1)), "a view")
	require.Equal(t, bits(x.Permute(2, 0, 1)), bits(x.Permute(2, 0, 1).ToDevice(d)), "a copy of a view")
	for _, dt := range []torch.DType{torch.Float64, torch.Float16, torch.BFloat16, torch.Int64, torch.Int8, torch.Uint8, torch.Bool} {
		require.Equal(t, torch.ToSlice[float64](x.ToDType(dt)), torch.ToSlice[float64](y.ToDType(dt)), "%v", dt)
		require.Equal(t, dt, y.ToDType(dt).DType())
	}
	// In-place through views, memory formats, shapes that depend on values, results that grow.
	y.Select(0, 1).Mul_(torch.FromSlice([]float32{2}, 1).ToDevice(d))
	x.Select(0, 1).MulScalar_(2)
	require.Equal(t, bits(x), bits(y))
	image := torch.FromSlice(numbers(2*3*4*5), 2, 3, 4, 5)
	last := image.ToDevice(d).ContiguousFormat(torch.ChannelsLast)
	require.Equal(t, image.ContiguousFormat(torch.ChannelsLast).Strides(), last.Strides())
	require.Equal(t, bits(image), bits(last))
	require.Equal(t, bits(x.MaskedSelect(x.GtScalar(0))), bits(y.MaskedSelect(y.GtScalar(0))))
	require.Equal(t, bits(torch.Cat([]*torch.Tensor{x, x}, 1)), bits(torch.Cat([]*torch.Tensor{y, y}, 1)))
	grown := torch.Empty(torch.S(0), d)
	torch.Call("aten::add.out", y, y, 1, grown)
	require.Equal(t, bits(x.Add(x)), bits(grown))
	shared := torch.Empty(torch.S(0), d)
	torch.Call("aten::set_.source_Tensor", shared, y)
	shared.MulScalar_(3)
	x.MulScalar_(3)
	require.Equal(t, bits(x), bits(y), "one memory")
	require.Equal(t, x.Sum().Item(), y.Sum().Item())
	require.Equal(t, bits(torch.Zeros(torch.S(3), d).AddScalar(1)), []uint32{0x3f800000, 0x3f800000, 0x3f800000})
	require.Equal(t, torch.Device{Type: torch.DevicePrivateUse1, Index: 1}, torch.Ones(torch.S(2), torch.Device{Type: torch.DevicePrivateUse1, Index: 1}).Exp().Device())
	require.Equal(t, torch.ToSlice[int64](torch.Arange(0, 5, 2)), torch.ToSlice[int64](torch.Arange(0, 5, 2, d)))
	torch.ManualSeed(3)
	want := bits(torch.Randn(torch.S(7)))
	torch.ManualSeed(3)
	require.Equal(t, want, bits(torch.Randn(torch.S(7), d)))
}

// TestDeviceRefuses has what a card refuses.
func TestDeviceRefuses(t *testing.T) {
	d := torchtest.Device(t)
	there, here := torch.FromSlice(numbers(6), 2, 3).ToDevice(d), torch.FromSlice(numbers(6), 2, 3)
	other := here.ToDevice(torch.Device{Type: torch.DevicePrivateUse1, Index: 1})
	at := torch.FromSlice([]int64{0, 1})
	number := torch.Scalar(float32(2))
	for name, f := range map[string]func(){
		"add":                    func() { there.Add(here) },
		"add to the CPU's":       func() { here.Add(there) },
		"two devices":            func() { there.Add(other) },
		"matmul":                 func() { there.Matmul(here.T()) },
		"linear":                 func() { torch.Linear(there, here, nil) },
		"index_select":           func() { there.IndexSelect(0, at) },
		"index_select by number": func() { there.IndexSelect(0, torch.Scalar(int64(0))) },
		"gather":                 func() { there.Gather(1, torch.FromSlice([]int64{0, 1}, 2, 1)) },
		"masked":                 func() { there.MaskedFill(here.GtScalar(0), 0) },
		"where":                  func() { torch.Where(here.GtScalar(0), there, there) },
		"cat":                    func() { torch.Cat([]*torch.Tensor{there, here}, 0) },
		"stack":                  func() { torch.Stack([]*torch.Tensor{there, here}, 0) },
		"foreach":                func() { torch.ForeachAdd_([]*torch.Tensor{there.Clone()}, []*torch.Tensor{here}, 1) },
		"in-place":               func() { here.Clone().Add_(there) },
		"in-place of a number":   func() { number.Clone().Add_(there.Sum()) },
		"loss":                   func() { torch.Call("aten::binary_cross_entropy_with_logits", there, here.Sigmoid()) },
		"convolution": func() {
			torch.Conv2d(there.View(1, 1, 2, 3), here.View(1, 1, 2, 3), nil, []int{1, 1}, []int{0, 0}, []int{1, 1}, 1)
		},
		"a generator of the CPU": func() { torch.Rand(torch.S(2), d, torch.NewGenerator(1)) },
		"an index in place":      func() { there.Clone().IndexCopy_(0, at, there) },
		"a result on the CPU":    func() { torch.Call("aten::add.out", there, there, 1, torch.Empty(torch.S(2, 3))) },
		"the host's view":        func() { torch.View(there, func([]float32) {}) },
		"the host's writing":     func() { torch.CopyFrom(there, numbers(6)) },
		"no such device":         func() { torch.Ones(torch.S(1), torch.Device{Type: torch.DevicePrivateUse1, Index: 2}) },
		"an optimiser's counters": func() {
			torch.Call("aten::_fused_adam_", []*torch.Tensor{there.Clone()}, []*torch.Tensor{there}, []*torch.Tensor{there.Clone()}, []*torch.Tensor{there.Clone()}, []*torch.Tensor{}, []*torch.Tensor{number.Clone()}, 0.1, 0.9, 0.9, 0.0, 1e-8, false, false)
		},
	} {
		t.Run(name, func(t *testing.T) { require.Error(t, torch.Try(f)) })
	}
	err := torch.Try(func() { there.IndexSelect(0, at) })
	require.ErrorContains(t, err, "Expected all tensors to be on the same device, but aten::index_select got argument 'index' of shape [2] on cpu beside one on testdevice:0")
	// What a card takes.
	require.Equal(t, bits(here.Mul(number)), bits(there.Mul(number)), "a number beside a tensor")
	require.Equal(t, bits(here.At(at)), bits(there.At(at)), "positions")
	here.Copy_(there)
}

// TestDeviceNetwork: a network with the layers of torchvision's has the CPU's values and gradients to the bit.
func TestDeviceNetwork(t *testing.T) {
	d := torchtest.Device(t)
	require.NoError(t, torch.SetNumThreads(1))
	defer func() { require.NoError(t, torch.SetNumThreads(runtime.NumCPU())) }()
	// Attention is a fused kernel on the CPU and small operators here, so its last bits differ.
	run := func(d torch.Device) (same, near []*torch.Tensor) {
		g := torch.NewGenerator(5)
		n := nn.Sequential{
			nn.NewConv2d(3, 8, 3, nn.Padding(1), nn.Generator(g)), nn.NewBatchNorm2d(8), nn.ReLU{},
			nn.NewConv2d(8, 8, 3, nn.Stride(2), nn.Groups(8), nn.Generator(g)), nn.NewBatchNorm2d(8), nn.GELU{}, nn.NewMaxPool2d(2), nn.NewFlatten(),
			nn.NewLayerNorm([]int{8 * 3 * 3}), nn.NewDropout(0.3), nn.NewLinear(8*3*3, 5, nn.Generator(g))}
		a := nn.NewMultiheadAttention(8, 2, nn.Generator(g))
		nn.ToDevice(n, d)
		nn.ToDevice(a, d)
		torch.ManualSeed(9)
		x := torch.FromSlice(numbers(4*3*14*14), 4, 3, 14, 14).ToDevice(d)
		for _, x := range []*torch.Tensor{x, x.ContiguousFormat(torch.ChannelsLast)} {
			y := n.Forward(x)
			tokens := torch.FromSlice(numbers(2*6*8), 2, 6, 8).ToDevice(d)
			z, _ := a.Forward(tokens, tokens, tokens, nn.Attention{})
			y.Square().Mean().Add(z.Square().Sum()).Backward()
			same, near = append(same, y), append(near, z)
		}
		for _, p := range nn.Parameters(n) {
			same = append(same, p.Grad())
		}
		for _, p := range nn.Parameters(a) {
			near = append(near, p.Grad())
		}
		sd := nn.StateDictOf(n)
		return append(same, sd["1.running_mean"], sd["1.running_var"]), near
	}
	want, wantNear := run(torch.CPU)
	got, gotNear := run(d)
	for i := range want {
		require.Equal(t, d, got[i].Device())
		require.Equal(t, bits(want[i].Detach()), bits(got[i].Detach()), "value %d", i)
	}
	for i := range wantNear {
		torchtest.AllClose(t, gotNear[i].Detach().ToDevice(torch.CPU), wantNear[i].Detach(), 1e-4, 1e-5)
	}
}

func TestDeviceOptimizers(t *testing.T) {
	d := torchtest.Device(t)
	for name, make := range map[string]func(p []*torch.Tensor) optim.Optimizer{
		"SGD": func(p []*torch.Tensor) optim.Optimizer {
			return optim.NewSGD(p, optim.LR(0.1), optim.Momentum(0.9), optim.Nesterov(), optim.WeightDecay(0.01))
		},
		"Adam":    func(p []*torch.Tensor) optim.Optimizer { return optim.NewAdam(p, optim.LR(0.1), optim.AMSGrad()) },
		"AdamW":   func(p []*torch.Tensor) optim.Optimizer { return optim.NewAdamW(p, optim.LR(0.1)) },
		"Adamax":  func(p []*torch.Tensor) optim.Optimizer { return optim.NewAdamax(p, optim.LR(0.1)) },
		"RMSprop": func(p []*torch.Tensor) optim.Optimizer { return optim.NewRMSprop(p, optim.LR(0.01)) },
		"Adagrad": func(p []*torch.Tensor) optim.Optimizer { return optim.NewAdagrad(p, optim.LR(0.01)) },
	} {
		t.Run(name, func(t *testing.T) {
			run := func(d torch.Device) [][]uint32 {
				p := []*torch.Tensor{torch.FromSlice(numbers(12), 3, 4).ToDevice(d).SetRequiresGrad(true), torch.FromSlice(numbers(5)).ToDevice(d).SetRequiresGrad(true)}
				o := make(p)
				for range 4 {
					o.ZeroGrad()
					p[0].Sin().Sum().Add(p[1].Square().Sum()).Backward()
					optim.ClipGradNorm(p, 1, 2)
					o.Step()
				}
				again := make(p)
				require.NoError(t, again.LoadStateDict(o.StateDict()))
				again.Step()
				return [][]uint32{bits(p[0].Detach()), bits(p[1].Detach())}
			}
			require.Equal(t, run(torch.CPU), run(d))
		})
	}
}

func TestDeviceAutocast(t *testing.T) {
	d := torchtest.Device(t)
	x, w := torch.FromSlice(numbers(6), 2, 3).ToDevice(d), torch.FromSlice(numbers(12), 4, 3).ToDevice(d).SetRequiresGrad(true)
	var y, s *torch.Tensor
	torch.Autocast(d.Type, torch.BFloat16, func() {
		y = torch.Linear(x, w, nil)
		s = y.Softmax(1)
	})
	require.Equal(t, torch.BFloat16, y.DType())
	require.Equal(t, torch.Float32, s.DType())
	y.Sum().Backward()
	require.Equal(t, torch.Float32, w.Grad().DType())
	require.Equal(t, torch.Float32, torch.Linear(x, w, nil).DType())
}

func TestDeviceMemory(t *testing.T) {
	d := torchtest.Device(t)
	before := torchtest.DeviceBytes()
	x := torch.Zeros(torch.S(1000), d)
	y := x.Exp()
	require.Equal(t, before+8000, torchtest.DeviceBytes())
	require.GreaterOrEqual(t, torchtest.DevicePeak(), before+8000)
	y.Free()
	torchtest.DevicePeak()
	require.Equal(t, before+4000, torchtest.DevicePeak())
	torchtest.LimitDevice(t, before+6000)
	require.ErrorIs(t, torch.Try(func() { x.Exp() }), torch.ErrOutOfMemory)
	require.ErrorIs(t, torch.Try(func() { torch.Zeros(torch.S(1000), d) }), torch.ErrOutOfMemory)
	x.Free()
	require.Equal(t, before, torchtest.DeviceBytes())
	reads := torchtest.DeviceReads()
	z := torch.Ones(torch.S(3), d).Sum()
	require.Equal(t, reads, torchtest.DeviceReads())
	z.Item()
	torch.ToSlice[float32](z)
	require.Equal(t, reads+2, torchtest.DeviceReads())
}
