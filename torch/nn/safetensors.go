package nn

import (
	"fmt"
	"io"
	"strings"
	"unsafe"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/safetensors"
)

var safetensorsTypes = map[torch.DType]safetensors.Dtype{
	torch.Bool: safetensors.BOOL, torch.Uint8: safetensors.U8, torch.Int8: safetensors.I8, torch.Int16: safetensors.I16,
	torch.Int32: safetensors.I32, torch.Int64: safetensors.I64, torch.Float16: safetensors.F16, torch.BFloat16: safetensors.BF16,
	torch.Float32: safetensors.F32, torch.Float64: safetensors.F64,
}

func torchType(d safetensors.Dtype) (torch.DType, bool) {
	for t, s := range safetensorsTypes {
		if s == d {
			return t, true
		}
	}
	return 0, false
}

// SaveSafetensors writes a state dict to a file that appears as a whole or not at all. Python's libraries read it;
// metadata may be nil.
func SaveSafetensors(path string, sd StateDict, metadata map[string]string) error {
	ts, err := describe(path, sd)
	if err != nil {
		return err
	}
	return safetensors.Write(path, ts, metadata)
}

// SaveSafetensorsSum is SaveSafetensors that gives the file's SHA-256 too, computed beside the writing.
func SaveSafetensorsSum(path string, sd StateDict, metadata map[string]string) (sum string, err error) {
	ts, err := describe(path, sd)
	if err != nil {
		return "", err
	}
	return safetensors.WriteSum(path, ts, metadata)
}

func describe(path string, sd StateDict) ([]safetensors.Tensor, error) {
	var ts []safetensors.Tensor
	for _, k := range sd.Keys() {
		t := sd[k]
		var info safetensors.Tensor
		if err := torch.Try(func() {
			d, ok := safetensorsTypes[t.DType()]
			if !ok {
				panic(&torch.Error{Kind: torch.KindType, Op: "save", Msg: fmt.Sprintf("safetensors files do not hold %v", t.DType())})
			}
			info = safetensors.Tensor{Name: k, Dtype: d}
			for _, n := range t.Shape() {
				info.Shape = append(info.Shape, int64(n))
			}
		}); err != nil {
			return nil, fmt.Errorf("%s: tensor %q: %w", path, k, err)
		}
		info.Stream = func(w io.Writer) (err error) {
			if e := torch.Try(func() { t.ViewBytes(func(b []byte) { _, err = w.Write(b) }) }); e != nil {
				return e
			}
			return err
		}
		ts = append(ts, info)
	}
	return ts, nil
}

// tensorFile is a safetensors file or several with an index.
type tensorFile interface {
	Names() []string
	Info(name string) (safetensors.Info, bool)
	ReadInto(name string, dst []byte) error
	Metadata() map[string]string
	Close() error
}

func openTensors(path string) (tensorFile, error) {
	if strings.HasSuffix(path, safetensors.IndexSuffix) {
		return safetensors.OpenSharded(path)
	}
	return safetensors.Open(path)
}

// LoadSafetensors reads a whole file into CPU tensors; a path that ends in ".safetensors.index.json" is the index of a model in
// several files. Inside a scope the tensors belong to it.
func LoadSafetensors(path string) (sd StateDict, metadata map[string]string, err error) {
	f, err := openTensors(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	sd = StateDict{}
	for _, name := range f.Names() {
		t, err := readTensor(f, name)
		if err != nil {
			sd.Free()
			return nil, nil, fmt.Errorf("%s: tensor %q: %w", path, name, err)
		}
		sd[name] = t
	}
	return sd, f.Metadata(), nil
}

func readTensor(f tensorFile, name string) (t *torch.Tensor, err error) {
	info, _ := f.Info(name)
	d, ok := torchType(info.Dtype)
	if !ok {
		return nil, fmt.Errorf("the type %s is not supported", info.Dtype)
	}
	shape := make([]int, len(info.Shape))
	for i, n := range info.Shape {
		shape[i] = int(n)
	}
	if e := torch.Try(func() { t, err = fill(f, name, d, shape) }); e != nil {
		return nil, e
	}
	return t, err
}

// fill reads straight into the memory of a new tensor.
func fill(f tensorFile, name string, d torch.DType, shape []int) (*torch.Tensor, error) {
	switch d {
	case torch.Uint8:
		return fillAs[uint8](f, name, d, shape)
	case torch.Int8:
		return fillAs[int8](f, name, d, shape)
	case torch.Int16:
		return fillAs[int16](f, name, d, shape)
	case torch.Int32:
		return fillAs[int32](f, name, d, shape)
	case torch.Int64:
		return fillAs[int64](f, name, d, shape)
	case torch.Float32:
		return fillAs[float32](f, name, d, shape)
	case torch.Float64:
		return fillAs[float64](f, name, d, shape)
	case torch.Bool: // any byte but 0 and 1 would be no bool
		raw, err := fillAs[uint8](f, name, torch.Uint8, shape)
		if err != nil {
			return nil, err
		}
		defer raw.Free()
		return raw.ToDType(torch.Bool), nil
	default: // float16, bfloat16: Go has no such type
		raw, err := fillAs[int16](f, name, torch.Int16, shape)
		if err != nil {
			return nil, err
		}
		defer raw.Free()
		return torch.Call("aten::view.dtype", raw, d)[0].(*torch.Tensor), nil
	}
}

func fillAs[T torch.Element](f tensorFile, name string, d torch.DType, shape []int) (t *torch.Tensor, err error) {
	t = torch.Empty(shape, d)
	torch.View(t, func(data []T) {
		var z T
		err = f.ReadInto(name, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(z))))
	})
	if err != nil {
		t.Free()
		return nil, err
	}
	return t, nil
}
