package torch

import (
	"strings"
	"sync"

	"github.com/gospml/gospml/torch/internal/abi"
)

var named sync.Map // full name -> *opRef

func opByName(full string) *opRef {
	if v, ok := named.Load(full); ok {
		return v.(*opRef)
	}
	name, overload, _ := strings.Cut(full, ".")
	op := &opRef{name: name, overload: overload}
	op.get() // an unknown name panics here and is not kept
	v, _ := named.LoadOrStore(full, op)
	return v.(*opRef)
}

// Has says whether the loaded libtorch knows an operator, for instance "aten::add.Tensor".
func Has(full string) bool {
	return Try(func() { opByName(full) }) == nil
}

// Schema returns the schema of an operator as the loaded libtorch prints it.
func Schema(full string) string {
	r := abi.Schema(opByName(full).get())
	check(full, &r)
	return abi.Text(r.W[0])
}

// Overloads lists the overload names of an operator, for instance of "aten::add"; nil where there is no such operator.
func Overloads(name string) []string {
	mustLoad()
	r := abi.Overloads(name)
	check(name, &r)
	text := abi.Text(r.W[0])
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// LoadOps opens a shared library that registers operators with TORCH_LIBRARY; Call then reaches them.
func LoadOps(path string) error {
	if err := Available(); err != nil {
		return err
	}
	if r := abi.LoadOps(path); r.Kind != abi.OK {
		return &Error{Kind: KindLibrary, Op: path, Msg: r.Message()}
	}
	return nil
}

//go:generate go run ./internal/opgen internal/opgen/ops.txt .

// ToDevice moves the tensor to a device, itself where it is there already.
func (t *Tensor) ToDevice(d Device) *Tensor { return t.ToDeviceDType(d, t.DType()) }
