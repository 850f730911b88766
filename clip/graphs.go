package clip

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/torch"
)

// defaultGraphs is how many shapes of input are kept as graphs.
const defaultGraphs = 8

// graphs are forward passes that a card runs in one launch, one for each tower and shape of input that came twice. Each
// reads and writes buffers of its own, and all of them are queued into the default stream of the device, one after the
// other; so they share the memory of what lies between.
type graphs struct {
	limit int
	// thread runs f on the thread of captures, where warm and record are called: what libraries set up belongs to a
	// thread.
	thread func(f func() error) error
	// warm runs f in the stream of captures, so that libraries set themselves up before one.
	warm func(f func() error) error
	// record captures what f queues; it does not run it.
	record func(f func() error) (replay, release func() error, err error)

	mu    sync.Mutex
	clock uint64
	kept  map[string]*captured
	seen  map[string]bool // shapes that came once
}

type captured struct {
	in, out *torch.Tensor
	replay  func() error
	release func() error
	used    uint64
}

// newGraphs gives nil where there are to be none.
func newGraphs(o *Options) *graphs {
	if o.Device.Type != torch.DeviceCUDA || o.Graphs < 0 {
		return nil
	}
	g := &graphs{limit: o.Graphs, kept: map[string]*captured{}, seen: map[string]bool{}}
	if g.limit == 0 {
		g.limit = defaultGraphs
	}
	device := o.Device.Index
	g.thread = func(f func() error) error { return cuda.OnCaptureThread(device, f) }
	g.warm = func(f func() error) error { return cuda.WarmUp(device, f) }
	var live []*cuda.Graph // whose memory the next one shares
	g.record = func(f func() error) (replay, release func() error, err error) {
		var shared *cuda.Graph
		if len(live) > 0 {
			shared = live[0]
		}
		c, err := cuda.Capture(device, shared, f)
		if err != nil {
			return nil, nil, err
		}
		live = append(live, c)
		return c.Replay, func() error {
			for i, x := range live {
				if x == c {
					live = append(live[:i:i], live[i+1:]...)
					break
				}
			}
			return c.Close()
		}, nil
	}
	return g
}

// run is f(x). It panics with *torch.Error.
func (g *graphs) run(tower string, x *torch.Tensor, f func(*torch.Tensor) *torch.Tensor) *torch.Tensor {
	key := fmt.Sprint(tower, x.Shape(), x.DType())
	g.mu.Lock()
	c := g.kept[key]
	if c == nil && !g.seen[key] {
		if len(g.seen) > 1000 { // sizes that never come again
			clear(g.seen)
		}
		g.seen[key] = true
		g.mu.Unlock()
		return f(x)
	}
	defer g.mu.Unlock() // until everything is queued; the device keeps the order
	fail := func(err error) {
		if err != nil {
			panic(&torch.Error{Kind: torch.KindRuntime, Op: "clip.Model", Msg: fmt.Sprintf("a graph of %s: %v; without graphs (Options.Graphs below 0) it may work", key, err)})
		}
	}
	if c == nil {
		for len(g.kept) >= g.limit {
			fail(g.drop())
		}
		var err error
		c, err = g.capture(x, f)
		fail(err)
		g.kept[key] = c
	}
	g.clock++
	c.used = g.clock
	c.in.Copy_(x)
	fail(c.replay())
	return c.out.Clone()
}

// capture works on another thread than the caller's, so the buffers belong to no scope of the caller's.
func (g *graphs) capture(x *torch.Tensor, f func(*torch.Tensor) *torch.Tensor) (*captured, error) {
	c := &captured{}
	inside := func(work func(s *torch.Arena)) error {
		return caught.Do(func() error {
			return torch.Try(func() { torch.Scope(func(s *torch.Arena) { torch.NoGrad(func() { work(s) }) }) })
		})
	}
	step := func() error { return inside(func(*torch.Arena) { c.out.Copy_(f(c.in)) }) }
	err := g.thread(func() error {
		err := inside(func(s *torch.Arena) {
			c.in = s.Keep(x.Clone())
			c.out = s.Keep(f(c.in).Clone())
		})
		if err == nil {
			err = g.warm(func() error { return errors.Join(step(), step()) })
		}
		if err == nil {
			c.replay, c.release, err = g.record(step)
		}
		return err
	})
	if err != nil {
		free(c.in, c.out)
		return nil, err
	}
	return c, nil
}

// drop frees the graph that was not used for longest.
func (g *graphs) drop() error {
	oldest := ""
	for k, c := range g.kept {
		if oldest == "" || c.used < g.kept[oldest].used {
			oldest = k
		}
	}
	c := g.kept[oldest]
	delete(g.kept, oldest)
	err := c.release()
	free(c.in, c.out)
	return err
}

// close frees all graphs.
func (g *graphs) close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.kept) > 0 {
		_ = g.drop() // the device's memory goes with the process where it cannot be freed
	}
}
