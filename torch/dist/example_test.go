package dist_test

import (
	"fmt"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/dist"
)

// A process that a launcher starts knows the others by its environment; without a launcher it is alone.
func ExampleInit() {
	env, err := dist.FromEnv()
	if err != nil {
		panic(err)
	}
	group, err := dist.Init(env, dist.Options{})
	if err != nil {
		panic(err)
	}
	defer group.Close()
	x := torch.FromSlice([]float32{1, 2, 3})
	err = group.AllReduce(x, dist.Sum) // of all processes
	fmt.Println(group.Rank(), group.Size(), torch.ToSlice[float32](x), err)
	// Output: 0 1 [1 2 3] <nil>
}
