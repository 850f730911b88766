package dist

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/internal/abi"
	"github.com/gospml/gospml/torch/nn"
)

// DDPOptions are those of PyTorch's DistributedDataParallel.
type DDPOptions struct {
	FirstBucketBytes int  // of the first bucket, which is sent while backward still runs; 0 = 1 MiB
	BucketBytes      int  // of the others; 0 = 25 MiB
	FindUnused       bool // some parameters take no part in some steps: look through the graph for them
	KeepBuffers      bool // each rank keeps its own buffers (running statistics); else rank 0's are copied at NewDDP and by SyncBuffers
}

// DDP averages the gradients of a module over the ranks of a group while backward runs (Li et al., PyTorch Distributed, VLDB 2020), with
// libtorch's own reducer. The module must not change its parameters while the DDP is open. It is for one goroutine at a time.
type DDP struct {
	g       *Group
	h       uint64
	params  []*torch.Tensor
	buffers []*torch.Tensor
	buckets int
}

// NewDDP copies rank 0's parameters and buffers to all ranks and watches the module's gradients. The ranks must have the same
// module, which is checked.
func NewDDP(g *Group, module any, o DDPOptions) (*DDP, error) {
	what := fmt.Sprintf("DDP on rank %d of %d", g.rank, g.size)
	d := &DDP{g: g}
	var all []*torch.Tensor
	err := torch.Try(func() {
		nn.Walk(module, func(e nn.Entry) {
			switch {
			case e.Buffer:
				d.buffers = append(d.buffers, e.Tensor)
			case e.Tensor.RequiresGrad():
				d.params = append(d.params, e.Tensor)
			}
			if !e.Buffer || !o.KeepBuffers {
				all = append(all, e.Tensor)
			}
		})
	})
	if err != nil {
		return nil, &Error{What: what, Err: err}
	}
	if len(d.params) == 0 {
		return nil, errors.New("dist: " + what + ": no parameter of the module requires a gradient")
	}
	if o.KeepBuffers {
		d.buffers = nil
	}
	params := handles(what, d.params)
	if err := g.verify(what, params); err != nil {
		return nil, err
	}
	if err := g.sync(all); err != nil {
		return nil, err
	}
	first, bucket := o.FirstBucketBytes, o.BucketBytes
	if first <= 0 {
		first = 1 << 20
	}
	if bucket <= 0 {
		bucket = 25 << 20
	}
	r := abi.Reducer(g.h.Load(), params, int64(first), int64(bucket), o.FindUnused)
	if err := failed(what, &r); err != nil {
		return nil, err
	}
	d.h, d.buckets = r.W[0], int(r.W[1])
	runtime.KeepAlive(d)
	return d, nil
}

// verify compares the parameters with rank 0's. Where one rank's differ, all get an error: those that agree with rank 0 would else wait for the others.
func (g *Group) verify(what string, params []uint64) error {
	r := abi.Verify(g.h.Load(), params)
	own := failed(what, &r)
	var same *torch.Tensor
	if err := torch.Try(func() { same = torch.Full([]int{1}, own == nil, torch.Float32) }); err != nil {
		return err
	}
	defer same.Free()
	if err := g.AllReduce(same, Min); err != nil {
		return errors.Join(own, err)
	}
	if own != nil {
		return own
	}
	if same.Item() != 1 {
		return errors.New("dist: " + what + ": another rank's module has other parameters; its error says which")
	}
	return nil
}

// sync copies rank 0's values.
func (g *Group) sync(ts []*torch.Tensor) error {
	what := fmt.Sprintf("copying rank 0's tensors to rank %d of %d", g.rank, g.size)
	var h []uint64
	if err := torch.Try(func() { h = handles(what, ts) }); err != nil {
		return &Error{What: what, Err: err}
	}
	r := abi.Sync(g.h.Load(), h, 0)
	runtime.KeepAlive(ts)
	return failed(what, &r)
}

// Prepare readies the averaging for the next backward, which must start from outputs (the loss). Call it after the forward; a
// backward without it only accumulates this rank's gradients, which is PyTorch's no_sync.
func (d *DDP) Prepare(outputs ...*torch.Tensor) error {
	if torch.Recording() {
		return fmt.Errorf("dist: %w", errRecorded)
	}
	what := fmt.Sprintf("DDP on rank %d of %d", d.g.rank, d.g.size)
	var h []uint64
	if err := torch.Try(func() { h = handles(what, outputs) }); err != nil {
		return &Error{What: what, Err: err}
	}
	r := abi.Prepare(d.h, h)
	runtime.KeepAlive(outputs)
	return failed(what, &r)
}

// SyncBuffers copies rank 0's buffers (running statistics) to all ranks, which PyTorch does before each forward.
func (d *DDP) SyncBuffers() error {
	if len(d.buffers) == 0 {
		return nil
	}
	return d.g.sync(d.buffers)
}

// Buckets is the number of buckets that the gradients were first put into.
func (d *DDP) Buckets() int { return d.buckets }

// Close stops watching the gradients; close it before the group.
func (d *DDP) Close() error {
	h := d.h
	d.h = 0
	if h == 0 {
		return nil
	}
	r := abi.ReducerFree(h)
	return failed("closing the DDP", &r)
}
