package safetensors_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/torch/safetensors"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.safetensors")

	weight, err := binary.Append(nil, binary.LittleEndian, []float32{1, 2, 3, 4, 5, 6})
	if err != nil {
		panic(err)
	}
	err = safetensors.Write(path, []safetensors.Tensor{
		{Name: "fc.weight", Dtype: safetensors.F32, Shape: []int64{2, 3}, Data: weight},
		{Name: "fc.steps", Dtype: safetensors.I64, Shape: nil, Data: make([]byte, 8)},
	}, map[string]string{"format": "pt"})
	if err != nil {
		panic(err)
	}

	f, err := safetensors.Open(path)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	for _, name := range f.Names() {
		info, _ := f.Info(name)
		fmt.Println(name, info.Dtype, info.Shape, info.Size)
	}
	data, err := f.Bytes("fc.weight")
	fmt.Println(len(data), err, f.Metadata())
	// Output:
	// fc.steps I64 [] 8
	// fc.weight F32 [2 3] 24
	// 24 <nil> map[format:pt]
}
