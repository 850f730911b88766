package cuda

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/amp"
	"github.com/gospml/gospml/torch/dist"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// TestGPUOrderOfUse: a seed, a convolution and a backward on the CPU come first; the card works all the same. It runs
// alone in its process (run.sh).
func TestGPUOrderOfUse(t *testing.T) {
	if DeviceCount() == 0 {
		t.Skip("there is no card")
	}
	torch.ManualSeed(1)
	x := torch.Randn(torch.S(1, 3, 8, 8)).SetRequiresGrad(true)
	torch.Conv2d(x, torch.Ones(torch.S(2, 3, 3, 3)), nil, torch.S(1), torch.S(1), torch.S(1), 1).Sum().Backward()
	require.NoError(t, Available())
	y := torch.Ones(torch.S(4), torch.CUDA(0)).SetRequiresGrad(true)
	y.Square().Sum().Backward()
	require.Equal(t, []float32{2, 2, 2, 2}, torch.ToSlice[float32](y.Grad()))
}

// TestGPUCaptureOnFreshThread: a thread that has called nothing of the card captures a product, which wants cuBLAS's
// handle.
func TestGPUCaptureOnFreshThread(t *testing.T) {
	gpu(t)
	x := torch.Ones(torch.S(64, 64), torch.CUDA(0))
	done := make(chan error)
	var y *torch.Tensor
	go func() {
		runtime.LockOSThread() // and ends with it
		g, err := Capture(0, nil, func() error { y = x.Matmul(x); return nil })
		if err == nil {
			err = g.Replay()
		}
		done <- err
	}()
	require.NoError(t, <-done)
	require.EqualValues(t, 64, torch.ToSlice[float32](y)[0])
}

