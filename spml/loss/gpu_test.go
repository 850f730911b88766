package loss_test

import (
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/spml/csrc/cuda/emulator"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/losstest"
	"github.com/gospml/gospml/torch"
)

// moved is a batch with all its tensors on a device; leaves stay leaves.
func moved(b loss.Batch, leaves []*torch.Tensor, d torch.Device) (loss.Batch, []*torch.Tensor) {
	to := map[*torch.Tensor]*torch.Tensor{}
	move := func(x *torch.Tensor) *torch.Tensor {
		if x == nil {
			return nil
		}
		if to[x] == nil {
			to[x] = x.Detach().ToDevice(d).SetRequiresGrad(x.RequiresGrad())
		}
		return to[x]
	}
	v := reflect.ValueOf(&b).Elem()
	for i := range v.NumField() {
		switch x := v.Field(i).Interface().(type) {
		case *torch.Tensor:
			v.Field(i).Set(reflect.ValueOf(move(x)))
		case []*torch.Tensor:
			var there []*torch.Tensor
			for _, p := range x {
				there = append(there, move(p))
			}
			v.Field(i).Set(reflect.ValueOf(there))
		}
	}
	if c := b.Contrast; c != nil {
		b.Contrast = &loss.Contrast{Features: move(c.Features), Labels: move(c.Labels), Current: move(c.Current)}
	}
	var out []*torch.Tensor
	for _, x := range leaves {
		out = append(out, move(x))
	}
	return b, out
}

// TestGPUFused compares the CUDA kernels with the CPU's, values and gradients.
func TestGPUFused(t *testing.T) {
	d, here := emulator.Device(t)
	if !here {
		return
	}
	tolerance := map[torch.DType][2]float64{torch.Float64: {1e-12, 1e-10}, torch.Float32: {1e-6, 2e-5}, torch.BFloat16: {2e-3, 2e-2}, torch.Float16: {2e-3, 2e-2}}
	for _, e := range loss.Entries() {
		if e.Fused == nil {
			continue
		}
		for dtype, tol := range tolerance {
			for seed, shape := range [][2]int{{1, 1}, {5, 7}, {64, 80}, {300, 1000}} {
				for _, masked := range []bool{false, true} {
					if masked && (shape[0] != 5 || e.Needs&(loss.Embeddings|loss.Reconstructions) != 0) {
						continue
					}
					t.Run(fmt.Sprintf("%s/%v/%dx%d/%v", e.ID, dtype, shape[0], shape[1], masked), func(t *testing.T) {
						b, leaves, names := losstest.Batch(e, losstest.Shape{B: shape[0], C: shape[1], DType: dtype,
							Seed: uint64(seed), Observed: losstest.Mixed})
						if masked {
							b.Rows = torch.FromSlice([]float32{1, 0, 1, 1, 0})
						}
						g, there := moved(b, leaves, d)
						l, err := e.Make("voc", nil, loss.Options{Impl: loss.Fused})
						require.NoError(t, err)
						want, err := l.Value(b)
						require.NoError(t, err)
						got, err := l.Value(g)
						require.NoError(t, err)
						require.InDelta(t, want.Item(), got.Item(), tol[0]+tol[1]*max(want.Item(), -want.Item()))
						want.Backward()
						got.Backward()
						for i, x := range leaves {
							if x.Grad() == nil {
								require.Nil(t, there[i].Grad(), names[i])
								continue
							}
							got := there[i].Grad().ToDevice(torch.CPU).ToDType(torch.Float64)
							d := got.Sub(x.Grad().ToDType(torch.Float64)).Abs().Max().Item()
							require.LessOrEqual(t, d, tol[0]+tol[1]*x.Grad().ToDType(torch.Float64).Abs().Max().Item(), names[i])
						}
					})
				}
			}
		}
	}
}

// BenchmarkGPULosses measures forward and backward at (4096, 5000) on a card, with events, beside a copy: in turn over
// buffers that together are larger than the card's cache. GOSPML_GPU_DRY has it run small, on the CPU, to see what it
// would measure.
func BenchmarkGPULosses(b *testing.B) {
	dry := os.Getenv("GOSPML_GPU_DRY") != ""
	rows, classes, device := 4096, 5000, torch.CUDA(0)
	clock := func(f func() error) (time.Duration, error) { return cuda.Time(0, f) }
	if dry {
		rows, classes, device = 8, 16, torch.CPU
		clock = func(f func() error) (time.Duration, error) {
			start := time.Now()
			err := f()
			return time.Since(start), err
		}
	} else if cuda.DeviceCount() == 0 {
		b.Skip("there is no card")
	} else {
		require.NoError(b, cuda.Available())
	}
	const buffers = 4
	var copied float64 // bytes a second
	for _, dtype := range []torch.DType{torch.Float32, torch.BFloat16, torch.Float16} {
		var z []*torch.Tensor
		for range buffers {
			z = append(z, torch.Randn(torch.S(rows, classes), device).ToDType(dtype).SetRequiresGrad(true))
		}
		y := torch.Rand(torch.S(rows, classes), device).LtScalar(0.001).ToDType(torch.Int8)
		bytes := float64(z[0].Numel() * dtype.Size())
		measure := func(b *testing.B, moved float64, f func(i int)) float64 {
			for i := range buffers {
				torch.Scope(func(*torch.Arena) { f(i) })
			}
			b.ResetTimer()
			elapsed, err := clock(func() error {
				for i := range b.N {
					torch.Scope(func(*torch.Arena) { f(i % buffers) })
				}
				return nil
			})
			require.NoError(b, err)
			rate := moved * float64(b.N) / elapsed.Seconds()
			b.ReportMetric(float64(elapsed.Microseconds())/float64(b.N), "us/card")
			b.ReportMetric(rate/1e9, "GB/s")
			return rate
		}
		b.Run(fmt.Sprintf("copy/%v", dtype), func(b *testing.B) {
			copied = measure(b, 2*bytes, func(i int) { z[i].Detach().Clone() })
		})
		for _, e := range loss.Entries() {
			if e.Fused == nil || e.Needs&^(loss.Observed|loss.Full|loss.Epoch|loss.PseudoLabels|loss.SoftNegatives) != 0 {
				continue
			}
			l, err := e.Make("coco", nil, loss.Options{Impl: loss.Fused})
			require.NoError(b, err)
			b.Run(fmt.Sprintf("%s/%v", e.ID, dtype), func(b *testing.B) {
				gradient := bytes
				if dtype == torch.Float16 {
					gradient *= 2 // it is float32
				}
				rate := measure(b, bytes+gradient+float64(z[0].Numel()), func(i int) {
					_, _, err := loss.ValueGrad(l, loss.Batch{Logits: z[i], Observed: y, Full: y, Pseudo: y, Labels: y, Epoch: 1})
					require.NoError(b, err)
				})
				if copied > 0 {
					b.ReportMetric(rate/copied, "of-copy")
				}
			})
		}
	}
}
