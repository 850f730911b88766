package jit_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/jit"
	"github.com/gospml/gospml/torch/nn"
)

// A network becomes a TorchScript file, which Python and C++ open too.
func ExampleTrace() {
	net := nn.Sequential{nn.NewLinear(3, 8), nn.ReLU{}, nn.NewLinear(8, 2)}
	nn.SetTraining(net, false)
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "net.pt")
	traced, err := jit.Trace(net, torch.Randn(torch.S(1, 3)), net.Forward)
	if err == nil {
		err = traced.Save(file, nil)
	}
	if err != nil {
		panic(err)
	}
	m, err := jit.Load(file)
	if err != nil {
		panic(err)
	}
	defer m.Close()
	x := torch.Randn(torch.S(5, 3)) // another batch
	y, err := m.Forward(x)
	fmt.Println(y.Shape(), y.Equal(net.Forward(x)), err)
	// Output: [5 2] true <nil>
}
