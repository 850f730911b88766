package data

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/caught"
)

// Photo is what [CheckPhotos] finds out about a row's photo.
type Photo struct {
	Row           int
	Name          string
	Format        pixel.Format
	Width, Height int
	Bytes         int
	Sum           [32]byte // SHA-256 of the file
	Err           error    // why it cannot be read; nil: it can
}

// CheckOptions are the choices of [CheckPhotos].
type CheckOptions struct {
	Jobs       int // goroutines; 0: GOMAXPROCS
	HeaderOnly bool
	Decode     pixel.Options
}

// CheckPhotos reads every photo of d whole, decodes it, and calls f with each, in the order of rows, on one goroutine.
// An error of f ends it.
func CheckPhotos(ctx context.Context, d *Dataset, o CheckOptions, f func(Photo) error) error {
	raw, ok := d.Source.(RawSource)
	if !ok {
		return errNoFiles
	}
	if o.Jobs > 1<<14 {
		return fmt.Errorf("data: %d goroutines: want at most %d", o.Jobs, 1<<14)
	}
	if o.Jobs < 1 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	window := 4 * o.Jobs // photos that may be ahead of f
	slots := make([]chan Photo, window)
	for i := range slots {
		slots[i] = make(chan Photo, 1)
	}
	free := make(chan struct{}, window)
	for range window {
		free <- struct{}{}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range o.Jobs {
		wg.Go(func() {
			var buf []byte
			for {
				select {
				case <-free:
				case <-ctx.Done():
					return
				}
				row := int(next.Add(1)) - 1
				if row >= d.N() {
					return
				}
				var p Photo
				if err := caught.Do(func() error { p, buf = checkPhoto(raw, row, o, buf); return nil }); err != nil { // of the source
					p.Err = err
				}
				p.Name = d.Images[row]
				if cap(buf) > keepBytes {
					buf = nil
				}
				slots[row%window] <- p
			}
		})
	}
	for row := range d.N() {
		select {
		case p := <-slots[row%window]:
			if isShortage(p.Err) {
				return p.Err
			}
			if err := f(p); err != nil {
				return err
			}
			free <- struct{}{}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func checkPhoto(raw RawSource, row int, o CheckOptions, buf []byte) (Photo, []byte) {
	p := Photo{Row: row}
	b, err := raw.ReadFile(row, buf)
	if err != nil {
		p.Err = err
		return p, b
	}
	p.Bytes, p.Sum = len(b), sha256.Sum256(b)
	info, err := pixel.Header(b, o.Decode)
	p.Format = info.Format
	p.Width, p.Height = info.Shown(b, o.Decode)
	if err == nil && !o.HeaderOnly {
		_, err = safeDecode(b, o.Decode)
	}
	p.Err = err
	return p, b
}

func safeDecode(b []byte, o pixel.Options) (p *pixel.RGB, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("the decoder failed")
		}
	}()
	return pixel.Decode(b, o)
}
