//go:build cgo

package augment_test

import (
	"bytes"
	"fmt"

	"github.com/gospml/gospml/data/augment"
	"github.com/gospml/gospml/data/pixel"
)

// Draws depend on seed, epoch, row and view alone: whoever makes the view, in whatever order, gets the same picture.
func ExamplePipeline() {
	view := augment.Pipeline{
		augment.RandomFlip(),
		augment.RandomResizedCrop{W: 32, H: 32, Scale: [2]float64{0.5, 1}, Filter: pixel.Bilinear},
		augment.RandAugment{},
	}
	apply := func(epoch, row int) *pixel.RGB {
		p := &pixel.RGB{W: 64, H: 48, Pix: make([]byte, 3*64*48)}
		for i := range p.Pix {
			p.Pix[i] = byte(i * i / 97)
		}
		p, err := view.Apply(p, augment.Draw(1, epoch, row, 1))
		if err != nil {
			panic(err)
		}
		return p
	}
	a, again, other := apply(1, 7), apply(1, 7), apply(2, 7)
	fmt.Println(a.W, a.H, bytes.Equal(a.Pix, again.Pix), bytes.Equal(a.Pix, other.Pix))
	// Output: 32 32 true false
}
