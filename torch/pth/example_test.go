package pth_test

import (
	"fmt"
	"log"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch/pth"
)

// A checkpoint with an epoch, an optimizer and a state dict.
func Example() {
	f, err := pth.Open(testroot.Testdata("pth", "checkpoint.pth"))
	if err != nil {
		log.Fatal(err) // names the file and what is refused
	}
	defer f.Close()
	epoch, _ := f.Root().(*pth.Dict).Get("epoch")
	fmt.Println("epoch", epoch)
	entries, err := f.StateDict()
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries[:2] {
		data, err := f.Bytes(e.Tensor)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Name, e.Tensor.Dtype, e.Tensor.Shape, len(data), "bytes")
	}
	// Output:
	// epoch 7
	// 0.weight float32 [4 3] 48 bytes
	// 0.bias float32 [4] 16 bytes
}
