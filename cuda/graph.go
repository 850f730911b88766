package cuda

import (
	"errors"
	"sync/atomic"

	"github.com/gospml/gospml/cuda/internal/abi"
	"github.com/gospml/gospml/internal/capture"
	"github.com/gospml/gospml/torch"
)

// Graph is recorded work that is launched as one. It reads and writes the memory of the tensors that it was captured with: copy new
// inputs into them, then Replay, then read the results.
type Graph struct{ h atomic.Uint64 }

// Capture records what f queues into a stream of its own instead of running it. Run the same work a few times before, so that libraries have set themselves up.
// f must not read values, wait, or allocate outside libtorch. Graphs that never run at the same time may share memory: name one of them as shared, else nil.
func Capture(device int, shared *Graph, f func() error) (*Graph, error) {
	s, err := NewStream(device, 0)
	if err != nil {
		return nil, err
	}
	r, err := call("new graph", abi.Graph)
	if err != nil {
		return nil, err
	}
	g := &Graph{}
	g.h.Store(uint64(r.W[0]))
	var pool uint64
	if shared != nil {
		pool = shared.h.Load()
	}
	before, err := CurrentStream(device)
	if err == nil {
		err = s.Wait(before)
	}
	if err == nil {
		err = OnStream(s, func() error {
			if err := do("begin a capture", func() abi.Result { return abi.GraphBegin(g.h.Load(), pool) }); err != nil {
				return err
			}
			var ferr error
			perr := torch.Try(func() { ferr = f() })
			return errors.Join(perr, ferr, do("end a capture", func() abi.Result { return abi.GraphEnd(g.h.Load()) }))
		})
	}
	if err == nil {
		err = before.Wait(s)
	}
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

func init() {
	capture.Graph = func(device int, f func() error) (replay, release func() error, err error) {
		g, err := Capture(device, nil, f)
		if err != nil {
			return nil, nil, err
		}
		return g.Replay, g.Close, nil
	}
}

// Replay launches the graph in the current stream.
func (g *Graph) Replay() error {
	return do("replay a graph", func() abi.Result { return abi.GraphReplay(g.h.Load()) })
}

// Close frees the graph and its memory; closing again does nothing.
func (g *Graph) Close() error {
	h := g.h.Swap(0)
	if h == 0 {
		return nil
	}
	return do("close a graph", func() abi.Result { return abi.GraphFree(h) })
}
