package npy_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/npy"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "labels.npy")

	labels, err := npy.New([]int64{2, 3}, []float64{1, 0, 0, 0, 1, 1})
	if err != nil {
		panic(err)
	}
	if err := npy.Write(path, labels); err != nil {
		panic(err)
	}
	a, err := npy.Read(path)
	if err != nil {
		panic(err)
	}
	values, err := a.Float32()
	fmt.Println(a.Dtype, a.Shape, values, err)
	// Output: <f8 [2 3] [1 0 0 0 1 1] <nil>
}
