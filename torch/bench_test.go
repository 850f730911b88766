package torch_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/internal/abi"
)

// oneThread runs a benchmark on a locked OS thread with one intra-op thread, so that a busy neighbour does not stall
// barriers; the same setting as the peers'.
func oneThread(b *testing.B) {
	b.Helper()
	require.NoError(b, torch.SetNumThreads(1))
	runtime.LockOSThread()
	b.Cleanup(runtime.UnlockOSThread)
	b.ReportAllocs()
}

// perScope runs op b.N times, 64 calls a scope.
func perScope(b *testing.B, op func()) {
	b.ResetTimer()
	for left := b.N; left > 0; left -= 64 {
		torch.Scope(func(*torch.Arena) {
			for range min(left, 64) {
				op()
			}
		})
	}
}

func BenchmarkCgoCall(b *testing.B) {
	oneThread(b)
	for b.Loop() {
		abi.Mode(abi.ModeGrad)
	}
}

func BenchmarkAddScope(b *testing.B) {
	oneThread(b)
	x, y := torch.Ones(torch.S(1)), torch.Ones(torch.S(1))
	perScope(b, func() { x.Add(y) })
}

func BenchmarkAddFree(b *testing.B) {
	oneThread(b)
	x, y := torch.Ones(torch.S(1)), torch.Ones(torch.S(1))
	for b.Loop() {
		x.Add(y).Free()
	}
}

func BenchmarkAddCollector(b *testing.B) {
	oneThread(b)
	x, y := torch.Ones(torch.S(1)), torch.Ones(torch.S(1))
	for b.Loop() {
		x.Add(y)
	}
}

func BenchmarkAddInPlace(b *testing.B) {
	oneThread(b)
	x, y := torch.Ones(torch.S(1)), torch.Ones(torch.S(1))
	for b.Loop() {
		x.Add_(y)
	}
}

func BenchmarkAddRequiresGrad(b *testing.B) {
	oneThread(b)
	x, y := torch.Ones(torch.S(1), torch.RequiresGrad), torch.Ones(torch.S(1))
	perScope(b, func() { x.Add(y) })
}

func BenchmarkAddBackward(b *testing.B) {
	oneThread(b)
	x, y := torch.Ones(torch.S(1), torch.RequiresGrad), torch.Ones(torch.S(1))
	perScope(b, func() { x.Add(y).Backward() })
}

func BenchmarkCall(b *testing.B) {
	oneThread(b)
	x, y := torch.Ones(torch.S(1)), torch.Ones(torch.S(1))
	perScope(b, func() { torch.Call("aten::add.Tensor", x, y) })
}

func BenchmarkView(b *testing.B) {
	oneThread(b)
	x := torch.Ones(torch.S(64, 64))
	perScope(b, func() { x.View(-1) })
}

func BenchmarkEmpty(b *testing.B) {
	oneThread(b)
	shape := torch.S(1)
	perScope(b, func() { torch.Empty(shape) })
}

func BenchmarkItem(b *testing.B) {
	oneThread(b)
	x := torch.Ones(torch.S(1))
	for b.Loop() {
		x.Item()
	}
}

func BenchmarkSumDims(b *testing.B) {
	oneThread(b)
	x, dims := torch.Ones(torch.S(2, 2)), []int{0, 1}
	perScope(b, func() { x.SumDim(dims, false) })
}

func BenchmarkMatmul64(b *testing.B) {
	oneThread(b)
	x, y := torch.Randn(torch.S(64, 64)), torch.Randn(torch.S(64, 64))
	perScope(b, func() { x.Mm(y) })
}

// A call allocates nothing in Go but the handle of its result.
func TestCallAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	torch.Scope(func(*torch.Arena) {
		x, y, shape, dims := torch.Ones(torch.S(2, 2)), torch.Ones(torch.S(2, 2)), torch.S(2, 2), []int{0, 1}
		one := torch.Ones(torch.S(1))
		for name, c := range map[string]struct {
			want float64
			f    func()
		}{
			"add_":  {0, func() { x.Add_(y) }},
			"item":  {0, func() { one.Item() }},
			"add":   {1, func() { x.Add(y) }},
			"mm":    {1, func() { x.Mm(y) }},
			"sum":   {1, func() { x.SumDim(dims, false) }},
			"empty": {1, func() { torch.Empty(shape) }},
			"freed": {1, func() { x.Add(y).Free() }},
			"numel": {0, func() { x.Numel() }},
		} {
			require.Equal(t, c.want, testing.AllocsPerRun(100, c.f), name)
		}
	})
}

// mlp is the network 784-128-128-10 of the peers' benchmark, written with plain operators.
type mlp struct {
	params  []*torch.Tensor // weight, bias of each layer
	x, want *torch.Tensor
}

func newMLP(sizes ...int) *mlp {
	torch.ManualSeed(0)
	m := &mlp{}
	for i := 1; i < len(sizes); i++ {
		in, out := sizes[i-1], sizes[i]
		bound := 1 / float64(in)
		for _, shape := range [][]int{{out, in}, {out}} {
			p := torch.Rand(shape)
			p.MulScalar_(2 * bound)
			p.AddScalar_(-bound)
			m.params = append(m.params, p.SetRequiresGrad(true))
		}
	}
	m.x = torch.Randn(torch.S(64, sizes[0]))
	m.want = torch.Randint(0, sizes[len(sizes)-1], torch.S(64))
	return m
}

func (m *mlp) forward(x *torch.Tensor) *torch.Tensor {
	for i := 0; i < len(m.params); i += 2 {
		if i > 0 {
			x = x.Relu()
		}
		x = torch.Linear(x, m.params[i], m.params[i+1])
	}
	return x
}

// step is one step of SGD; it returns nothing, so nothing leaves the scope.
func (m *mlp) step() {
	torch.Scope(func(*torch.Arena) {
		m.forward(m.x).CrossEntropyLoss(m.want, nil, torch.ReductionMean).Backward()
		torch.NoGrad(func() {
			torch.ForeachAdd_(m.params, torch.Grads(m.params), -0.01)
		})
	})
	torch.ZeroGrad(m.params, false)
}

func BenchmarkMLPStepSGD(b *testing.B) {
	oneThread(b)
	m := newMLP(784, 128, 128, 10)
	for b.Loop() {
		m.step()
	}
}

func BenchmarkMLPForward(b *testing.B) {
	oneThread(b)
	m := newMLP(784, 128, 128, 10)
	for b.Loop() {
		torch.Scope(func(*torch.Arena) {
			torch.NoGrad(func() { m.forward(m.x) })
		})
	}
}
