package overlay_test

import (
	"fmt"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/overlay"
)

// A map of 2 × 2 is drawn over a photo, warm where it is high.
func ExampleDraw() {
	photo := &pixel.RGB{W: 40, H: 20, Pix: make([]byte, 3*40*20)}
	m, err := overlay.Draw(photo, []float32{0, 0, 0, 1}, 2, 2)
	if err != nil {
		panic(err)
	}
	cold, hot := m.RGBAAt(0, 0), m.RGBAAt(39, 19)
	fmt.Println(m.Bounds().Size(), hot.R > cold.R)
	// Output: (40,20) true
}
