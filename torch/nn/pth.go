package nn

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/pth"
	"github.com/gospml/gospml/torch/safetensors"
)

var pthTypes = map[torch.DType]pth.Dtype{
	torch.Bool: pth.Bool, torch.Uint8: pth.Uint8, torch.Int8: pth.Int8, torch.Int16: pth.Int16, torch.Int32: pth.Int32,
	torch.Int64: pth.Int64, torch.Float16: pth.Float16, torch.BFloat16: pth.BFloat16, torch.Float32: pth.Float32, torch.Float64: pth.Float64,
}

func fromPTH(d pth.Dtype) (torch.DType, bool) {
	for t, s := range pthTypes {
		if s == d {
			return t, true
		}
	}
	return 0, false
}

// SavePTH writes a state dict to a .pth file that torch.load reads, as a whole or not at all. Keys are written in sorted order;
// tensors that share memory are written each on its own.
func SavePTH(path string, sd StateDict) error {
	var ts []pth.NamedTensor
	for _, k := range sd.Keys() {
		t := sd[k]
		named := pth.NamedTensor{Name: k}
		if err := torch.Try(func() {
			d, ok := pthTypes[t.DType()]
			if !ok {
				panic(&torch.Error{Kind: torch.KindType, Op: "save", Msg: fmt.Sprintf(".pth files of %v are not written", t.DType())})
			}
			named.Dtype = d
			for _, n := range t.Shape() {
				named.Shape = append(named.Shape, int64(n))
			}
		}); err != nil {
			return fmt.Errorf("%s: tensor %q: %w", path, k, err)
		}
		named.Stream = func(w io.Writer) (err error) {
			if e := torch.Try(func() { _, err = w.Write(t.Bytes()) }); e != nil {
				return e
			}
			return err
		}
		ts = append(ts, named)
	}
	return pth.Write(path, ts)
}

// LoadPTH reads the state dict of a .pth, .pt or .bin file into CPU tensors, without running what the file may carry; see
// package pth for what is read and pth.File.StateDict for where the state dict is looked for and what the keys are. As in PyTorch, tensors
// that share a storage in the file share memory. Inside a scope they belong to it.
func LoadPTH(path string, keys ...string) (StateDict, error) {
	f, err := pth.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.StateDict(keys...)
	if err != nil {
		return nil, err
	}
	l := &pthLoader{f: f, memory: map[memoryKey]*torch.Tensor{}}
	defer l.free()
	sd := StateDict{}
	for _, e := range entries {
		t, err := l.tensor(e.Tensor)
		if err != nil {
			sd.Free()
			return nil, fmt.Errorf("%s: tensor %q: %w", path, e.Name, err)
		}
		sd[e.Name] = t
	}
	return sd, nil
}

// pthLoader reads each storage once, when the first tensor views it.
type pthLoader struct {
	f      *pth.File
	memory map[memoryKey]*torch.Tensor // one dimension, all elements
}

// memoryKey tells storages apart; an untyped one is a memory of its own for each dtype that views it.
type memoryKey struct {
	s *pth.Storage
	d pth.Dtype
}

func (l *pthLoader) free() {
	for _, t := range l.memory {
		t.Free()
	}
}

func (l *pthLoader) tensor(t *pth.Tensor) (view *torch.Tensor, err error) {
	key := memoryKey{t.Storage, t.Dtype}
	memory := l.memory[key]
	if memory == nil {
		if memory, err = l.read(key); err != nil {
			return nil, err
		}
		l.memory[key] = memory
	}
	ints := func(ns []int64) []int {
		out := make([]int, len(ns))
		for i, n := range ns {
			out[i] = int(n)
		}
		return out
	}
	err = torch.Try(func() {
		view = torch.Call("aten::as_strided", memory, ints(t.Shape), ints(t.Stride), int(t.Offset))[0].(*torch.Tensor)
	})
	return view, err
}

// read reads a storage straight into the memory of a new tensor.
func (l *pthLoader) read(key memoryKey) (t *torch.Tensor, err error) {
	d, ok := fromPTH(key.d)
	if !ok {
		return nil, fmt.Errorf("the type %s is not supported", key.d)
	}
	bytes := key.s.Size()
	if bytes%key.d.ItemSize() != 0 { // of an untyped storage
		return nil, fmt.Errorf("its storage of %d bytes is no whole number of %s", bytes, key.d)
	}
	e := torch.Try(func() {
		raw := torch.Empty([]int{int(bytes)}, torch.Uint8)
		torch.View(raw, func(data []uint8) {
			err = l.f.ReadStorage(key.s, key.d, data)
		})
		switch {
		case err != nil:
			raw.Free()
		case d == torch.Uint8:
			t = raw
		case d == torch.Bool: // any byte but 0 and 1 would be no bool
			t = raw.ToDType(torch.Bool)
			raw.Free()
		default:
			t = torch.Call("aten::view.dtype", raw, d)[0].(*torch.Tensor)
			raw.Free()
		}
	})
	if e != nil {
		return nil, e
	}
	return t, err
}

// LoadFile reads the state dict of a file of weights, whatever its kind: safetensors, the index of a model in several safetensors
// files, or PyTorch's .pth, .pt and .bin. The kind is told by the content, not by the name.
func LoadFile(path string) (StateDict, error) {
	if !strings.HasSuffix(path, safetensors.IndexSuffix) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		var head [9]byte // a safetensors header begins behind its length; a zip archive with PK, a pickle with 0x80
		n, err := io.ReadFull(f, head[:])
		f.Close()
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		if n < len(head) || head[8] != '{' {
			return LoadPTH(path)
		}
	}
	sd, _, err := LoadSafetensors(path)
	return sd, err
}
