package loss_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/losstest"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/torchtest"
)

// One loss serves many goroutines, and each gets the number it gets alone.
func TestConcurrentValues(t *testing.T) {
	for _, id := range []string{"gr", "role", "ll-ct", "gpr"} {
		e, err := loss.Lookup(id)
		require.NoError(t, err)
		l, err := e.Make("voc", nil, loss.Options{})
		require.NoError(t, err)
		value := func(seed uint64) (v float64) {
			torch.Scope(func(*torch.Arena) {
				b, _, _ := losstest.Batch(e, losstest.Shape{B: 4, C: 6, DType: torch.Float64, Seed: seed})
				x, err := l.Value(b)
				if assert.NoError(t, err) {
					x.Backward()
					v = x.Item()
				}
			})
			return v
		}
		var want [8]float64
		for i := range want {
			want[i] = value(uint64(i))
		}
		var wg sync.WaitGroup
		for i := range want {
			wg.Go(func() {
				for range 5 {
					assert.Equal(t, want[i], value(uint64(i)))
				}
			})
		}
		wg.Wait()
	}
}

func TestNoLeaks(t *testing.T) {
	torchtest.NoLeaks(t)
	for _, e := range loss.Entries() {
		l, err := e.Make("voc", nil, loss.Options{})
		require.NoError(t, err)
		torch.Scope(func(*torch.Arena) {
			b, _, _ := losstest.Batch(e, losstest.Shape{B: 2, C: 3, DType: torch.Float32})
			v, err := l.Value(b)
			require.NoError(t, err)
			v.Backward()
		})
	}
}
