package pixel

import (
	"errors"
	"fmt"
)

// RGB is a picture: W × H pixels, Pix[(y*W+x)*3+c] is channel c (red, green, blue) of column x in row y. It owns Pix.
type RGB struct {
	W, H int
	Pix  []byte
}

// newRGB returns a black picture.
func newRGB(w, h int) *RGB { return &RGB{W: w, H: h, Pix: make([]byte, w*h*3)} }

func (p *RGB) check() error {
	if p == nil {
		return errors.New("pixel: no picture")
	}
	if p.W < 1 || p.H < 1 || len(p.Pix)/3/p.W != p.H || len(p.Pix)%(3*p.W) != 0 {
		return fmt.Errorf("pixel: a picture of %d×%d has %d bytes", p.W, p.H, len(p.Pix))
	}
	return nil
}
