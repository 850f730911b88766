package compute

import (
	"errors"
	"sync"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/torch"
)

// OnWay are tensors on their way from a device to the host.
type OnWay struct {
	Tensors []*torch.Tensor // on the CPU; to be read behind Wait
	event   *cuda.Event     // after which they are there; nil: they are
}

// ToHost queues copies of tensors to the host behind all work so far, and waits for nothing. The copies belong to no
// scope; the tensors may be freed at once.
func ToHost(ts ...*torch.Tensor) (o *OnWay, err error) {
	o = &OnWay{}
	d := ts[0].Device()
	pinned := d.Type == torch.DeviceCUDA
	err = torch.Try(func() {
		Outside(func() {
			for _, t := range ts {
				to := torch.Call("aten::empty.memory_format", t.Shape(), t.DType(), nil, torch.CPU, pinned, nil)[0].(*torch.Tensor)
				o.Tensors = append(o.Tensors, to)
			}
		})
		torch.NoGrad(func() {
			for i, t := range ts {
				torch.Call("aten::copy_", o.Tensors[i], t.Detach(), true)
			}
		})
	})
	if err != nil || !pinned {
		return o, err
	}
	s, err := cuda.CurrentStream(d.Index)
	if err != nil {
		return o, err
	}
	if o.event, err = cuda.NewEvent(false); err == nil {
		err = o.event.Record(s)
	}
	return o, err
}

// Wait returns when the copies are there.
func (o *OnWay) Wait() error {
	if o.event == nil {
		return nil
	}
	err := o.event.Synchronize()
	return errors.Join(err, o.event.Close())
}

// Free frees the copies.
func (o *OnWay) Free() {
	for _, t := range o.Tensors {
		t.Free()
	}
}

// Arrivals are results of steps on their way from a device to the host, with what they are of. A step takes in those of
// the steps before it when all its own work is queued, so that the device never waits for the program. The zero value
// is ready.
type Arrivals[T any] struct {
	list []arrival[T]
	old  int   // of them from earlier steps
	err  error // that nobody has got yet
}

type arrival[T any] struct {
	of  T
	way *OnWay
}

// Mark begins a step: what is on the way now is of earlier ones.
func (a *Arrivals[T]) Mark() { a.old = len(a.list) }

// Send sends tensors.
func (a *Arrivals[T]) Send(of T, ts ...*torch.Tensor) error {
	way, err := ToHost(ts...)
	if err != nil {
		way.Free()
		return err
	}
	a.list = append(a.list, arrival[T]{of, way})
	return nil
}

// Any says whether something is on the way for which f holds.
func (a *Arrivals[T]) Any(f func(of T) bool) bool {
	for _, x := range a.list {
		if f(x.of) {
			return true
		}
	}
	return false
}

// Settle waits for what earlier steps have sent, or for all, and hands it to take, in order.
func (a *Arrivals[T]) Settle(all bool, take func(of T, ts []*torch.Tensor) error) error {
	n := a.old
	if all {
		n = len(a.list)
	}
	now, err := a.list[:n], a.err
	a.list, a.old, a.err = a.list[n:], 0, nil
	for _, x := range now {
		e := x.way.Wait()
		if e == nil {
			e = take(x.of, x.way.Tensors)
		}
		x.way.Free()
		err = errors.Join(err, e)
	}
	return err
}

// Hold keeps an error until Settle, for a caller that cannot give it.
func (a *Arrivals[T]) Hold(err error) { a.err = errors.Join(a.err, err) }

// Outside runs f where the caller's scopes and modes do not reach, so that the tensors it makes live until they are
// freed.
func Outside(f func()) {
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { err = torch.Try(f) })
	wg.Wait()
	if err != nil {
		panic(err)
	}
}
