package torch_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/internal/abi"
)

// inChild runs the calling test alone in a process of its own, where other tests' threads and memory do not count. It
// is true in the child; in the parent it has waited for the child and passes its failures and its log on.
func inChild(t *testing.T, env ...string) bool {
	t.Helper()
	const name = "GOSPML_TEST_CHILD"
	if os.Getenv(name) == t.Name() {
		return true
	}
	require.NoError(t, torch.Available())
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.v", "-test.short="+strconv.FormatBool(testing.Short()))
	cmd.Env = append(append(os.Environ(), name+"="+t.Name()), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	t.Logf("%s", out)
	return false
}

// status reads a number from /proc/self/status: threads, or kilobytes.
func status(t *testing.T, key string) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, key+":"); ok {
			n, err := strconv.Atoi(strings.Fields(v)[0])
			require.NoError(t, err)
			return n
		}
	}
	require.FailNow(t, "no such line", key)
	return 0
}

const megabyte = 1 << 10 // in the unit of status

// Loops that libtorch splits over threads really run on several: built without OpenMP they would silently not.
func TestParallelLoops(t *testing.T) {
	if !inChild(t) { // other tests set the number of threads
		return
	}
	n := torch.NumThreads()
	require.Equal(t, n, abi.ParallelThreads())
	if runtime.NumCPU() > 1 && os.Getenv("OMP_NUM_THREADS") == "" {
		require.Greater(t, n, 1)
	}
	require.NoError(t, torch.SetNumThreads(3))
	require.Equal(t, 3, abi.ParallelThreads())
	require.NoError(t, torch.SetNumThreads(1))
	require.Equal(t, 1, abi.ParallelThreads())
}

// Many goroutines that call without a pool, a scope or a care keep threads and memory small.
func TestNaiveGoroutines(t *testing.T) {
	if !inChild(t) {
		return
	}
	products := 100
	if testroot.Nightly() {
		products = 1000
	}
	a, b := torch.Randn(torch.S(256, 256)), torch.Randn(torch.S(256, 256))
	want := a.Mm(b).Sum().Item()
	before := status(t, "VmRSS")
	start := time.Now()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range products {
				a.Mm(b)
			}
			require.InDelta(t, want, a.Mm(b).Sum().Item(), 0.05)
		})
	}
	wg.Wait()
	took := time.Since(start)
	threads, grown := status(t, "Threads"), status(t, "VmHWM")-before
	t.Logf("64 × %d products: %v, %d threads, +%d MB at the peak", products, took.Round(time.Millisecond), threads, grown/megabyte)
	require.LessOrEqual(t, threads, runtime.NumCPU()+20)
	if !raceDetector {
		require.LessOrEqual(t, grown, 200*megabyte)
	}
}

// Where one operation may use many threads, those that run side by side use one each: teams of sixteen on every OS
// thread that Go starts would be hundreds.
func TestContendedCallsStartNoTeams(t *testing.T) {
	if !inChild(t) {
		return
	}
	require.NoError(t, torch.SetNumThreads(16))
	x := torch.Randn(torch.S(256, 256))
	x.Mm(x) // alone: a team
	alone := status(t, "Threads")
	require.GreaterOrEqual(t, alone, 16)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 50 {
				x.Mm(x).Free()
			}
		})
	}
	wg.Wait()
	// Near the start and the end a call may find itself alone on another thread, hence room for one or two teams.
	t.Logf("%d threads, then %d", alone, status(t, "Threads"))
	require.LessOrEqual(t, status(t, "Threads"), alone+runtime.NumCPU()+2*16+8)
}

