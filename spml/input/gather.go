package input

import (
	"context"
	"iter"
	"slices"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/torch"
)

// Gathered is a batch whose pictures wait in memory that a device copies from by itself.
type Gathered struct {
	Batch  *data.Batch   // without Images
	at     []int         // by image: its place among the pixels; -1: the device has it
	pixels *torch.Tensor // uint8 [n, H, W, 3], page-locked for a card; nil: the device has all
}

// Free frees the pictures; copies under way go on.
func (g *Gathered) Free() {
	if g.pixels != nil {
		g.pixels.Free()
		g.pixels = nil
	}
}

// Ahead walks over batches and gathers each one while the caller works with the one before it. A batch that it gives
// belongs to the caller until the next one, and only BatchOf reads its pictures. On the CPU there is nothing to gather:
// ask Far first.
func (in *Input) Ahead(ctx context.Context, batches func(context.Context) iter.Seq2[*data.Batch, error],
) iter.Seq2[*Gathered, error] {
	return func(yield func(*Gathered, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		type item struct {
			g   *Gathered
			err error
		}
		next := make(chan item)
		go func() {
			defer close(next)
			send := func(i item) bool {
				select {
				case next <- i:
					return i.err == nil
				case <-ctx.Done():
					if i.g != nil {
						i.g.Free()
					}
					return false
				}
			}
			err := caught.Do(func() error {
				for b, err := range batches(ctx) {
					i := item{err: err}
					if err == nil {
						i.g, i.err = in.gather(b)
					}
					if !send(i) {
						return nil
					}
				}
				return nil
			})
			if err != nil {
				send(item{err: err})
			}
		}()
		defer func() { // until the other side has ended
			cancel()
			for i := range next {
				if i.g != nil {
					i.g.Free()
				}
			}
		}()
		for i := range next {
			more := yield(i.g, i.err)
			if i.g != nil {
				i.g.Free()
			}
			if !more || i.err != nil {
				return
			}
		}
		if err := ctx.Err(); err != nil { // the other side gave up first
			yield(nil, context.Cause(ctx))
		}
	}
}

// Far says whether pictures have a way to go to the device.
func (in *Input) Far() bool { return in.device.Type != torch.DeviceCPU }

// gather copies what the device lacks of a batch. It may run beside Batch and BatchOf.
func (in *Input) gather(b *data.Batch) (*Gathered, error) {
	whole := *b
	whole.Rows, whole.Flip, whole.Images = slices.Clone(b.Rows), slices.Clone(b.Flip), nil
	g := &Gathered{Batch: &whole, at: make([]int, len(b.Rows))}
	var images [][]byte
	in.mu.Lock()
	for i, r := range b.Rows {
		g.at[i] = -1
		if _, ok := in.place[r]; !ok {
			g.at[i] = len(images)
			images = append(images, b.Images[i])
		}
	}
	in.mu.Unlock()
	if len(images) == 0 {
		return g, nil
	}
	return g, torch.Try(func() { compute.Outside(func() { g.pixels = in.stack(images) }) })
}

// BatchOf is Batch of what Ahead gave.
func (in *Input) BatchOf(g *Gathered, from, to int, flip bool) (*torch.Tensor, error) {
	return in.batch(g.Batch, from, to, flip, func(missing []int) *torch.Tensor {
		first := g.at[from+missing[0]]
		for k, i := range missing {
			if g.at[from+i] != first+k { // of a batch that has a row twice
				at := make([]int64, len(missing))
				for k, i := range missing {
					at[k] = int64(g.at[from+i])
				}
				return g.pixels.IndexSelect(0, torch.FromSlice(at)).Send(in.device)
			}
		}
		return g.pixels.Narrow(0, first, len(missing)).Send(in.device)
	})
}
