package label

import (
	"image"

	"github.com/gospml/gospml/data/random"
)

// Tiles are DAMP's g×g boxes of a w×h photo, row by row: tile (x, y) is [x·tw - ow, (x+1)·tw + ow) × [y·th - oh, (y+1)·th + oh), clipped to the photo, with
// tw = w div g, th = h div g, and overlaps ow = int(tw·a), oh = int(th·b), where overlap gives a and b of each tile; nil: none, as in the released
// code. What the division leaves over at the right and at the bottom is in no tile.
//
// Source: Tran et al. 2025 (AEVLP), supplement and released code.
func Tiles(w, h, g int, overlap func(tile int) (a, b float64)) []image.Rectangle {
	tw, th := w/g, h/g
	boxes := make([]image.Rectangle, 0, g*g)
	for y := range g {
		for x := range g {
			var a, b float64
			if overlap != nil {
				a, b = overlap(len(boxes))
			}
			ow, oh := int(float64(tw)*a), int(float64(th)*b)
			boxes = append(boxes, image.Rect(x*tw-ow, y*th-oh, (x+1)*tw+ow, (y+1)*th+oh).Intersect(image.Rect(0, 0, w, h)))
		}
	}
	return boxes
}

// RandomOverlap draws a and b of each tile from U(0, most); the paper has most = 0.2. The same seed gives the same tiles.
func RandomOverlap(seed uint32, most float64) func(int) (a, b float64) {
	r := random.New(seed)
	return func(int) (float64, float64) { return r.Uniform(0, most), r.Uniform(0, most) }
}
