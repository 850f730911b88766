package pth

import (
	"fmt"
	"io"
	"math"
	"slices"
)

// MaxRank is the largest number of dimensions, as in safetensors.
const MaxRank = 64

// Storage is a run of elements in the file that one or several tensors view.
type Storage struct {
	Key    string
	Dtype  Dtype  // "" for an untyped storage, whose elements are bytes
	Numel  int64  // elements
	Device string // where it lay when it was saved
	offset int64  // of its first byte in the file
	root   *Storage
	start  int64 // of a view in the root's elements
}

func (s *Storage) itemSize() int64 {
	if s.Dtype == "" {
		return 1
	}
	return s.Dtype.ItemSize()
}

// Size returns the number of bytes.
func (s *Storage) Size() int64 { return s.Numel * s.itemSize() }

// at returns the offset of the first byte in the file.
func (s *Storage) at() int64 {
	if s.root != nil {
		return s.root.offset + s.start*s.itemSize()
	}
	return s.offset
}

// Tensor describes a tensor of a file: a strided view of a storage, checked to lie within it.
type Tensor struct {
	Dtype        Dtype
	Shape        []int64
	Stride       []int64 // in elements; never negative
	Offset       int64   // of the first element in the storage, in elements
	Storage      *Storage
	Parameter    bool // an nn.Parameter
	RequiresGrad bool
}

// Numel returns the number of elements.
func (t *Tensor) Numel() int64 {
	n := int64(1)
	for _, s := range t.Shape {
		n *= s
	}
	return n
}

// Size returns the number of bytes of its elements.
func (t *Tensor) Size() int64 { return t.Numel() * t.Dtype.ItemSize() }

// Contiguous reports whether the elements lie one after the other in row-major order.
func (t *Tensor) Contiguous() bool {
	want := int64(1)
	for i := len(t.Shape) - 1; i >= 0; i-- {
		if t.Shape[i] == 0 {
			return true
		}
		if t.Shape[i] != 1 {
			if t.Stride[i] != want {
				return false
			}
			want *= t.Shape[i]
		}
	}
	return true
}

// check verifies that the view is within its storage.
func (t *Tensor) check() error {
	if len(t.Shape) != len(t.Stride) {
		return fmt.Errorf("a tensor has %d dimensions and %d strides", len(t.Shape), len(t.Stride))
	}
	size, err := t.Dtype.Size(t.Shape)
	if err != nil {
		return fmt.Errorf("a tensor: %v", err)
	}
	if t.Offset < 0 {
		return fmt.Errorf("a tensor begins at element %d of its storage", t.Offset)
	}
	last := t.Offset // the last element that is viewed
	for i, n := range t.Shape {
		if t.Stride[i] < 0 {
			return fmt.Errorf("a tensor has the negative stride %d", t.Stride[i])
		}
		if n > 1 {
			if t.Stride[i] > (math.MaxInt64-last)/(n-1) {
				return fmt.Errorf("the end of a tensor of shape %v and strides %v overflows 64 bits", t.Shape, t.Stride)
			}
			last += (n - 1) * t.Stride[i]
		}
	}
	item, have := t.Dtype.ItemSize(), t.Storage.Size()
	if size > 0 && last > have/item-1 || size == 0 && t.Offset > have/item {
		return fmt.Errorf("a tensor of shape %v, strides %v and offset %d in %s reaches beyond its storage %q of %d bytes",
			t.Shape, t.Stride, t.Offset, t.Dtype, cut(t.Storage.Key), have)
	}
	return nil
}

// ReadInto fills dst, whose length must be t.Size(), with the tensor's elements in row-major order, little-endian.
func (f *File) ReadInto(t *Tensor, dst []byte) error {
	if int64(len(dst)) != t.Size() {
		return fmt.Errorf("a tensor of %s has %d bytes, the destination %d", f, t.Size(), len(dst))
	}
	if len(dst) == 0 {
		return nil
	}
	item := t.Dtype.ItemSize()
	at := t.Storage.at() + t.Offset*item
	if t.Contiguous() {
		if err := f.readAt(dst, at); err != nil {
			return err
		}
		f.turn(dst, t.Dtype)
		return nil
	}
	return f.gather(t, dst, at, item)
}

