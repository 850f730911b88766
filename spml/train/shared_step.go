package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// sharedStep is a step of all processes on one batch. v is this process's part, which may be empty. Every process
// computes the outputs of its part; the outputs of the whole batch go through the loss in each of them, which gives the
// gradient by all outputs; each then continues the backward pass with its own. The sums of the parts' gradients are
// those of the whole batch.
func (t *trainer) sharedStep(ctx context.Context, v *view, flip []bool) (x float64, images int, err error) {
	v.split = true
	b := &loss.Batch{}
	n := len(v.places)
	var shown *view
	broke := torch.Try(func() {
		torch.Scope(func(*torch.Arena) {
			t.step.Optimizer.ZeroGrad()
			graph := false // b's tensors have their graph
			failed := ctx.Err()
			if t.synced { // the layers talk to each other, so all must be there
				if _, err = t.procs.gather(failed, nil); err != nil {
					return
				}
			}
			if failed == nil && (n > 0 || t.synced) {
				failed = t.outputs(v, b, &graph)
			}
			if failed != nil && t.synced { // the others wait in a layer: they notice that this process ends
				err = lost{failed}
				return
			}
			var whole *loss.Batch
			if shown, whole, err = t.procs.together(failed, v, b, flip, t.device); err != nil || len(shown.places) == 0 {
				return
			}
			if !t.onCPU() { // what a device draws for the whole batch is the same everywhere
				t.seed(0)
			}
			leaves := map[int]*torch.Tensor{}
			for i, f := range fields(shown, whole) {
				if *f != nil {
					leaves[i] = *f
				}
			}
			if shown.pooled != nil {
				t.l.finish(shown, whole)
			}
			var value *torch.Tensor
			if value, x, err = t.value(shown, t.places(shown), whole, 1); err != nil {
				return
			}
			t.step.Backward(value)
			// What the loss says of the parameters themselves (a norm) counts once.
			own := torch.Grads(t.shared)
			for i, g := range own {
				if g != nil {
					own[i] = g.Clone()
				}
			}
			from := t.offset(shown, v)
			gradients := map[int]*torch.Tensor{}
			for i, leaf := range leaves {
				if g := leaf.Grad(); g != nil {
					gradients[i] = g.Narrow(0, from, n)
				}
			}
			failed = nil
			if n > 0 || t.synced {
				if failed = t.backwards(v, b, graph, gradients); failed != nil && t.synced {
					err = lost{failed}
					return
				}
			} else {
				clearGradients(t.shared)
			}
			if t.procs.Rank() == 0 && failed == nil {
				addGradients(t.shared, own)
			}
			if err = t.procs.sumGradients(failed, t.shared); err != nil {
				return
			}
			err = t.update([]part{{shown, whole}})
		})
	})
	if broke != nil {
		err = broke
	}
	if err != nil {
		return 0, 0, err
	}
	return x, len(shown.places), nil
}

// outputs fills b: with a graph where all images fit at once, else without.
func (t *trainer) outputs(v *view, b *loss.Batch, graph *bool) error {
	for {
		t.seedDropout()
		var bad error
		err := torch.Try(func() {
			*b = loss.Batch{}
			v.pooled, v.weak, v.strong, v.masked = nil, nil, nil, nil
			n, micro := len(v.places), t.p.Micro
			if *graph = micro <= 0 || micro >= n || t.latent; *graph {
				bad = t.forward(v, t.places(v), b)
				return
			}
			pieces := make([][]*torch.Tensor, len(fields(v, b)))
			torch.NoGrad(func() {
				for at := 0; at < n && bad == nil; at += micro {
					var one loss.Batch
					p := v.part(at, min(at+micro, n))
					if bad = t.forward(p, t.places(p), &one); bad == nil {
						for i, f := range fields(p, &one) {
							if *f != nil {
								pieces[i] = append(pieces[i], *f)
							}
						}
					}
				}
			})
			for i, f := range fields(v, b) {
				if bad == nil && pieces[i] != nil {
					*f = torch.Cat(pieces[i], 0)
				}
			}
		})
		if err == nil {
			return bad
		}
		if !t.halve(v, err) {
			return err
		}
	}
}