// A worker's matrix products stay on its thread, whatever SetNumThreads says.
func TestPoolStartsNoTeams(t *testing.T) {
	if !inChild(t) {
		return
	}
	require.NoError(t, torch.SetNumThreads(8))
	before := status(t, "Threads")
	p := newPool(t, 2)
	job := func() error {
		torch.Scope(func(*torch.Arena) {
			x := torch.Randn(torch.S(512, 512))
			x.Mm(x).Exp().SumDim([]int{1}, false)
		})
		return nil
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 10 {
				require.NoError(t, p.Run(context.Background(), job))
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, status(t, "Threads"), before+6, "workers and Go's own threads; a team of OpenMP would add 7 a worker")
}

// Goroutines with recording on and off share parameters; every gradient of the first kind arrives, none of the second.
func TestConcurrentNoGrad(t *testing.T) {
	w := torch.Ones(torch.S(4), torch.RequiresGrad)
	const rounds = 300
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for range rounds {
				if g%2 == 0 {
					y := w.MulScalar(2)
					if !y.RequiresGrad() {
						t.Error("a gradient was lost")
					}
					y.Sum().Backward()
					continue
				}
				torch.NoGrad(func() {
					if w.MulScalar(2).RequiresGrad() {
						t.Error("an operation was recorded inside NoGrad")
					}
					if torch.GradEnabled() {
						t.Error("recording is on inside NoGrad")
					}
				})
				if !torch.GradEnabled() {
					t.Error("recording stayed off after NoGrad")
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, []float32{8 * rounds * 2, 8 * rounds * 2, 8 * rounds * 2, 8 * rounds * 2}, torch.ToSlice[float32](w.Grad()))
}

// Backward of many graphs at once, some through shared leaves, some for Grad only.
func TestConcurrentBackward(t *testing.T) {
	w := torch.Ones(torch.S(8, 8), torch.RequiresGrad)
	const rounds = 50
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			for range rounds {
				torch.Scope(func(*torch.Arena) {
					x := torch.Full(torch.S(4, 8), float64(g%3+1))
					own := torch.Ones(torch.S(8), torch.RequiresGrad)
					loss := x.Mm(w).Mul(own).Sum()
					if g%4 == 0 {
						d := torch.Grad([]*torch.Tensor{loss}, []*torch.Tensor{own})
						if v := d[0].Sum().Item(); v != float64((g%3+1)*8*8*4) {
							t.Errorf("gradient of its own leaf: %v", v)
						}
						return
					}
					loss.Backward()
					if v := own.Grad().Sum().Item(); v != float64((g%3+1)*8*8*4) {
						t.Errorf("gradient of its own leaf: %v", v)
					}
				})
			}
		})
	}
	wg.Wait()
	sum := 0
	for g := range 32 {
		if g%4 != 0 {
			sum += (g%3 + 1) * 4 * rounds
		}
	}
	require.Equal(t, float64(sum*64), w.Grad().Sum().Item())
}

// Nested modes, scopes and errors in many goroutines finish: no call waits for another while it holds what that one
// needs.
func TestConcurrentNesting(t *testing.T) {
	var calls atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		var wg sync.WaitGroup
		for g := range 64 {
			wg.Go(func() {
				for range 20 {
					err := torch.Do(func() error {
						var kept *torch.Tensor
						torch.Scope(func(outer *torch.Arena) {
							torch.NoGrad(func() {
								torch.Scope(func(inner *torch.Arena) {
									x := torch.Ones(torch.S(16, 16))
									torch.EnableGrad(func() { x = x.Mm(x) })
									kept = inner.Keep(x)
									runtime.Gosched()
								})
							})
							if g%5 == 0 {
								_ = torch.Try(func() { kept.View(3) })
							}
							outer.Keep(kept)
						})
						calls.Add(1)
						if v := kept.Sum().Item(); v != 16*16*16 {
							return fmt.Errorf("got %v", v)
						}
						kept.Free()
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		require.FailNow(t, "stuck", "%d rounds of %d", calls.Load(), 64*20)
	}
}

// Tensors that go from goroutine to goroutine, are dropped, kept and freed, while the collector runs.
func TestConcurrentLifetimes(t *testing.T) {
	pass := make(chan *torch.Tensor, 8)
	stop := make(chan struct{})
	var collector, makers, users sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
				torch.Live()
			}
		}
	})
	for g := range 8 {
		makers.Go(func() {
			for i := range 200 {
				if g%2 == 0 {
					pass <- torch.Full(torch.S(32), float64(i))
					continue
				}
				torch.Scope(func(s *torch.Arena) {
					torch.Full(torch.S(32), -1.)
					pass <- s.Keep(torch.Full(torch.S(31), float64(i)).Sum().Expand(32).AddScalar(0))
				})
			}
		})
		users.Go(func() {
			for x := range pass {
				if v := torch.ToSlice[float32](x); v[0] != v[31] {
					t.Errorf("foreign values: %v", v)
				}
				if g%2 == 0 {
					x.Free() // else dropped
				}
			}
		})
	}
	makers.Wait()
	close(pass)
	users.Wait()
	close(stop)
	collector.Wait()
}