// gather reads a strided tensor: the span that it views in pieces, each element put where it belongs.
func (f *File) gather(t *Tensor, dst []byte, at, item int64) error {
	shape, stride := t.Shape, t.Stride
	run := int64(1) // elements that are one after the other in the file and in dst
	k := len(shape)
	for k > 0 && (shape[k-1] == 1 || stride[k-1] == run) {
		run *= shape[k-1]
		k--
	}
	shape, stride = shape[:k], stride[:k]
	w := &window{f: f, buf: make([]byte, min(64<<10, t.Storage.Size())), end: t.Storage.at() + t.Storage.Size()}
	index := make([]int64, k)
	pos := at
	for out := int64(0); out < int64(len(dst)); out += run * item {
		if err := w.read(dst[out:out+run*item], pos); err != nil {
			return err
		}
		for i := k - 1; i >= 0; i-- {
			index[i]++
			pos += stride[i] * item
			if index[i] < shape[i] {
				break
			}
			pos -= stride[i] * item * shape[i]
			index[i] = 0
		}
	}
	f.turn(dst, t.Dtype)
	return nil
}

// window buffers reads that go back and forth.
type window struct {
	f     *File
	buf   []byte
	begin int64
	n     int64
	end   int64
}

func (w *window) read(dst []byte, at int64) error {
	if int64(len(dst)) >= int64(len(w.buf)) {
		return w.f.readAt(dst, at)
	}
	if at < w.begin || at+int64(len(dst)) > w.begin+w.n {
		w.begin = max(at-int64(len(w.buf))/8, 0)
		w.n = min(int64(len(w.buf)), w.end-w.begin)
		if at+int64(len(dst)) > w.begin+w.n {
			w.begin, w.n = at, min(int64(len(w.buf)), w.end-at)
		}
		if err := w.f.readAt(w.buf[:w.n], w.begin); err != nil {
			w.n = 0
			return err
		}
	}
	copy(dst, w.buf[at-w.begin:])
	return nil
}

// turn makes big-endian elements little-endian.
func (f *File) turn(b []byte, d Dtype) {
	unit := dtypes[d].unit
	if !f.bigEndian || unit < 2 {
		return
	}
	for i := 0; i+unit <= len(b); i += unit {
		slices.Reverse(b[i : i+unit])
	}
}

// Bytes returns the tensor's elements in a new slice; see ReadInto. A tensor that a stride of 0 expands beyond the file's
// size and 1 MB is refused: read its Storage.
func (f *File) Bytes(t *Tensor) ([]byte, error) {
	n := t.Size()
	if n > f.size+slack {
		return nil, f.invalid("a tensor of shape %v expands %d bytes to %d", t.Shape, t.Storage.Size(), n)
	}
	dst := make([]byte, n)
	if err := f.ReadInto(t, dst); err != nil {
		return nil, err
	}
	return dst, nil
}

// ReadStorage fills dst, whose length must be s.Size(), with a storage's elements, which are of dtype d (an untyped storage
// does not know its own), little-endian.
func (f *File) ReadStorage(s *Storage, d Dtype, dst []byte) error {
	if int64(len(dst)) != s.Size() {
		return fmt.Errorf("storage %q of %s has %d bytes, the destination %d", cut(s.Key), f, s.Size(), len(dst))
	}
	if err := f.readAt(dst, s.at()); err != nil {
		return err
	}
	f.turn(dst, d)
	return nil
}

func (f *File) readAt(p []byte, off int64) error {
	n, err := f.r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		return f.invalid("it ended at byte %d while it was read: was it cut short meanwhile?", off+int64(n))
	}
	if f.path == "" {
		return err
	}
	return fmt.Errorf("reading %s: %w", f.path, err)
}
