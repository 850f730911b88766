package input_test

import (
	"fmt"

	"github.com/gospml/gospml/spml/input"
	"github.com/gospml/gospml/torch"
)

// Two pictures of 2 × 1 become a batch; the second is mirrored.
func ExampleNormalize() {
	pixels := torch.FromSlice([]byte{0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 255, 255}, 2, 1, 2, 3)
	flip := torch.FromSlice([]bool{false, true})
	x, err := input.Normalize(pixels, flip, input.Options{Mean: [3]float32{0.5, 0.5, 0.5}, Std: [3]float32{0.5, 0.5, 0.5}})
	if err != nil {
		panic(err)
	}
	fmt.Println(x.Shape())
	fmt.Println(torch.ToSlice[float32](x.Select(0, 0).Contiguous()))
	fmt.Println(torch.ToSlice[float32](x.Select(0, 1).Contiguous()))
	// Output:
	// [2 3 1 2]
	// [-1 1 -1 1 -1 1]
	// [1 -1 1 -1 1 -1]
}