// backwards puts the gradient of this process's part into the parameters: by fields, the gradient of the loss by each
// output.
func (t *trainer) backwards(v *view, b *loss.Batch, graph bool, gradients map[int]*torch.Tensor) error {
	for first := true; ; first = false {
		var bad error
		err := torch.Try(func() {
			clearGradients(t.shared)
			if first && graph {
				through(v, b, gradients, 0, len(v.places))
				return
			}
			t.seedDropout()
			n, micro := len(v.places), t.p.Micro
			if micro <= 0 {
				micro = n
			}
			for at := 0; at < n && bad == nil; at += micro {
				end := min(at+micro, n)
				var one loss.Batch
				p := v.part(at, end)
				if bad = t.forward(p, t.places(p), &one); bad == nil {
					through(p, &one, gradients, at, end)
				}
			}
		})
		if err == nil {
			return bad
		}
		if !t.halve(v, err) {
			return err
		}
	}
}

// through continues the backward pass from the outputs of the images from … to-1.
func through(v *view, b *loss.Batch, gradients map[int]*torch.Tensor, from, to int) {
	var roots, grads []*torch.Tensor
	for i, f := range fields(v, b) {
		if g := gradients[i]; g != nil && *f != nil && (*f).RequiresGrad() {
			roots, grads = append(roots, *f), append(grads, g.Narrow(0, from, to-from))
		}
	}
	if roots != nil {
		torch.Backward(roots, torch.WithGradient(grads...))
	}
}

func clearGradients(params []*torch.Tensor) {
	for _, p := range params {
		p.SetGrad(nil)
	}
}

func addGradients(params, own []*torch.Tensor) {
	torch.NoGrad(func() {
		for i, p := range params {
			switch g := p.Grad(); {
			case own[i] == nil:
			case g == nil:
				p.SetGrad(own[i])
			default:
				g.Add_(own[i])
			}
		}
	})
}

// offset is where this process's images begin in the whole batch, whose parts lie in the order of ranks.
func (t *trainer) offset(whole, v *view) int {
	if len(v.places) == 0 {
		return 0
	}
	for i, p := range whole.places { // an epoch has each place once
		if p == v.places[0] {
			return i
		}
	}
	return 0
}

// copyBuffers gives all processes rank 0's running statistics.
func (p *Processes) copyBuffers(state nn.StateDict, params []*torch.Tensor) error {
	if p == nil {
		return nil
	}
	trained := map[*torch.Tensor]bool{}
	for _, x := range params {
		trained[x] = true
	}
	var keys []string
	for _, k := range state.Keys() {
		if x := state[k]; !trained[x] && x.DType() == torch.Float32 {
			keys = append(keys, k)
		}
	}
	var message []byte
	if p.Rank() == 0 {
		for _, k := range keys {
			message = append(message, state[k].Detach().Bytes()...)
		}
	}
	all, err := p.gather(nil, message)
	if err != nil || p.Rank() == 0 {
		return err
	}
	return torch.Try(func() {
		torch.NoGrad(func() {
			raw := all[0]
			for _, k := range keys {
				x := state[k]
				n := 4 * x.Numel()
				y := torch.FromBytes(raw[:n], torch.Float32, x.Shape()...) // Copy_ brings it to x's device
				x.Copy_(y)
				y.Free()
				raw = raw[n:]
			}
		})
	})
}

// broken puts the broken images of all processes together.
func (p *Processes) broken(mine []data.Broken) ([]data.Broken, error) {
	if p == nil {
		return mine, nil
	}
	type image struct {
		Row          int
		Name, Reason string
	}
	list := make([]image, len(mine))
	for i, b := range mine {
		list[i] = image{b.Row, b.Name, b.Err.Error()}
	}
	message, err := json.Marshal(list)
	all, err := p.gather(err, message)
	if err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	for _, b := range mine {
		seen[b.Row] = true
	}
	for rank, m := range all {
		if err := json.Unmarshal(m, &list); err != nil {
			return nil, fmt.Errorf("train: the list of process %d: %w", rank, err)
		}
		for _, b := range list {
			if !seen[b.Row] {
				seen[b.Row] = true
				mine = append(mine, data.Broken{Row: b.Row, Name: b.Name, Err: errors.New(b.Reason)})
			}
		}
	}
	return mine, nil
}

// syncBatchNorm makes live batch normalisation use the statistics of a batch's parts in all processes.
func (f *fineTune) syncBatchNorm() bool {
	if f.procs == nil {
		return false
	}
	if f.c.Optim.MicroBatch > 0 {
		f.ev.Say("live batch normalisation sees each process's groups of micro_batch images")
		return false
	}
	sum := f.procs.g.Sum
	if f.device != torch.CPU && !f.procs.direct {
		sum = func(x *torch.Tensor) *torch.Tensor { return f.procs.g.Sum(x.ToDevice(torch.CPU)).ToDevice(x.Device()) }
	}
	return nn.SyncBatchNorm(f.Model, sum)
}
