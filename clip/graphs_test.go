package clip

import (
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
)

// playedBack stands for a card: what is recorded runs again at each replay, on the same buffers.
type playedBack struct{ recorded, released, replayed, warmed, elsewhere atomic.Int32 }

func (p *playedBack) graphs(limit int) *graphs {
	thread := 0 // of captures, which one call at a time uses
	here := func() {
		if syscall.Gettid() != thread {
			p.elsewhere.Add(1)
		}
	}
	return &graphs{limit: limit, kept: map[string]*captured{}, seen: map[string]bool{},
		thread: func(f func() error) error {
			done := make(chan error)
			go func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				thread = syscall.Gettid()
				done <- f()
			}()
			return <-done
		},
		warm: func(f func() error) error {
			here()
			p.warmed.Add(1)
			return f()
		},
		record: func(f func() error) (replay, release func() error, err error) {
			here()
			p.recorded.Add(1)
			return func() error { p.replayed.Add(1); return f() }, func() error { p.released.Add(1); return nil }, nil
		}}
}

// What graphs give is what the towers give, for every batch size and many goroutines, and no more of them are kept than
// may be.
func TestGraphsOfShapes(t *testing.T) {
	dir := filepath.Join(testroot.Testdata("clip", "variants"), "oc_nonsquare")
	open := func() *Model {
		m, err := Open(dir, Options{Batch: 4})
		require.NoError(t, err)
		return m
	}
	plain, m := open(), open()
	defer plain.Close()
	p := &playedBack{}
	m.graphs = p.graphs(3)
	const most = 6
	pictures, ids, images, texts := make([]*torch.Tensor, most), make([]*torch.Tensor, most), make([]*torch.Tensor, most), make([]*torch.Tensor, most)
	for n := range most {
		pictures[n] = torch.Randn(torch.S(n+1, 3, 12, 20))
		ids[n] = torch.Randint(1, 60, torch.S(n+1, 12), torch.Int64)
		var err error
		images[n], err = plain.EncodeImage(t.Context(), pictures[n])
		require.NoError(t, err)
		texts[n], err = plain.EncodeIDs(t.Context(), ids[n])
		require.NoError(t, err)
	}
	live := 0
	for round := range 3 {
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				for k := range most {
					n := (g + k) % most
					image, err := m.EncodeImage(t.Context(), pictures[n])
					if err != nil {
						t.Error(err)
						return
					}
					text, err := m.EncodeIDs(t.Context(), ids[n])
					if err != nil {
						t.Error(err)
						return
					}
					if c := cosine(images[n], image); c < 1-1e-6 || image.Sub(images[n]).Abs().Max().Item() > 1e-5 {
						t.Errorf("%d pictures: cosine %v", n+1, c)
					}
					if text.Sub(texts[n]).Abs().Max().Item() > 1e-5 {
						t.Errorf("%d texts differ", n+1)
					}
				}
			})
		}
		wg.Wait()
		require.LessOrEqual(t, len(m.graphs.kept), 3)
		require.EqualValues(t, len(m.graphs.kept), p.recorded.Load()-p.released.Load())
		collect()
		if round == 1 {
			live = torch.Live()
		}
	}
	require.LessOrEqual(t, torch.Live(), live+2, "graphs that went took their buffers along")
	require.Equal(t, p.warmed.Load(), p.recorded.Load())
	require.Zero(t, p.elsewhere.Load(), "work was warmed or recorded on another thread than the one for captures")
	require.Greater(t, p.replayed.Load(), p.recorded.Load())
	m.Close()
	require.Equal(t, p.recorded.Load(), p.released.Load())
}

func TestGraphsThatCannotBe(t *testing.T) {
	m, err := Open(filepath.Join(testroot.Testdata("clip", "variants"), "oc_nonsquare"), Options{})
	require.NoError(t, err)
	defer m.Close()
	m.graphs = (&playedBack{}).graphs(2)
	m.graphs.record = func(func() error) (replay, release func() error, err error) { return nil, nil, fmt.Errorf("no room") }
	x := torch.Randn(torch.S(1, 3, 12, 20))
	_, err = m.EncodeImage(t.Context(), x) // the first time without a graph
	require.NoError(t, err)
	live := torch.Live()
	for range 2 {
		_, err = m.EncodeImage(t.Context(), x)
		require.ErrorContains(t, err, "no room")
		require.ErrorContains(t, err, "Options.Graphs")
	}
	collect()
	require.LessOrEqual(t, torch.Live(), live)
	_, err = Open(filepath.Join(testroot.Testdata("clip", "variants"), "oc_nonsquare"), Options{Device: torch.CUDA(99)})
	require.ErrorContains(t, err, "cuda:99")
}
