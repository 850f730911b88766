//go:build cgo

package pixel_test

import (
	"fmt"
	"log"
	"os"

	"github.com/gospml/gospml/data/pixel"
)

// The papers' preprocessing of one photo: squash to 448 × 448, ImageNet statistics, layout [3, H, W].
func ExampleDecoder_Normalized() {
	d, err := pixel.NewDecoder(pixel.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	photo, err := os.ReadFile("photo.jpg")
	if err != nil {
		log.Fatal(err)
	}
	x := make([]float32, 3*448*448)
	if err := d.Normalized(photo, 448, 448, pixel.Bilinear, pixel.ImageNetMean, pixel.ImageNetStd, false, x); err != nil {
		log.Fatal(err)
	}
}

// CLIP's geometry for a photo of 640 × 427.
func ExampleShortSide() {
	g := pixel.ShortSide(640, 427, 224, pixel.Bicubic)
	fmt.Println(g.W, g.H, g.Window)
	// Output: 335 224 (56,0)-(280,224)
}

// Halving a picture of 2 × 2 pixels averages them.
func ExampleResize() {
	p := &pixel.RGB{W: 2, H: 2, Pix: []byte{0, 0, 0, 100, 0, 0, 200, 0, 0, 100, 0, 40}}
	q, err := pixel.Resize(p, 1, 1, pixel.Bilinear)
	fmt.Println(q.Pix, err)
	// Output: [100 0 10] <nil>
}
