package train

import (
	"math"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/torch"
)

// On a device a number that Go reads makes the program wait for all work before it. So the losses of a step, and the
// scores that are counted, are sent to the host behind the step's other work and read one step later, while the device
// has the next one to do. A loss that is no number therefore ends the run one step later too; checkpoints wait for it,
// so none is written after it.

// reading is what a step has sent to the host.
type reading struct {
	step, images int
	losses       []lossOnWay
	scores       []scoresOnWay
	event        *cuda.Event // after which it is all there; nil: values are read where they are
}

type lossOnWay struct {
	value *torch.Tensor
	share float64
	v     *view
}

type scoresOnWay struct {
	places         []int
	logits, pseudo *torch.Tensor // float32 [B, C]; int8 [B, C] or nil
}

// drop frees what was sent, of an attempt that is done again.
func (r *reading) drop() {
	for _, l := range r.losses {
		l.value.Free()
	}
	for _, s := range r.scores {
		s.logits.Free()
		if s.pseudo != nil {
			s.pseudo.Free()
		}
	}
	*r = reading{}
}

// send queues the copy of a tensor of the step in work to the host, and keeps it beyond the step's scope.
func (t *trainer) send(x *torch.Tensor) (*torch.Tensor, error) {
	x = x.Detach()
	if t.device.Type != torch.DeviceCUDA {
		return t.arena.Keep(torch.Call("aten::to.dtype_layout", x, nil, nil, torch.CPU, nil, true, false, nil)[0].(*torch.Tensor)), nil
	}
	to, err := cuda.Pin(torch.Empty(x.Shape(), x.DType()))
	if err == nil {
		err = cuda.CopyAsync(to, x)
	}
	return t.arena.Keep(to), err
}

// sendLoss sends the loss of a part of the step's batch.
func (t *trainer) sendLoss(v *view, value *torch.Tensor, share float64) error {
	x, err := t.send(value)
	t.now.losses = append(t.now.losses, lossOnWay{x, share, v})
	return err
}

// seal ends what the step in work sends, and reads the step before it.
func (t *trainer) seal(images int) error {
	r := t.now
	t.now = reading{}
	r.step, r.images = t.p.Step, images
	if t.device.Type == torch.DeviceCUDA {
		s, err := cuda.CurrentStream(t.device.Index)
		if err != nil {
			return err
		}
		if r.event, err = cuda.NewEvent(false); err != nil {
			return err
		}
		if err := r.event.Record(s); err != nil {
			return err
		}
	}
	err := t.flush()
	t.before = &r
	return err
}

// flush reads the last step that was not read yet.
func (t *trainer) flush() error {
	r := t.before
	if t.before = nil; r == nil {
		return nil
	}
	defer r.drop()
	if r.event != nil {
		defer r.event.Close()
		if err := r.event.Synchronize(); err != nil {
			return err
		}
	}
	x := 0.0
	for _, l := range r.losses {
		y := l.value.Item()
		if math.IsNaN(y) || math.IsInf(y, 0) {
			return t.notFinite(l.v, nil, y, r.step)
		}
		x += y * l.share
	}
	for _, s := range r.scores {
		t.count(s)
	}
	t.p.LossSum += x * float64(r.images)
	t.p.Images += r.images
	return nil
}
