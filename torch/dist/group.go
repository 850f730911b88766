package dist

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gospml/gospml/internal/hook"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/internal/abi"
	"github.com/gospml/gospml/torch/internal/link"
)

// Options choose how a group communicates.
type Options struct {
	Backend   string        // "gloo" (the default) for tensors on the CPU, "nccl" for tensors on a card
	Timeout   time.Duration // of meeting and of each operation; 0 = DefaultTimeout
	Interface string        // Gloo's network interface, for instance "eth0"; "" = GLOO_SOCKET_IFNAME, else the interface of this host's name
	Host      string        // instead of Interface: this host's address
}

// Op is how values are reduced.
type Op int

// The reductions; the numbers are c10d's.
const (
	Sum     Op = 0
	Average Op = 1 // NCCL only; with Gloo divide the sum
	Product Op = 2
	Min     Op = 3
	Max     Op = 4
)

// Group is a set of processes that compute together.
type Group struct {
	h          atomic.Uint64
	rank, size int
	store      *Store
	timeout    time.Duration
	attached   []torch.DeviceType
	stores     []*Store // that Init made
}

// Init meets the other processes that env tells of: rank 0 hosts the store unless the launcher does.
func Init(env Env, o Options) (*Group, error) {
	store, err := NewTCPStore(env.MasterAddr, env.MasterPort, env.Rank == 0 && !env.AgentStore, 0, o.Timeout)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(env.MasterAddr); o.Host == "" && o.Interface == "" && os.Getenv(interfaceVariable) == "" &&
		(env.MasterAddr == "localhost" || ip != nil && ip.IsLoopback()) {
		o.Host = "127.0.0.1" // all on this machine: its name may resolve to an address that nobody can reach
	}
	// A group that was started anew must not meet the dead one's keys.
	view, err := store.WithPrefix(fmt.Sprintf("gospml/%s/%d", env.RunID, env.Restart))
	if err != nil {
		store.Close()
		return nil, err
	}
	g, err := NewGroup(view, env.Rank, env.WorldSize, o)
	if err != nil {
		view.Close()
		store.Close()
		return nil, err
	}
	g.stores = []*Store{view, store}
	return g, nil
}

// NewGroup makes a group of the processes that meet in the store, each with its own rank. Groups in one store need different prefixes
// (Store.WithPrefix). The store must stay open longer than the group.
func NewGroup(s *Store, rank, size int, o Options) (*Group, error) {
	if size < 1 || rank < 0 || rank >= size {
		return nil, fmt.Errorf("dist: rank %d is not among %d processes", rank, size)
	}
	if err := abi.LoadDist(); err != nil {
		return nil, err
	}
	what := fmt.Sprintf("meeting as rank %d of %d", rank, size)
	g := &Group{rank: rank, size: size, store: s, timeout: o.Timeout}
	switch o.Backend {
	case "", "gloo":
		where, host := o.Interface, false
		if o.Host != "" {
			where, host = o.Host, true
		} else if where == "" {
			where = os.Getenv(interfaceVariable)
		}
		r := abi.GlooGroup(s.h.Load(), rank, size, where, host, millis(o.Timeout))
		if err := failed(what, &r); err != nil {
			return nil, err
		}
		g.h.Store(r.W[0])
	case "nccl":
		r := abi.EmptyGroup(s.h.Load(), rank, size)
		if err := failed(what, &r); err != nil {
			return nil, err
		}
		g.h.Store(r.W[0])
		if err := g.attach(torch.DeviceCUDA); err != nil {
			g.Close()
			return nil, err
		}
	default:
		return nil, fmt.Errorf("dist: the backend %q is unknown; gloo and nccl are known", o.Backend)
	}
	return g, nil
}

// Attach lets the collectives of a group of Gloo's take tensors on devices of a type too: on cards through NCCL, which
// wants a card of its own for each process. It is a collective itself: every process names the type that it computes
// on, the CPU's too, and where these differ, or one process lacks something, all get an error. Attaching again does
// nothing.
func (g *Group) Attach(d torch.DeviceType) error {
	own := g.attach(d)
	what := fmt.Sprintf("joining the devices of rank %d of %d", g.rank, g.size)
	state := []int64{int64(d), 1}
	if own != nil {
		state[1] = 0
	}
	all, err := g.AllGather(torch.FromSlice(state))
	if err != nil {
		return errors.Join(own, err)
	}
	if own != nil {
		return own
	}
	for rank, t := range all {
		other := torch.ToSlice[int64](t)
		t.Free()
		if other[0] != int64(d) {
			return fmt.Errorf("dist: %s: it computes on %v, rank %d on %v; all have to use the same kind of device",
				what, kind(d), rank, kind(torch.DeviceType(other[0])))
		}
		if other[1] == 0 {
			return fmt.Errorf("dist: %s: rank %d could not; its error says why", what, rank)
		}
	}
	return nil
}

func kind(d torch.DeviceType) torch.Device { return torch.Device{Type: d, Index: -1} }

// attach is Attach without the others.
func (g *Group) attach(d torch.DeviceType) error {
	what := fmt.Sprintf("joining the devices of rank %d of %d", g.rank, g.size)
	if g.h.Load() == 0 {
		return fmt.Errorf("dist: %s: the group is closed", what)
	}
	if d == torch.DeviceCPU || slices.Contains(g.attached, d) {
		return nil
	}
	c, ok := hook.Collectives[int(d)]
	switch {
	case !ok && d == torch.DeviceCUDA:
		return errors.New("dist: NCCL needs the CUDA library: import package cuda of this module")
	case !ok:
		return fmt.Errorf("dist: %s: there is nothing to join devices of the type %v with", what, kind(d))
	}
	timeout := time.Duration(millis(g.timeout)) * time.Millisecond
	if err := c.Attach(g.h.Load(), g.store.h.Load(), g.rank, g.size, timeout); err != nil {
		return &Error{What: what, Err: fmt.Errorf("%s: %w", c.Name, err)}
	}
	g.attached = append(g.attached, d)
	return nil
}

