package jit

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/internal/abi"
	"github.com/gospml/gospml/torch/internal/link"
	"github.com/gospml/gospml/torch/nn"
)

// Module is a loaded TorchScript module.
type Module struct {
	h    atomic.Uint64
	path string
}

// Load reads a TorchScript archive; its tensors go to the CPU, or to the device given.
func Load(path string, device ...torch.Device) (*Module, error) {
	d := torch.CPU
	if len(device) > 0 {
		d = device[0]
	}
	if err := torch.Available(); err != nil {
		return nil, err
	}
	if err := abi.LoadJit(); err != nil {
		return nil, err
	}
	if err := isArchive(path); err != nil {
		return nil, err
	}
	m := &Module{path: path}
	r := abi.JitLoad(path, word(d))
	if err := m.failed("loading it", &r); err != nil {
		return nil, err
	}
	m.h.Store(r.W[0])
	return m, nil
}

// isArchive says in a sentence what a file is that libtorch would refuse with pages.
func isArchive(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file (%s)", path, st.Mode())
	}
	z, err := zip.OpenReader(path)
	if err != nil {
		return fmt.Errorf("%s is not a TorchScript archive (%w); torch.jit.save writes one, nn.LoadPTH reads other files of weights", path, err)
	}
	defer z.Close()
	script := false
	for _, f := range z.File {
		_, name, _ := strings.Cut(f.Name, "/")
		script = script || name == "constants.pkl"
	}
	if script {
		return whole(path, st.Size(), z.File)
	}
	return fmt.Errorf("%s holds weights without code (it was written by torch.save): read it with nn.LoadPTH, or write the module with torch.jit.save", path)
}

// expanded is what the compressed entries of an archive, which are code, may take beyond 16 times the file.
const expanded = 256 << 20

// whole reads every entry and compares its checksum, because libtorch's reader of damaged code may go on for minutes.
func whole(path string, size int64, entries []*zip.File) error {
	left := uint64(16*size + expanded)
	for _, f := range entries {
		if f.UncompressedSize64 > left {
			return fmt.Errorf("%s: entry %q expands to %d bytes, more than a TorchScript archive of %d bytes needs", path, f.Name, f.UncompressedSize64, size)
		}
		left -= f.UncompressedSize64
		r, err := f.Open()
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			r.Close()
		}
		if err != nil {
			return fmt.Errorf("%s is damaged: entry %q: %w; copy or download it again", path, f.Name, err)
		}
	}
	return nil
}

func word(d torch.Device) int32 { return int32(d.Type)<<8 | int32(d.Index)&0xff }

// Error says what failed in which module.
type Error struct {
	Path, What string
	Err        error // a *torch.Error with libtorch's words, which hold TorchScript's traceback
}

func (e *Error) Error() string {
	return fmt.Sprintf("jit: %s: %s: %s", e.Path, e.What, strings.TrimPrefix(e.Err.Error(), "torch: "))
}

func (e *Error) Unwrap() error { return e.Err }

func (m *Module) failed(what string, r *abi.Result) error {
	if err := link.Error("", r); err != nil {
		return &Error{m.path, what, err}
	}
	return nil
}

// Close frees the module; calling it afterwards is an error, closing it again is not.
func (m *Module) Close() error {
	h := m.h.Swap(0)
	if h == 0 {
		return nil
	}
	r := abi.JitFree(h)
	return m.failed("closing it", &r)
}

// Methods lists the schemas of the methods, for instance "forward(__torch__.M self, Tensor x) -> Tensor".
func (m *Module) Methods() ([]string, error) {
	r := abi.JitMethods(m.h.Load())
	if err := m.failed("listing its methods", &r); err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(abi.Text(r.W[0]), "\n"), "\n"), nil
}

// Forward is Call of "forward" for modules that return one tensor.
func (m *Module) Forward(args ...any) (*torch.Tensor, error) {
	v, err := m.Call("forward", args...)
	if err != nil {
		return nil, err
	}
	t, ok := v.(*torch.Tensor)
	if !ok {
		return nil, &Error{m.path, "forward", fmt.Errorf("it returns a %T, not a tensor: use Call", v)}
	}
	return t, nil
}

// Call calls a method. Autograd records it as it records anything else; inside a scope the result's tensors belong to
// it.
func (m *Module) Call(method string, args ...any) (result any, err error) {
	what := "calling " + method
	e := encoder{op: "jit " + method}
	for i, a := range args {
		if err := e.value(a, 0); err != nil {
			return nil, &Error{m.path, what, fmt.Errorf("argument %d: %w", i+1, err)}
		}
	}
	r := abi.JitRun(m.h.Load(), method, e.text, e.handles)
	runtime.KeepAlive(args)
	runtime.KeepAlive(e.keep)
	if err := m.failed(what, &r); err != nil {
		return nil, err
	}
	d := decoder{text: abi.Text(r.W[1]), tensors: link.OwnList(&r)}
	v, err := d.value(0)
	if err == nil && d.text != "" {
		err = errors.New("the result goes on after its end")
	}
	if err != nil {
		return nil, &Error{m.path, what, err}
	}
	return v, nil
}

// StateDict returns the module's own parameters and buffers by name, as PyTorch's state_dict does.
func (m *Module) StateDict() (nn.StateDict, error) {
	sd := nn.StateDict{}
	err := m.state(func(name string, t *torch.Tensor, _ bool) { sd[name] = t })
	return sd, err
}

// Parameters returns the module's parameters, for an optimizer.
func (m *Module) Parameters() ([]*torch.Tensor, error) {
	var ps []*torch.Tensor
	err := m.state(func(_ string, t *torch.Tensor, parameter bool) {
		if parameter {
			ps = append(ps, t)
		} else {
			t.Free()
		}
	})
	return ps, err
}

func (m *Module) state(visit func(name string, t *torch.Tensor, parameter bool)) error {
	r := abi.JitState(m.h.Load())
	if err := m.failed("reading its state", &r); err != nil {
		return err
	}
	names := strings.Split(abi.Text(r.W[1]), "\n")
	for i, t := range link.OwnList(&r) {
		if t := t.(*torch.Tensor); t != nil {
			visit(names[i][1:], t, names[i][0] == 'p')
		}
	}
	return nil
}

// Train chooses training mode (dropout, batch statistics), or evaluation mode.
func (m *Module) Train(on bool) error {
	r := abi.JitTrain(m.h.Load(), on)
	return m.failed("choosing its mode", &r)
}

// To moves parameters and buffers to a device.
func (m *Module) To(d torch.Device) error {
	r := abi.JitTo(m.h.Load(), word(d), -1)
	return m.failed("moving it to "+d.String(), &r)
}

// ToDType converts floating point parameters and buffers.
func (m *Module) ToDType(d torch.DType) error {
	r := abi.JitTo(m.h.Load(), -1, int32(d))
	return m.failed("converting it to "+d.String(), &r)
}
