package command

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
)

// testPhoto encodes a 500×375 picture with fine detail, about as heavy as a photo of its size.
func testPhoto() ([]byte, error) {
	m := image.NewRGBA(image.Rect(0, 0, 500, 375))
	seed := uint32(1)
	for y := range 375 {
		for x := range 500 {
			seed = seed*1664525 + 1013904223
			n := uint8(seed >> 27)
			m.SetRGBA(x, y, color.RGBA{uint8(x/2) + n, uint8(y/2) + n, uint8((x+y)/4) + n, 255})
		}
	}
	var b bytes.Buffer
	err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 90})
	return b.Bytes(), err
}
