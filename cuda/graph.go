package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gospml/gospml/cuda/internal/abi"
	"github.com/gospml/gospml/internal/hook"
	"github.com/gospml/gospml/torch"
)

// Graph is recorded work that is launched as one. It reads and writes the memory of the tensors that it was captured
// with: copy new inputs into them, then Replay, then read the results.
type Graph struct{ h atomic.Uint64 }

// capturer is what captures of a device share: cuBLAS keeps a workspace (32 MiB on Hopper) for each thread and stream
// that it has seen.
type capturer struct {
	mu     sync.Mutex // one capture at a time
	stream *Stream
	work   chan func()
}

var (
	capturersMu sync.Mutex
	capturers   = map[int]*capturer{}
)

func capturerOf(device int) (*capturer, error) {
	capturersMu.Lock()
	defer capturersMu.Unlock()
	if c := capturers[device]; c != nil {
		return c, nil
	}
	s, err := NewStream(device, 0)
	if err != nil {
		return nil, err
	}
	c := &capturer{stream: s, work: make(chan func())}
	go func() {
		runtime.LockOSThread() // for ever
		for f := range c.work {
			f()
		}
	}()
	capturers[device] = c
	return c, nil
}

// OnCaptureThread runs f on the one OS thread that a device has for captures, in the stream of Capture. Work that is to
// be captured is run there before: the handles and plans of cuBLAS and cuDNN belong to a thread and cannot be made
// within a capture. The caller's modes and scopes do not hold there. A panic of f is the error.
func OnCaptureThread(device int, f func() error) error {
	c, err := capturerOf(device)
	if err != nil {
		return err
	}
	done := make(chan error)
	c.work <- func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("cuda: capture thread: %v", p)
			}
		}()
		done <- f()
	}
	return <-done
}

// WarmUp runs f in the stream of Capture, behind what the current stream holds, which then waits for it.
func WarmUp(device int, f func() error) error {
	c, err := capturerOf(device)
	if err != nil {
		return err
	}
	return c.beside(device, f)
}

// beside runs f in the capture stream, between what is in the current stream before and after.
func (c *capturer) beside(device int, f func() error) error {
	before, err := CurrentStream(device)
	if err != nil {
		return err
	}
	if err := c.stream.Wait(before); err != nil {
		return err
	}
	if err := OnStream(c.stream, f); err != nil {
		return err
	}
	return before.Wait(c.stream)
}

// Capture records what f queues into the device's stream for captures instead of running it. Run the same work a few
// times before on the same OS thread (WarmUp within OnCaptureThread), so that libraries have set themselves up. f must
// not read values, wait, or allocate outside libtorch. Graphs that never run at the same time may share memory: name
// one of them as shared, else nil. Captures of a device wait for each other.
func Capture(device int, shared *Graph, f func() error) (*Graph, error) {
	c, err := capturerOf(device)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
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
	err = c.beside(device, func() error {
		if err := do("begin a capture", func() abi.Result { return abi.GraphBegin(g.h.Load(), pool) }); err != nil {
			return err
		}
		var ferr error
		perr := torch.Try(func() { ferr = f() })
		return errors.Join(perr, ferr, do("end a capture", func() abi.Result { return abi.GraphEnd(g.h.Load()) }))
	})
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

func init() {
	hook.Graph = func(device int, f func() error) (replay, release func() error, err error) {
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
