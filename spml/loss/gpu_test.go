package loss_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/losstest"
	"github.com/gospml/gospml/torch"
)

// gpu says whether the tests below can run; docs/gpu-open.md lists them for a machine where they do.
func gpu(t testing.TB) bool {
	t.Helper()
	if cuda.DeviceCount() == 0 {
		require.ErrorIs(t, cuda.Available(), cuda.ErrNoDevice)
		return false
	}
	require.NoError(t, cuda.Available())
	return true
}

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
		if x, ok := v.Field(i).Interface().(*torch.Tensor); ok {
			v.Field(i).Set(reflect.ValueOf(move(x)))
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
	if !gpu(t) {
		return
	}
	tolerance := map[torch.DType][2]float64{torch.Float64: {1e-12, 1e-10}, torch.Float32: {1e-6, 2e-5}, torch.BFloat16: {2e-3, 2e-2}, torch.Float16: {2e-3, 2e-2}}
	for _, e := range loss.Entries() {
		if e.Fused == nil {
			continue
		}
		for dtype, tol := range tolerance {
			for seed, shape := range [][2]int{{1, 1}, {5, 7}, {64, 80}, {300, 1000}} {
				t.Run(fmt.Sprintf("%s/%v/%dx%d", e.ID, dtype, shape[0], shape[1]), func(t *testing.T) {
					b, leaves, names := losstest.Batch(e, losstest.Shape{B: shape[0], C: shape[1], DType: dtype, Seed: uint64(seed), Observed: losstest.Mixed})
					g, there := moved(b, leaves, torch.CUDA(0))
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
						d := there[i].Grad().ToDevice(torch.CPU).ToDType(torch.Float64).Sub(x.Grad().ToDType(torch.Float64)).Abs().Max().Item()
						require.LessOrEqual(t, d, tol[0]+tol[1]*x.Grad().ToDType(torch.Float64).Abs().Max().Item(), names[i])
					}
				})
			}
		}
	}
}

// TestGPUBandwidth logs what share of the card's copy bandwidth forward and backward at (4096, 5000) reach.
func TestGPUBandwidth(t *testing.T) {
	if !gpu(t) {
		return
	}
	const rounds = 20
	seconds := func(f func()) float64 {
		best := 1e9
		for range rounds {
			require.NoError(t, cuda.Synchronize(0))
			start := time.Now()
			torch.Scope(func(*torch.Arena) { f() })
			require.NoError(t, cuda.Synchronize(0))
			best = min(best, time.Since(start).Seconds())
		}
		return best
	}
	z := torch.Randn(torch.S(4096, 5000), torch.CUDA(0))
	bytes := float64(z.Numel() * 4)
	copied := 2 * bytes / seconds(func() { z.Clone() })
	for _, e := range loss.Entries() {
		if e.Fused == nil || e.Needs&^(loss.Observed|loss.Full|loss.Epoch|loss.PseudoLabels|loss.SoftNegatives) != 0 {
			continue
		}
		y := torch.Rand(torch.S(4096, 5000), torch.CUDA(0)).LtScalar(0.001).ToDType(torch.Int8)
		b := loss.Batch{Logits: z.Detach().SetRequiresGrad(true), Observed: y, Full: y, Pseudo: y, Labels: y, Epoch: 1}
		l, err := e.Make("coco", nil, loss.Options{Impl: loss.Fused})
		require.NoError(t, err)
		s := seconds(func() {
			_, _, err := loss.ValueGrad(l, b)
			require.NoError(t, err)
		})
		moved := 2*bytes + bytes/4 // logits and int8 labels in, gradient out
		t.Logf("%-8s %7.1f us  %6.0f GB/s  %.2f of a copy (%.0f GB/s)", e.ID, 1e6*s, moved/s/1e9, moved/s/copied, copied/1e9)
	}
}
