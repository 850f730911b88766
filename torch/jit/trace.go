package jit

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/internal/abi"
	"github.com/gospml/gospml/torch/internal/link"
	"github.com/gospml/gospml/torch/nn"
)

// Trace records what forward calls on an example and gives a module that does the same to other inputs, with the parameters and buffers of layers (a struct
// of layers as nn.StateDictOf takes it, in the mode that it has) under their names, as torch.jit.trace does.
//
// As there, the path that the example takes is what is recorded: a condition on values, and a size that Go code has read (x.Size(0)), are constants in the
// module. Try it on another shape. Close the module after use; it shares its tensors with layers.
func Trace(layers any, example *torch.Tensor, forward func(x *torch.Tensor) *torch.Tensor) (*Module, error) {
	const op = "jit.Trace"
	if err := torch.Available(); err != nil {
		return nil, err
	}
	if err := abi.LoadJit(); err != nil {
		return nil, err
	}
	m := &Module{path: "a trace"}
	var names []byte
	e := encoder{op: op}
	sd, parameters := nn.StateDictOf(layers), nn.Parameters(layers)
	for _, key := range sd.Keys() {
		kind := 'b'
		if slices.Contains(parameters, sd[key]) {
			kind = 'p'
		}
		names = fmt.Appendf(names, "%c%s\n", kind, key)
		if err := e.value(sd[key], 0); err != nil {
			return nil, err
		}
	}
	var result abi.Result
	// The example gets a handle of its own, so that a caller's other uses of it are not taken for the input.
	err := torch.Try(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		torch.NoGrad(func() {
			torch.Scope(func(*torch.Arena) {
				x := example.Detach()
				r := abi.JitTraceBegin(names, e.handles, link.Handle(op, x))
				if err := link.Error(op, &r); err != nil {
					panic(err)
				}
				trace, output := r.W[0], uint64(0)
				defer func() { result = abi.JitTraceEnd(trace, output) }()
				y := forward(x)
				output = link.Handle(op, y)
				defer runtime.KeepAlive(y)
			})
		})
	})
	runtime.KeepAlive(e.keep)
	if err != nil {
		return nil, &Error{m.path, "recording it", err}
	}
	if err := m.failed("making a module of it", &result); err != nil {
		return nil, err
	}
	m.h.Store(result.W[0])
	return m, nil
}

// Save writes the module as an archive that Load, torch.jit.load and C++'s torch::jit::load read, in place of path as a whole. files are written into the archive
// beside the code; torch.jit.load gives them through _extra_files.
func (m *Module) Save(path string, files map[string]string) error {
	e := encoder{op: "jit.Save"}
	d := Dict{}
	for name, text := range files {
		d = append(d, Item{name, text})
	}
	if err := e.value(d, 0); err != nil {
		return err
	}
	r := abi.JitSave(m.h.Load(), e.text)
	if err := m.failed("writing it", &r); err != nil {
		return err
	}
	list := link.OwnList(&r)
	bytes, ok := list[0].(*torch.Tensor)
	if !ok {
		return &Error{m.path, "writing it", errors.New("libtorch gave no bytes")}
	}
	defer bytes.Free()
	var err error
	torch.View(bytes, func(b []uint8) { err = atomicfile.WriteBytes(path, fs.FileMode(0o644), b) })
	return err
}
