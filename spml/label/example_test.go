package label_test

import (
	"fmt"

	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/torch"
)

// One picture and five classes: the softmax of the cosines at τ = 0.03, positive above θ = 0.3.
func ExampleVLPL() {
	cosines := torch.FromSlice([]float32{0.30, 0.25, 0.24, 0.10, 0.20}, 1, 5)
	pseudo, similarity, err := label.VLPL(cosines, 0.03, 0.3, 0)
	if err != nil {
		panic(err)
	}
	fmt.Println(torch.ToSlice[float32](pseudo.ToDType(torch.Float32)))
	fmt.Printf("%.3f\n", torch.ToSlice[float32](similarity.ToDType(torch.Float32)))
	// Output:
	// [1 0 0 0 0]
	// [0.735 0.139 0.099 0.001 0.026]
}
