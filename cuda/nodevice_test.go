package cuda

import (
	"testing"

	"github.com/gospml/gospml/internal/hook"
	"github.com/gospml/gospml/torch"
	"github.com/stretchr/testify/require"
)

// TestWithoutDevice: every entry says that there is no card, and nothing else happens. Where there is one, gpu_test.go
// tests the entries.
func TestWithoutDevice(t *testing.T) {
	if DeviceCount() > 0 {
		return
	}
	require.ErrorIs(t, Available(), ErrNoDevice)
	require.ErrorContains(t, Available(), "cuda: no CUDA device: the ")
	x := torch.Ones([]int{2})
	s, e, g := &Stream{}, &Event{}, &Graph{}
	for name, entry := range map[string]func() error{
		"DeviceProperties":   func() error { _, err := DeviceProperties(0); return err },
		"Synchronize":        func() error { return Synchronize(0) },
		"NewStream":          func() error { _, err := NewStream(0, 0); return err },
		"CurrentStream":      func() error { _, err := CurrentStream(0); return err },
		"Stream.Done":        func() error { _, err := s.Done(); return err },
		"Stream.Synchronize": s.Synchronize,
		"Stream.Wait":        func() error { return s.Wait(s) },
		"OnStream":           func() error { return OnStream(s, func() error { t.Error("it ran"); return nil }) },
		"NewEvent":           func() error { _, err := NewEvent(true); return err },
		"Event.Record":       func() error { return e.Record(s) },
		"Event.Block":        func() error { return e.Block(s) },
		"Event.Done":         func() error { _, err := e.Done(); return err },
		"Event.Synchronize":  e.Synchronize,
		"Event.Elapsed":      func() error { _, err := e.Elapsed(e); return err },
		"Time":               func() error { _, err := Time(0, func() error { t.Error("it ran"); return nil }); return err },
		"Capture":            func() error { _, err := Capture(0, nil, func() error { t.Error("it ran"); return nil }); return err },
		"Graph.Replay":       g.Replay,
		"Memory":             func() error { _, err := Memory(0); return err },
		"MemoryInfo":         func() error { _, _, err := MemoryInfo(0); return err },
		"EmptyCache":         EmptyCache,
		"ResetPeak":          func() error { return ResetPeak(0) },
		"SetMemoryCap":       func() error { return SetMemoryCap(0, 1<<30) },
		"Pin":                func() error { _, err := Pin(x); return err },
		"IsPinned":           func() error { _, err := IsPinned(x); return err },
		"CopyAsync":          func() error { return CopyAsync(x, x) },
		"ToAsync":            func() error { _, err := ToAsync(x, 0); return err },
		"DeviceStatus":       func() error { _, err := DeviceStatus(0); return err },
	} {
		require.ErrorIs(t, entry(), ErrNoDevice, name)
	}
	require.NoError(t, e.Close(), "closing what was never made")
	require.NoError(t, g.Close())
	require.Equal(t, []float32{1, 1}, torch.ToSlice[float32](x), "the CPU goes on")
}

// TestCollect: what the program has dropped is found at once; what it holds is not.
func TestCollect(t *testing.T) {
	require.NoError(t, torch.Available())
	held := torch.Ones([]int{3})
	func() {
		for range 5 {
			torch.Ones([]int{3})
		}
	}()
	before := torch.Live() // the collector may have found some by itself
	handles := hook.Collect()
	require.NotEmpty(t, handles)
	require.LessOrEqual(t, len(handles), before-1)
	require.Equal(t, []float32{1, 1, 1}, torch.ToSlice[float32](held))
}
