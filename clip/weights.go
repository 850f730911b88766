package clip

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/pth"
	"github.com/gospml/gospml/torch/safetensors"
)

// stored is a tensor of a file that has not been read.
type stored struct {
	dtype torch.DType
	shape []int
	bytes int64
	read  func(dst []byte) error
	path  string // of the file that holds the bytes as they are, from offset on; empty where it does not
	from  int64
}

// weights are the tensors of one or several files.
type weights struct {
	container string // "safetensors", "a PyTorch zip archive", …
	paths     []string
	tensors   map[string]stored
	metadata  map[string]string
	closers   []io.Closer
	script    bool                     // a TorchScript archive
	maps      map[string]*torch.Tensor // files in memory, by path; nil: they are read
	held      []*held                  // the same files
}

func (w *weights) Close() {
	for _, t := range w.maps {
		t.Free() // views keep the mapping
	}
	for _, c := range w.closers {
		c.Close()
	}
}

// ErrFormat is in the chain of errors about files that are no CLIP, or not a whole one.
var ErrFormat = errors.New("clip: not a CLIP checkpoint")

func formatError(path, format string, a ...any) error {
	return fmt.Errorf("%w: %s: %w", ErrFormat, path, fmt.Errorf(format, a...))
}

// container tells a file's format from its first bytes: "safetensors", "pth", "json", or "" for anything else.
func container(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var head [16]byte
	n, err := io.ReadFull(f, head[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", err
	}
	b := head[:n]
	switch {
	case n > 8 && b[8] == '{' && binary.LittleEndian.Uint64(b) < 1<<40: // before pickles: the length of a header may begin as one does
		return "safetensors", nil
	case strings.HasPrefix(string(b), "PK\x03\x04"), n > 1 && b[0] == 0x80 && b[1] <= 5:
		return "pth", nil
	case n > 0 && (b[0] == '{' || strings.HasPrefix(strings.TrimSpace(string(b)), "{")):
		return "json", nil
	}
	return "", nil
}

func openWeights(path string) (*weights, error) {
	kind, err := container(path)
	if err != nil {
		return nil, err
	}
	w := &weights{tensors: map[string]stored{}}
	switch kind {
	case "safetensors":
		err = w.addSafetensors(path)
	case "pth":
		err = w.addPTH(path)
	default:
		return nil, formatError(path, "its content is neither safetensors nor a file of torch.save or torch.jit.save")
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

var dtypeNames = map[string]torch.DType{
	"BOOL": torch.Bool, "U8": torch.Uint8, "I8": torch.Int8, "I16": torch.Int16, "I32": torch.Int32, "I64": torch.Int64,
	"F16": torch.Float16, "BF16": torch.BFloat16, "F32": torch.Float32, "F64": torch.Float64,
}

func (w *weights) add(path, name, dtype string, shape []int64, size int64, read func([]byte) error) error {
	if _, twice := w.tensors[name]; twice {
		return formatError(path, "the tensor %s is in two files", name)
	}
	d, ok := dtypeNames[dtype]
	if !ok {
		return formatError(path, "the tensor %s is of type %s, which is not read", name, dtype)
	}
	t := stored{dtype: d, bytes: size, read: read}
	for _, n := range shape {
		t.shape = append(t.shape, int(n))
	}
	w.tensors[name] = t
	return nil
}

func (w *weights) addSafetensors(path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	w.closers = append(w.closers, f)
	return w.addFile(path, f)
}

func (w *weights) addFile(path string, f *safetensors.File) error {
	w.container, w.paths = "safetensors", append(w.paths, path)
	w.metadata = f.Metadata()
	for _, name := range f.Names() {
		info, _ := f.Info(name)
		if err := w.add(path, name, string(info.Dtype), info.Shape, info.Size, func(dst []byte) error { return f.ReadInto(name, dst) }); err != nil {
			return err
		}
		t := w.tensors[name]
		t.path, t.from = path, info.Offset
		w.tensors[name] = t
	}
	return nil
}

func (w *weights) addPTH(path string) error {
	f, err := pth.Open(path)
	if err != nil {
		return err
	}
	switch f.Format() {
	case pth.TorchScript:
		w.container, w.script = "a TorchScript archive", true
	case pth.Legacy:
		w.container = "a PyTorch file of the form before 1.6"
	default:
		w.container = "a PyTorch zip file"
	}
	w.paths, w.closers = append(w.paths, path), append(w.closers, f)
	entries, err := f.StateDict()
	if err != nil {
		return err
	}
	for _, e := range entries {
		dtype, _ := e.Tensor.Dtype.Safetensors()
		if err := w.add(path, e.Name, string(dtype), e.Tensor.Shape, e.Tensor.Size(), func(dst []byte) error { return f.ReadInto(e.Tensor, dst) }); err != nil {
			return err
		}
	}
	return nil
}

// openIndex opens the files of a sharded checkpoint (Hugging Face's *.index.json).
func openIndex(path string) (*weights, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(b, &index); err != nil {
		return nil, formatError(path, "%w", err)
	}
	var files []string
	for _, f := range index.WeightMap {
		if !slices.Contains(files, f) {
			files = append(files, f)
		}
	}
	slices.Sort(files)
	w := &weights{tensors: map[string]stored{}}
	for _, f := range files {
		if f != filepath.Base(f) || f == "." || f == ".." {
			w.Close()
			return nil, formatError(path, "the shard %q is not a file beside it", f)
		}
		p := filepath.Join(filepath.Dir(path), f)
		kind, err := container(p)
		switch {
		case err != nil:
		case kind == "safetensors":
			err = w.addSafetensors(p)
		case kind == "pth":
			err = w.addPTH(p)
		default:
			err = formatError(p, "its content is neither safetensors nor a file of torch.save")
		}
		if err != nil {
			w.Close()
			return nil, err
		}
	}
	for name, f := range index.WeightMap {
		if _, ok := w.tensors[name]; !ok {
			w.Close()
			return nil, formatError(path, "the tensor %s is not in %s", name, f)
		}
	}
	w.container = fmt.Sprintf("%d shards of %s", len(files), w.container)
	return w, nil
}

// mapped gives a tensor as it lies in its file, without reading it: pages come with their first use, and none of them
// is copied. nil where that cannot be done.
func (w *weights) mapped(s stored, dtype torch.DType) *torch.Tensor {
	if w.maps == nil || s.path == "" || s.dtype != dtype || s.bytes == 0 || s.from%int64(dtype.Size()) != 0 {
		return nil
	}
	file := w.maps[s.path]
	if file == nil {
		h := hold(s.path)
		if h == nil {
			return nil
		}
		// Private: what is written to the tensor stays in memory.
		if torch.Try(func() {
			file = torch.Call("aten::from_file", s.path, false, int(h.at.Size()), torch.Uint8, nil, nil, nil)[0].(*torch.Tensor)
		}) != nil {
			h.f.Close()
			return nil
		}
		w.maps[s.path], w.held = file, append(w.held, h)
	}
	var out *torch.Tensor
	if torch.Try(func() {
		raw := file.Slice(0, int(s.from), int(s.from+s.bytes), 1)
		typed := torch.Call("aten::view.dtype", raw, dtype)[0].(*torch.Tensor)
		out = typed.View(s.shape...)
		free(raw, typed)
	}) != nil {
		return nil
	}
	return out
}

// load reads one of our tensors as dtype.
func (w *weights) load(p part, names map[string]string, dtype torch.DType) (out *torch.Tensor, err error) {
	if len(p.from) == 1 && !p.transpose {
		if t := w.mapped(w.tensors[names[p.from[0]]], dtype); t != nil {
			return t, nil
		}
	}
	var parts []*torch.Tensor
	defer func() {
		for _, t := range parts {
			if t != out {
				t.Free()
			}
		}
	}()
	for _, n := range p.from {
		s := w.tensors[names[n]]
		var t *torch.Tensor
		if e := torch.Try(func() {
			raw := torch.Empty(torch.S(int(s.bytes)), torch.Uint8)
			torch.View(raw, func(b []uint8) { err = s.read(b) })
			if err == nil {
				typed := torch.Call("aten::view.dtype", raw, s.dtype)[0].(*torch.Tensor)
				t = typed.View(s.shape...)
				typed.Free()
			}
			raw.Free()
		}); e != nil {
			err = e
		}
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", n, err)
		}
		parts = append(parts, t)
	}
	err = torch.Try(func() {
		out = parts[0]
		if len(parts) > 1 {
			out = torch.Cat(parts, 0)
			parts = append(parts, out)
		}
		if p.transpose {
			out = out.T()
			parts = append(parts, out)
			out = out.Contiguous()
			parts = append(parts, out)
		}
		if out.DType() != dtype {
			out = out.ToDType(dtype)
			parts = append(parts, out)
		}
	})
	return out, err
}
