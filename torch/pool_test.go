package torch_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/internal/abi"
)

func newPool(t *testing.T, n int) *torch.Pool {
	t.Helper()
	p, err := torch.NewPool(n)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// Every job runs on one of n OS threads, each with one intra-op thread, whatever SetNumThreads says.
func TestPoolThreads(t *testing.T) {
	n := torch.NumThreads()
	defer func() { require.NoError(t, torch.SetNumThreads(n)) }()
	require.NoError(t, torch.SetNumThreads(2))
	p := newPool(t, 3)
	var mu sync.Mutex
	seen := map[int]int{}
	var wg sync.WaitGroup
	for range 60 {
		wg.Go(func() {
			require.NoError(t, p.Run(context.Background(), func() error {
				mu.Lock()
				seen[syscall.Gettid()]++
				mu.Unlock()
				require.Equal(t, 1, torch.NumThreads())
				require.Equal(t, 1, abi.ParallelThreads())
				torch.Scope(func(*torch.Arena) {
					require.Equal(t, float64(64*64*64), torch.Ones(torch.S(64, 64)).Mm(torch.Ones(torch.S(64, 64))).Sum().Item())
				})
				time.Sleep(time.Millisecond)
				return nil
			}))
		})
	}
	wg.Wait()
	require.LessOrEqual(t, len(seen), 3)
	require.Equal(t, 2, torch.NumThreads())
}

func TestPoolDefaultSize(t *testing.T) {
	p := newPool(t, 0)
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	for range 10 * runtime.NumCPU() {
		wg.Go(func() {
			_ = p.Run(context.Background(), func() error {
				most.Store(max(most.Load(), inside.Add(1)))
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				return nil
			})
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int64(runtime.NumCPU()))
}

func TestPoolErrors(t *testing.T) {
	p := newPool(t, 2)
	ctx := context.Background()
	broken := errors.New("broken")
	require.ErrorIs(t, p.Run(ctx, func() error { return broken }), broken)
	var e *torch.Error
	err := p.Run(ctx, func() error {
		torch.Ones(torch.S(2)).Add(torch.Ones(torch.S(3)))
		return nil
	})
	require.ErrorAs(t, err, &e)
	require.Equal(t, "aten::add", e.Op)
	require.PanicsWithValue(t, "x", func() { _ = p.Run(ctx, func() error { panic("x") }) })
	require.PanicsWithError(t, "broken", func() { _ = p.Run(ctx, func() error { panic(broken) }) })
	for range 5 { // more than there are workers: each is replaced
		require.ErrorContains(t, p.Run(ctx, func() error { runtime.Goexit(); return nil }), "runtime.Goexit")
	}
	require.NoError(t, p.Run(ctx, func() error {
		require.True(t, torch.GradEnabled())
		return nil
	}))
}

func TestPoolContext(t *testing.T) {
	p := newPool(t, 1)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for range 100 {
		require.ErrorIs(t, p.Run(ended, func() error { t.Error("ran"); return nil }), context.Canceled)
	}

	// A caller whose context ends while all workers are busy gets its answer; the job that runs is waited for.
	started, release := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	var busy, waiting error
	var wg sync.WaitGroup
	wg.Go(func() {
		busy = p.Run(ctx, func() error { close(started); <-release; return nil })
	})
	<-started
	wg.Go(func() { waiting = p.Run(ctx, func() error { t.Error("ran"); return nil }) })
	time.Sleep(5 * time.Millisecond)
	cancel()
	time.Sleep(5 * time.Millisecond)
	close(release)
	wg.Wait()
	require.NoError(t, busy)
	require.ErrorIs(t, waiting, context.Canceled)
}

func TestPoolClose(t *testing.T) {
	p, err := torch.NewPool(2)
	require.NoError(t, err)
	started := make(chan struct{})
	var finished atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		require.NoError(t, p.Run(context.Background(), func() error {
			close(started)
			time.Sleep(10 * time.Millisecond)
			finished.Store(true)
			return nil
		}))
	})
	<-started
	wg.Go(p.Close)
	p.Close()
	require.True(t, finished.Load(), "Close waits for the jobs that run")
	wg.Wait()
	p.Close()
	require.ErrorIs(t, p.Run(context.Background(), func() error { return nil }), torch.ErrPoolClosed)

	// Calls that race with Close run or are refused, and all come back.
	p, err = torch.NewPool(2)
	require.NoError(t, err)
	var ran, refused atomic.Int64
	for range 50 {
		wg.Go(func() {
			switch err := p.Run(context.Background(), func() error { ran.Add(1); return nil }); {
			case errors.Is(err, torch.ErrPoolClosed):
				refused.Add(1)
			case err != nil:
				t.Error(err)
			}
		})
	}
	p.Close()
	wg.Wait()
	require.EqualValues(t, 50, ran.Load()+refused.Load())
}

// CloseContext comes back with its context, and the job that held it up ends by itself.
func TestPoolCloseContext(t *testing.T) {
	p, err := torch.NewPool(1)
	require.NoError(t, err)
	started, release, answer := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		answer <- p.Run(context.Background(), func() error { close(started); <-release; return nil })
	}()
	<-started
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.CloseContext(ctx), context.DeadlineExceeded)
	require.ErrorIs(t, p.Run(context.Background(), func() error { return nil }), torch.ErrPoolClosed)
	close(release)
	require.NoError(t, <-answer)
	require.NoError(t, p.CloseContext(context.Background()))
	require.NoError(t, p.CloseContext(ctx), "all has ended: a context that has too is no error")
}
