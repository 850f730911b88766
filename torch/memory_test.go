package torch_test

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/internal/abi"
)

var warm []byte

// What training allocates in a step is gone with the step: tensors, C memory and the process's size stay level.
func TestTrainingMemory(t *testing.T) {
	if !inChild(t, "OMP_NUM_THREADS=1") { // a busy machine stalls teams
		return
	}
	m := newMLP(32, 64, 64, 10)
	type state struct{ live, heap, rss int }
	at := func() state { return state{torch.Live(), int(torch.HeapInUse()), status(t, "VmRSS")} }
	var first, last state
	runtime.LockOSThread() // other threads' malloc caches are not the subject
	defer runtime.UnlockOSThread()
	for range 16 { // Go's heap grows to 4 MB before its first collection; that is not the subject either
		warm = make([]byte, 1<<20)
		clear(warm)
	}
	warm = nil
	start := time.Now()
	for step := 1; step <= 10_000; step++ {
		m.step()
		if step == 2_000 {
			runtime.GC()
			first = at()
		}
	}
	runtime.GC()
	last = at()
	runtime.KeepAlive(m)
	t.Logf("10,000 steps in %v; after 2,000: %+v, after 10,000: %+v", time.Since(start).Round(time.Millisecond), first, last)
	require.Equal(t, first.live, last.live)
	require.InDelta(t, first.heap, last.heap, 64<<10)
	if !raceDetector {
		require.LessOrEqual(t, last.rss-first.rss, 4*megabyte)
	}
}

// bigResults makes n results of 4 MB and returns by how much the process had grown at its largest.
func bigResults(t *testing.T, n int, use func(x *torch.Tensor)) int {
	t.Helper()
	x := torch.Ones(torch.S(1 << 20))
	before := status(t, "VmRSS")
	for range n {
		use(x)
	}
	grown := status(t, "VmHWM") - before
	t.Logf("%d results of 4 MB: +%d MB, %d MB in all", n, grown/megabyte, status(t, "VmHWM")/megabyte)
	return status(t, "VmHWM")
}

// Results that nobody frees: the bytes they hold start the garbage collector.
func TestDroppedResults(t *testing.T) {
	if !inChild(t) {
		return
	}
	debug.SetGCPercent(-1) // Go's own pace would find nothing to do anyway
	require.Less(t, bigResults(t, 1500, func(x *torch.Tensor) { x.AddScalar(1) }), 600*megabyte)
}

func TestScopedResults(t *testing.T) {
	if !inChild(t) {
		return
	}
	require.Less(t, bigResults(t, 1504/16, func(x *torch.Tensor) {
		torch.Scope(func(*torch.Arena) {
			for range 16 {
				x.AddScalar(1)
			}
		})
	}), 350*megabyte)
}

// Keep hands results to the collector; they count as those made outside.
func TestDroppedKeptResults(t *testing.T) {
	if !inChild(t) {
		return
	}
	require.Less(t, bigResults(t, 1500, func(x *torch.Tensor) {
		torch.Scope(func(s *torch.Arena) { s.Keep(x.AddScalar(1)) })
	}), 600*megabyte)
}

// Training without scopes: what a graph holds when the handle is freed counts too, step after step.
func TestDroppedGraphs(t *testing.T) {
	if !inChild(t) {
		return
	}
	w := torch.Ones(torch.S(1), torch.RequiresGrad)
	require.Less(t, bigResults(t, 700, func(x *torch.Tensor) {
		y := x.Mul(w)
		z := y.Mul(y).Sum()
		y.Free() // the graph holds it
		z.Backward()
		torch.ZeroGrad([]*torch.Tensor{w}, false)
	}), 600*megabyte)
}

// Freed by hand, results do not start the collector at all.
func TestFreedResults(t *testing.T) {
	if !inChild(t) {
		return
	}
	debug.SetGCPercent(-1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.Less(t, bigResults(t, 500, func(x *torch.Tensor) { x.AddScalar(1).Free() }), 350*megabyte)
	runtime.ReadMemStats(&after)
	require.Equal(t, before.NumGC, after.NumGC)
}

// A dropped tensor is queued by the collector and given back by the next call, never by the collector itself.
func TestCleanupQueue(t *testing.T) {
	if !inChild(t) { // where no other test's garbage comes along
		return
	}
	x := torch.Ones(torch.S(1))
	before := abi.Live()
	func() {
		for range 100 {
			x.AddScalar(1)
		}
	}()
	for range 5 {
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
	}
	require.Equal(t, before+100, abi.Live(), "waiting in the queue")
	x.AddScalar_(1)
	require.Equal(t, before, abi.Live())
}

// Errors leave neither tensors nor their texts behind.
func TestErrorsLeaveNothing(t *testing.T) {
	if !inChild(t) {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a, b := torch.Ones(torch.S(2, 3)), torch.Ones(torch.S(2, 3))
	leaf := torch.Ones(torch.S(2), torch.RequiresGrad)
	broken := []func(){
		func() { a.Mm(b) },
		func() { a.View(7) },
		func() { torch.Call("aten::add.Tensor", a, "b") },
		func() { torch.Call("aten::no_such_operator") },
		func() { torch.Cat([]*torch.Tensor{a, nil}, 0) },
		func() { leaf.AddScalar_(1) },
		func() { a.Backward() },
		func() {
			torch.Grad([]*torch.Tensor{leaf.Sum()}, []*torch.Tensor{torch.Ones(torch.S(1), torch.RequiresGrad)})
		},
		func() { leaf.SetGrad(a) },
		func() { torch.Empty(torch.S(1 << 60)) },
	}
	round := func() {
		for _, f := range broken {
			require.Error(t, torch.Try(f))
			require.Error(t, torch.Try(func() { torch.Scope(func(*torch.Arena) { f() }) }))
		}
	}
	settle := func() (int, int) {
		for range 3 {
			runtime.GC()
			time.Sleep(5 * time.Millisecond)
			torch.Live()
		}
		return torch.Live(), int(torch.HeapInUse())
	}
	for range 20 {
		round()
	}
	live, heap := settle()
	for range 500 {
		round()
	}
	liveAfter, heapAfter := settle()
	runtime.KeepAlive([]*torch.Tensor{a, b, leaf})
	require.Equal(t, live, liveAfter)
	require.InDelta(t, heap, heapAfter, 256<<10, "10,000 errors; the shortest text has 26 bytes")
}
