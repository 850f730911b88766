package torch_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
)

func TestNoGrad(t *testing.T) {
	x := torch.Ones(torch.S(2), torch.RequiresGrad)
	require.True(t, torch.GradEnabled())
	torch.NoGrad(func() {
		require.False(t, torch.GradEnabled())
		require.False(t, x.AddScalar(1).RequiresGrad())
		torch.EnableGrad(func() {
			require.True(t, x.AddScalar(1).RequiresGrad())
			torch.NoGrad(func() { require.False(t, torch.GradEnabled()) })
			require.True(t, torch.GradEnabled())
		})
		torch.NoGrad(func() {})
		require.False(t, torch.GradEnabled())
		x.AddScalar_(1) // a leaf may be changed here
	})
	require.True(t, torch.GradEnabled())
	require.True(t, x.AddScalar(1).RequiresGrad())
	require.Equal(t, []float32{2, 2}, torch.ToSlice[float32](x))
}

func TestModesAreRestored(t *testing.T) {
	require.PanicsWithValue(t, "x", func() { torch.NoGrad(func() { panic("x") }) })
	require.True(t, torch.GradEnabled())
	require.Error(t, torch.Try(func() {
		torch.NoGrad(func() { torch.EnableGrad(func() { torch.Ones(torch.S(2)).View(3) }) })
	}))
	require.True(t, torch.GradEnabled())
	require.Error(t, torch.Try(func() { torch.Inference(func() { torch.Ones(torch.S(2)).View(3) }) }))
	require.NotEqual(t, -1, torch.Ones(torch.S(2)).Version())
	var wg sync.WaitGroup
	wg.Go(func() {
		torch.NoGrad(func() { runtime.Goexit() })
	})
	wg.Wait()
	require.True(t, torch.GradEnabled())
}

// A mode is the goroutine's, not that of goroutines it starts.
func TestNoGradIsOfOneGoroutine(t *testing.T) {
	torch.NoGrad(func() {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { require.True(t, torch.GradEnabled()) })
		}
		wg.Wait()
		require.False(t, torch.GradEnabled())
	})
}

func TestInference(t *testing.T) {
	x := torch.Ones(torch.S(2), torch.RequiresGrad)
	var y *torch.Tensor
	torch.Inference(func() {
		require.False(t, torch.GradEnabled())
		y = x.MulScalar(2)
		require.Equal(t, -1, y.Version())
		require.False(t, y.RequiresGrad())
		torch.Inference(func() { y.AddScalar_(1) })
		torch.EnableGrad(func() { require.False(t, x.MulScalar(2).RequiresGrad(), "inference goes before") })
	})
	require.True(t, torch.GradEnabled())
	require.Equal(t, []float32{3, 3}, torch.ToSlice[float32](y))
	err := torch.Try(func() { x.Mul(y) })
	require.ErrorContains(t, err, "Inference tensors cannot be saved for backward")
}

func TestDo(t *testing.T) {
	broken := errors.New("broken")
	require.ErrorIs(t, torch.Do(func() error { return broken }), broken)
	require.NoError(t, torch.Do(func() error {
		return torch.Do(func() error {
			torch.Scope(func(*torch.Arena) { torch.NoGrad(func() { torch.Ones(torch.S(2)) }) })
			return nil
		})
	}))
	require.PanicsWithValue(t, "x", func() { _ = torch.Do(func() error { panic("x") }) })
}

func TestSetNumThreads(t *testing.T) {
	n := torch.NumThreads()
	require.Positive(t, n)
	defer func() { require.NoError(t, torch.SetNumThreads(n)) }()
	for _, bad := range []int{0, -1} {
		require.ErrorContains(t, torch.SetNumThreads(bad), "want at least 1")
	}
	require.Equal(t, n, torch.NumThreads())
	// Threads that were used before follow, not only new ones.
	three, one := make(chan struct{}), make(chan struct{})
	var used, threes, done sync.WaitGroup
	for range 4 {
		used.Add(1)
		threes.Add(1)
		done.Go(func() {
			_ = torch.Do(func() error {
				torch.Ones(torch.S(2)).Sum()
				used.Done()
				<-three
				require.Equal(t, 3, torch.NumThreads())
				threes.Done()
				<-one
				require.Equal(t, 1, torch.NumThreads())
				return nil
			})
		})
	}
	used.Wait()
	require.NoError(t, torch.SetNumThreads(3))
	close(three)
	require.Equal(t, 3, torch.NumThreads())
	threes.Wait()
	require.NoError(t, torch.SetNumThreads(1))
	close(one)
	done.Wait()
}
