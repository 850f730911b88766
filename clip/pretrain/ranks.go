package pretrain

import (
	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/dist"
	"github.com/gospml/gospml/torch/nn"
)

// ranks is this process's place among those that train together.
type ranks struct {
	group      *dist.Group // nil: alone
	rank, size int
}

// gather joins the embeddings of all processes, [size·B, E], in their order. Gradients flow to this process's own rows only: every process computes the loss of the whole batch, so that
// the sum over processes is the whole gradient, without communication in the backward pass.
func (r ranks) gather(x *torch.Tensor) (*torch.Tensor, error) {
	if r.group == nil {
		return x, nil
	}
	parts, err := r.group.AllGather(x.Detach().Contiguous())
	if err != nil {
		return nil, err
	}
	parts[r.rank] = x
	return torch.Cat(parts, 0), nil
}

// sum adds the gradients of all processes in one message. The temperature's is complete in each of them already.
func (r ranks) sum(m *clip.CLIP) error {
	if r.group == nil {
		return nil
	}
	var grads, flat []*torch.Tensor
	for _, p := range nn.NamedParameters(m) {
		if p != m.LogitScale && p != m.LogitBias && p.Grad() != nil {
			grads = append(grads, p.Grad())
			flat = append(flat, p.Grad().Flatten(0, -1))
		}
	}
	all := torch.Cat(flat, 0)
	if err := r.group.AllReduce(all, dist.Sum); err != nil {
		return err
	}
	at := 0
	for _, g := range grads {
		n := g.Numel()
		g.Copy_(all.Slice(0, at, at+n, 1).View(g.Shape()...))
		at += n
	}
	return nil
}

// share gives every process the first one's parameters and buffers.
func (r ranks) share(m *clip.CLIP) (err error) {
	if r.group == nil {
		return nil
	}
	sd := nn.StateDictOf(m)
	for _, k := range sd.Keys() {
		torch.NoGrad(func() {
			t := sd[k].Detach()
			if e := r.group.Broadcast(t, 0); e != nil && err == nil {
				err = e
			}
		})
	}
	return err
}