// interfaceVariable names Gloo's network interface in PyTorch too.
const interfaceVariable = "GLOO_SOCKET_IFNAME"

// Rank is this process's number.
func (g *Group) Rank() int { return g.rank }

// Size is the number of processes.
func (g *Group) Size() int { return g.size }

// SetTimeout changes how long each later operation may take.
func (g *Group) SetTimeout(d time.Duration) error {
	r := abi.GroupTimeout(g.h.Load(), millis(d))
	return failed("setting the timeout", &r)
}

// Close leaves the group and what Init opened. Closing again does nothing. Rank 0 hosts the store: it should close last, after a Barrier.
func (g *Group) Close() error {
	h := g.h.Swap(0)
	if h == 0 {
		return nil
	}
	r := abi.GroupFree(h)
	errs := []error{failed("closing the group", &r)}
	for _, s := range g.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Work is an operation under way. Every one must be waited for.
type Work struct {
	h    atomic.Uint64
	what string
	keep []*torch.Tensor
}

// Wait waits until the operation has ended, at most for the group's timeout, and returns its error. Waiting again returns nil.
func (w *Work) Wait() error {
	h := w.h.Swap(0)
	if h == 0 {
		return nil
	}
	r := abi.Wait(h, 0)
	err := failed(w.what, &r)
	abi.WorkFree(h)
	runtime.KeepAlive(w.keep)
	return err
}

// errRecorded is why a recorded step cannot hold a collective: it is no operator, so replays would leave it out.
var errRecorded = errors.New("collectives are not recorded; run steps of several processes without torch.Record")

// start begins a collective.
func (g *Group) start(what string, kind int, tensors, others []*torch.Tensor, op Op, root int) (*Work, error) {
	if g.h.Load() == 0 {
		return nil, fmt.Errorf("dist: %s: the group is closed", what)
	}
	if torch.Recording() {
		return nil, fmt.Errorf("dist: %s: %w", what, errRecorded)
	}
	what = fmt.Sprintf("%s on rank %d of %d", what, g.rank, g.size)
	if root < 0 || root >= g.size {
		return nil, fmt.Errorf("dist: %s: there is no rank %d", what, root)
	}
	w := &Work{what: what, keep: append(append([]*torch.Tensor(nil), tensors...), others...)}
	var a, b []uint64
	if err := torch.Try(func() { a, b = handles(what, tensors), handles(what, others) }); err != nil {
		return nil, &Error{What: what, Err: err}
	}
	r := abi.Start(g.h.Load(), kind, a, b, int(op), root, 0)
	runtime.KeepAlive(w.keep)
	if err := failed(what, &r); err != nil {
		return nil, err
	}
	w.h.Store(r.W[0])
	return w, nil
}

func handles(op string, ts []*torch.Tensor) []uint64 {
	h := make([]uint64, len(ts))
	for i, t := range ts {
		h[i] = link.Handle(op, t)
	}
	return h
}

func wait(w *Work, err error) error {
	if err != nil {
		return err
	}
	return w.Wait()
}

// AllReduce reduces a tensor over all ranks; every rank has the result in t.
func (g *Group) AllReduce(t *torch.Tensor, op Op) error { return wait(g.StartAllReduce(t, op)) }

// StartAllReduce is AllReduce without waiting; t must not be touched before Wait.
func (g *Group) StartAllReduce(t *torch.Tensor, op Op) (*Work, error) {
	return g.start("all-reduce", abi.AllReduce, []*torch.Tensor{t}, nil, op, 0)
}

// Broadcast copies root's t into every rank's.
func (g *Group) Broadcast(t *torch.Tensor, root int) error { return wait(g.StartBroadcast(t, root)) }

// StartBroadcast is Broadcast without waiting; t must not be touched before Wait.
func (g *Group) StartBroadcast(t *torch.Tensor, root int) (*Work, error) {
	return g.start("broadcast", abi.Broadcast, []*torch.Tensor{t}, nil, Sum, root)
}

// AllGather returns the tensors of all ranks in their order; all must have t's shape and type.
func (g *Group) AllGather(t *torch.Tensor) ([]*torch.Tensor, error) {
	out := make([]*torch.Tensor, g.size)
	err := torch.Try(func() {
		for i := range out {
			out[i] = t.EmptyLike()
		}
	})
	if err != nil {
		return nil, &Error{What: "all-gather", Err: err}
	}
	if err := wait(g.start("all-gather", abi.AllGather, out, []*torch.Tensor{t}, Sum, 0)); err != nil {
		return nil, err
	}
	return out, nil
}

// ReduceScatter reduces parts over all ranks, one for each, into out: rank r has the reduction of everyone's parts[r].
func (g *Group) ReduceScatter(out *torch.Tensor, parts []*torch.Tensor, op Op) error {
	if len(parts) != g.size {
		return fmt.Errorf("dist: reduce-scatter: %d parts for %d ranks", len(parts), g.size)
	}
	return wait(g.start("reduce-scatter", abi.ReduceScatter, []*torch.Tensor{out}, parts, op, 0))
}

// Barrier waits until all ranks have come.
func (g *Group) Barrier() error { return wait(g.start("barrier", abi.Barrier, nil, nil, Sum, 0)) }
