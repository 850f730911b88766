package random_test

import (
	"fmt"

	"github.com/gospml/gospml/data/random"
)

// The draws are those of numpy.random.RandomState(0).
func ExampleRandomState() {
	g := random.New(0)
	fmt.Println(g.RandomSample())
	fmt.Println(random.New(0).Permutation(5))
	// Output:
	// 0.5488135039273248
	// [2 0 1 3 4]
}
