package cuda

import (
	"errors"
	"testing"
	"time"

	"github.com/gospml/gospml/torch"
	"github.com/stretchr/testify/require"
)

// gpu skips the test where there is no card; docs/gpu-open.md lists what a card must show.
func gpu(t *testing.T) {
	t.Helper()
	if DeviceCount() == 0 {
		require.ErrorIs(t, Available(), ErrNoDevice)
		t.Skip("there is no card")
	}
	require.NoError(t, Available())
}

func TestGPUDevice(t *testing.T) {
	gpu(t)
	p, err := DeviceProperties(0)
	require.NoError(t, err)
	require.NotEmpty(t, p.Name)
	require.GreaterOrEqual(t, p.Major, 5)
	require.Greater(t, p.MultiProcessors, 0)
	_, err = DeviceProperties(DeviceCount())
	require.ErrorContains(t, err, "there is no CUDA device")
	free, total, err := MemoryInfo(0)
	require.NoError(t, err)
	require.Equal(t, p.TotalMemory, total)
	require.Less(t, free, total)
	require.NoError(t, Synchronize(0))
	s, err := DeviceStatus(0)
	require.NoError(t, err)
	require.Contains(t, s.UUID, "GPU-")
	require.Greater(t, s.Temperature, 0)
	t.Logf("%v\n%#v\n%+v", p, p, s)
}

func TestGPUStreamsAndEvents(t *testing.T) {
	gpu(t)
	s, err := NewStream(0, -1)
	require.NoError(t, err)
	before, err := CurrentStream(0)
	require.NoError(t, err)
	var y *torch.Tensor
	require.NoError(t, OnStream(s, func() error {
		now, err := CurrentStream(0)
		require.NoError(t, err)
		require.Equal(t, s, now)
		x := torch.Ones([]int{1024, 1024}, torch.CUDA(0))
		y = x.Matmul(x)
		return nil
	}))
	after, err := CurrentStream(0)
	require.NoError(t, err)
	require.Equal(t, before.id, after.id)
	require.NoError(t, s.Synchronize())
	done, err := s.Done()
	require.NoError(t, err)
	require.True(t, done)
	require.EqualValues(t, 1024, torch.ToSlice[float32](y)[0])

	boom := errors.New("boom")
	require.ErrorIs(t, OnStream(s, func() error { return boom }), boom)
	elapsed, err := Time(0, func() error {
		x := torch.Ones([]int{2048, 2048}, torch.CUDA(0))
		for range 20 {
			x = x.Matmul(x).MulScalar(1e-4)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, elapsed, 10*time.Microsecond)
	t.Log("20 products of 2048 x 2048:", elapsed)
}

// TestGPUGraph: a graph computes what its work computed, on new inputs.
func TestGPUGraph(t *testing.T) {
	gpu(t)
	x := torch.Ones([]int{64, 64}, torch.CUDA(0))
	var y *torch.Tensor
	work := func() error {
		y = x.Matmul(x).Relu()
		return nil
	}
	require.NoError(t, work())
	require.NoError(t, Synchronize(0))
	g, err := Capture(0, nil, work)
	require.NoError(t, err)
	defer g.Close()
	x.Fill_(2)
	require.NoError(t, g.Replay())
	require.EqualValues(t, 256, torch.ToSlice[float32](y)[0])
	_, err = Capture(0, nil, func() error { x.Sum().Item(); return nil })
	require.Error(t, err, "a value cannot be read in a capture")
	require.NoError(t, Synchronize(0))
}

// TestGPUMemory: statistics, the cap, and the tensors that nobody freed, which the allocator gets when it has no room.
func TestGPUMemory(t *testing.T) {
	gpu(t)
	const mb = 1 << 20
	require.NoError(t, EmptyCache())
	require.NoError(t, ResetPeak(0))
	before, err := Memory(0)
	require.NoError(t, err)
	x := torch.Empty([]int{64 * mb}, torch.Uint8, torch.CUDA(0))
	with, err := Memory(0)
	require.NoError(t, err)
	require.EqualValues(t, 64*mb, with.Allocated.Current-before.Allocated.Current)
	x.Free()
	require.NoError(t, EmptyCache())
	after, err := Memory(0)
	require.NoError(t, err)
	require.Equal(t, before.Allocated.Current, after.Allocated.Current)
	require.GreaterOrEqual(t, after.Allocated.Peak, with.Allocated.Current)

	require.NoError(t, SetMemoryCap(0, after.Reserved.Current+1024*mb))
	defer func() {
		_, total, err := MemoryInfo(0)
		require.NoError(t, err)
		require.NoError(t, SetMemoryCap(0, total))
	}()
	for range 64 { // 16 GB in all, none freed by hand
		require.NoError(t, torch.Try(func() { torch.Empty([]int{256 * mb}, torch.Uint8, torch.CUDA(0)) }))
	}
	err = torch.Try(func() { torch.Empty([]int{2048 * mb}, torch.Uint8, torch.CUDA(0)) })
	require.ErrorIs(t, err, torch.ErrOutOfMemory)
}

func TestGPUPinned(t *testing.T) {
	gpu(t)
	x := torch.Arange(0, 1000, 1)
	p, err := Pin(x)
	require.NoError(t, err)
	pinned, err := IsPinned(p)
	require.NoError(t, err)
	require.True(t, pinned)
	pinned, err = IsPinned(x)
	require.NoError(t, err)
	require.False(t, pinned)
	y, err := ToAsync(p, 0)
	require.NoError(t, err)
	back, err := Pin(torch.Zeros([]int{1000}, torch.Int64))
	require.NoError(t, err)
	require.NoError(t, CopyAsync(back, y))
	require.NoError(t, Synchronize(0))
	require.Equal(t, torch.ToSlice[int64](x), torch.ToSlice[int64](back))
}
