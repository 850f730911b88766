package loss_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/losstest"
	"github.com/gospml/gospml/torch"
)

// BenchmarkLoss is forward and backward of every registered loss, on one thread, in the forms that it has:
//
//	go test -run '^$' -bench 'Loss/gr/128x80' ./spml/loss
//
// GB/s counts what a perfect pass moves: logits and labels in, gradient out. copy is the share of the bandwidth at which this process copies
// tensors of that size: 1 is the memory's limit.
func BenchmarkLoss(b *testing.B) {
	threads := torch.NumThreads()
	require.NoError(b, torch.SetNumThreads(1))
	defer func() { require.NoError(b, torch.SetNumThreads(threads)) }()
	for _, e := range loss.Entries() {
		b.Run(e.ID, func(b *testing.B) {
			for _, s := range [][2]int{{8, 20}, {16, 80}, {128, 80}, {256, 312}, {1024, 1000}} {
				b.Run(fmt.Sprintf("%dx%d", s[0], s[1]), func(b *testing.B) {
					for _, d := range []torch.DType{torch.Float32, torch.BFloat16} {
						b.Run(d.String(), func(b *testing.B) { forms(b, e, s[0], s[1], d) })
					}
				})
			}
		})
	}
}

func forms(b *testing.B, e *loss.Entry, rows, classes int, d torch.DType) {
	batch, leaves, _ := losstest.Batch(e, losstest.Shape{B: rows, C: classes, DType: d, Seed: 1, Map: 1})
	bytes := rows * classes * (2*d.Size() + 1)
	if b := batch.Contrast; b != nil { // a full queue of LAC's
		x := torch.Randn(torch.S(512, 2, 128), torch.Float32)
		x = x.Div(x.VectorNorm(2, []int{2}, true)).ToDType(d).SetRequiresGrad(true)
		ids := make([]int64, 512)
		for i := range ids {
			ids[i] = int64(1 + i%classes)
		}
		b.Features, b.Labels, b.Current = x, torch.FromSlice(ids), nil
		leaves = append(leaves, x)
	}
	for _, impl := range []string{"composed", "fused", "valuegrad"} {
		if impl != "composed" && e.Fused == nil {
			continue
		}
		o := loss.Options{Impl: loss.Fused}
		if impl == "composed" {
			o.Impl = loss.Composed
		}
		l, err := e.Make("coco", nil, o)
		require.NoError(b, err)
		step := func() error {
			v, err := l.Value(batch)
			if err != nil {
				return err
			}
			v.Backward()
			torch.ZeroGrad(leaves, false)
			return nil
		}
		if impl == "valuegrad" {
			step = func() error {
				_, _, err := loss.ValueGrad(l, batch)
				return err
			}
		}
		b.Run(impl, func(b *testing.B) {
			limit := copyRate(bytes)
			for b.Loop() {
				var err error
				torch.Scope(func(*torch.Arena) { err = step() })
				if err != nil {
					b.Fatal(err)
				}
			}
			rate := float64(bytes) * float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate/1e9, "GB/s")
			b.ReportMetric(rate/limit, "copy")
		})
	}
}

// copyRate is the best of some copies, in bytes read and written per second, of tensors that together have so many bytes.
func copyRate(bytes int) float64 {
	best := 0.0
	torch.Scope(func(*torch.Arena) {
		from, to := torch.Zeros(torch.S(bytes/2), torch.Int8), torch.Zeros(torch.S(bytes/2), torch.Int8)
		for range 20 {
			start := time.Now()
			to.Copy_(from)
			best = max(best, float64(bytes/2*2)/time.Since(start).Seconds())
		}
	})
	return best
}