// TestGPUCaptures: 16 goroutines capture and replay; the memory that is reserved does not grow with their number.
func TestGPUCaptures(t *testing.T) {
	gpu(t)
	var reserved []int64
	for range 3 {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				x := torch.Ones(torch.S(256, 256), torch.CUDA(0))
				err := OnCaptureThread(0, func() error {
					work := func() error { x.Matmul(x); return nil }
					if err := WarmUp(0, work); err != nil {
						return err
					}
					g, err := Capture(0, nil, work)
					if err != nil {
						return err
					}
					defer g.Close()
					return g.Replay()
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		m, err := Memory(0)
		require.NoError(t, err)
		reserved = append(reserved, m.Reserved.Current)
		t.Logf("%d MB allocated, %d MB reserved", m.Allocated.Current>>20, m.Reserved.Current>>20)
	}
	require.LessOrEqual(t, reserved[2], reserved[0]+64<<20)
}

// TestGPUFailedCapture: behind a capture that fails, random numbers, the cache and running out of memory work as
// before.
func TestGPUFailedCapture(t *testing.T) {
	gpu(t)
	x := torch.Ones(torch.S(1024), torch.CUDA(0))
	_, err := Capture(0, nil, func() error {
		y := torch.Dropout(x, 0.5, true)
		y.Sum().Item()
		return nil
	})
	require.Error(t, err)
	require.NoError(t, Synchronize(0))
	torch.ManualSeed(3)
	a := torch.ToSlice[float32](torch.Dropout(x, 0.5, true))
	torch.ManualSeed(3)
	require.Equal(t, a, torch.ToSlice[float32](torch.Dropout(x, 0.5, true)))
	before, err := Memory(0)
	require.NoError(t, err)
	torch.Empty([]int{256 << 20}, torch.Uint8, torch.CUDA(0)).Free()
	require.NoError(t, EmptyCache())
	after, err := Memory(0)
	require.NoError(t, err)
	require.LessOrEqual(t, after.Reserved.Current, before.Reserved.Current+32<<20, "the cache was emptied")
	_, total, err := MemoryInfo(0)
	require.NoError(t, err)
	require.ErrorIs(t, torch.Try(func() { torch.Empty([]int{int(2 * total)}, torch.Uint8, torch.CUDA(0)) }), torch.ErrOutOfMemory)
	g, err := Capture(0, nil, func() error { x.AddScalar(1); return nil })
	require.NoError(t, err)
	require.NoError(t, g.Close())
}

// TestGPUPressure: a program that grows without dropping anything is not held up by searches for unused tensors.
func TestGPUPressure(t *testing.T) {
	gpu(t)
	require.NoError(t, EmptyCache())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var kept []*torch.Tensor
	for range 200 {
		kept = append(kept, torch.Empty([]int{21 << 20}, torch.Uint8, torch.CUDA(0)))
	}
	runtime.ReadMemStats(&after)
	t.Logf("%d collections during 200 allocations", after.NumGC-before.NumGC)
	require.Less(t, after.NumGC-before.NumGC, uint32(60))
	for _, x := range kept {
		x.Free()
	}
}

// TestGPURecorded: 100 steps of a recorded training step on the card are those of eager code; a schedule of the rate
// too.
func TestGPURecorded(t *testing.T) {
	gpu(t)
	train := func(recorded, schedule bool) []float64 {
		torch.ManualSeed(5)
		l := nn.NewLinear(32, 8)
		nn.ToDevice(l, torch.CUDA(0))
		opt := optim.NewSGD(nn.Parameters(l), optim.LR(0.05), optim.Momentum(0.9))
		x, y := torch.Randn(torch.S(16, 32)).ToDevice(torch.CUDA(0)), torch.Randn(torch.S(16, 8)).ToDevice(torch.CUDA(0))
		step := func(in []*torch.Tensor) []*torch.Tensor {
			opt.ZeroGrad()
			loss := l.Forward(in[0]).Sub(in[1]).Square().Mean()
			loss.Backward()
			opt.Step()
			return []*torch.Tensor{loss}
		}
		r := torch.Record(step)
		defer r.Close()
		var losses []float64
		for i := range 100 {
			if schedule {
				opt.Groups()[0].LR = 0.05 / float64(1+i/25)
			}
			if recorded {
				out, err := r.Run(x, y)
				require.NoError(t, err)
				losses = append(losses, out[0].Item())
			} else {
				losses = append(losses, step([]*torch.Tensor{x, y})[0].Item())
			}
		}
		return losses
	}
	for _, schedule := range []bool{false, true} {
		require.InDeltaSlice(t, train(false, schedule), train(true, schedule), 1e-6)
	}
}

// TestGPUNCCL: a group of one process sums on its card, and leaves. Two cards want two processes.
func TestGPUNCCL(t *testing.T) {
	gpu(t)
	store, err := dist.NewTCPStore("127.0.0.1", 0, true, 0, time.Minute)
	require.NoError(t, err)
	defer store.Close()
	g, err := dist.NewGroup(store, 0, 1, dist.Options{Backend: "nccl", Timeout: time.Minute})
	require.NoError(t, err)
	x := torch.Ones(torch.S(5), torch.CUDA(0)).MulScalar(3)
	require.NoError(t, g.AllReduce(x, dist.Sum))
	require.Equal(t, []float32{3, 3, 3, 3, 3}, torch.ToSlice[float32](x))
	require.NoError(t, g.Close())
}

// TestGPUHooks: a hook in Go runs in a backward on the card, whose thread is libtorch's.
func TestGPUHooks(t *testing.T) {
	gpu(t)
	x := torch.Ones(torch.S(3), torch.CUDA(0)).SetRequiresGrad(true)
	y := x.MulScalar(2)
	seen := 0
	y.RegisterHook(func(g *torch.Tensor) *torch.Tensor { seen++; return g.MulScalar(10) })
	y.Sum().Backward()
	require.Equal(t, 1, seen)
	require.Equal(t, []float32{20, 20, 20}, torch.ToSlice[float32](x.Grad()))
}

// TestGPUAutocast: products in half precision, sums in float32, and a scaler whose scale grows and falls as PyTorch's.
func TestGPUAutocast(t *testing.T) {
	gpu(t)
	x := torch.Randn(torch.S(8, 8), torch.CUDA(0))
	for _, d := range []torch.DType{torch.Float16, torch.BFloat16} {
		amp.Autocast(torch.DeviceCUDA, d, func() {
			require.Equal(t, d, x.Matmul(x).DType())
			require.Equal(t, torch.Float32, x.Matmul(x).Softmax(1).DType())
		})
	}
	l := nn.NewLinear(8, 4)
	nn.ToDevice(l, torch.CUDA(0))
	opt := optim.NewSGD(nn.Parameters(l), optim.LR(1e-3))
	s := amp.NewGradScaler(amp.Options{Device: torch.CUDA(0), InitScale: 1 << 16, GrowthInterval: 10})
	for i := range 21 {
		opt.ZeroGrad()
		var loss *torch.Tensor
		amp.Autocast(torch.DeviceCUDA, torch.Float16, func() { loss = l.Forward(x).Square().Mean() })
		if i == 15 {
			loss = loss.MulScalar(1e30)
		}
		s.Scale(loss).Backward()
		s.Step(opt)
		s.Update()
	}
	require.EqualValues(t, 1<<16, s.GetScale(), "once twice as large, after 10 steps, and half of that, at the step that overflowed")
}
