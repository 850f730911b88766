package torch

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/gospml/gospml/torch/internal/abi"
)

// Element is a Go type whose values lie in memory as libtorch's do.
type Element interface {
	bool | uint8 | int8 | int16 | int32 | int64 | float32 | float64
}

func dtypeOf[T Element]() DType {
	var z T
	switch any(z).(type) {
	case bool:
		return Bool
	case uint8:
		return Uint8
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case float32:
		return Float32
	default:
		return Float64
	}
}

func rawBytes[T Element](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// FromSlice copies data into a new CPU tensor of this shape, row-major. With no shape it is one-dimensional.
func FromSlice[T Element](data []T, shape ...int) *Tensor {
	if len(shape) == 0 {
		shape = []int{len(data)}
	}
	return FromBytes(rawBytes(data), dtypeOf[T](), shape...)
}

// Upload copies data into a new tensor on a device and does not wait for what the device has to do before (see Send).
// The slice may be changed at once.
func Upload[T Element](d Device, data []T, shape ...int) *Tensor {
	return FromSlice(data, shape...).Send(d)
}

// Send gives a CPU tensor's copy on a device without waiting for what the device has to do before: on CUDA by way of
// page-locked memory, which libtorch keeps until the copy is over, so t may be changed and freed at once. For the CPU
// it is t itself.
func (t *Tensor) Send(d Device) *Tensor {
	if d.Type == DeviceCPU {
		return t
	}
	if d.Type == DeviceCUDA && !Call("aten::is_pinned", t, nil)[0].(bool) {
		t = Call("aten::pin_memory", t, nil)[0].(*Tensor)
	}
	return Call("aten::to.dtype_layout", t, nil, nil, d, nil, true, false, nil)[0].(*Tensor)
}

// Scalar makes a zero-dimensional tensor.
func Scalar[T Element](v T) *Tensor {
	return FromBytes(rawBytes([]T{v}), dtypeOf[T](), []int{}...)
}

// FromBytes copies raw elements (little endian, row-major) into a new CPU tensor. No shape means a zero-dimensional
// one.
func FromBytes(data []byte, dtype DType, shape ...int) *Tensor {
	n := dtype.Size()
	for _, s := range shape {
		if s < 0 {
			panic(&Error{Kind: KindValue, Op: "from_slice", Shapes: [][]int{shape}, Msg: "a size is negative"})
		}
		if s > 0 && n > (1<<62)/s {
			panic(&Error{Kind: KindValue, Op: "from_slice", Shapes: [][]int{shape}, Msg: "the shape has too many elements"})
		}
		n *= s
	}
	if n != len(data) {
		panic(&Error{Kind: KindValue, Op: "from_slice", Shapes: [][]int{shape}, Msg: fmt.Sprintf("the data has %d elements of %v, the shape wants %d", len(data)/dtype.Size(), dtype, n/dtype.Size())})
	}
	t := Empty(shape, dtype)
	copy(t.memory("from_slice"), data)
	runtime.KeepAlive(t)
	return t
}

// memory shows the bytes of a contiguous CPU tensor; they are valid while t is.
func (t *Tensor) memory(op string) []byte {
	refuseRecording(op)
	d := t.describe(op)
	return t.bytes(op, &d)
}

func refuseRecording(op string) {
	if Recording() {
		notRecorded(op, "Go code sees or writes the elements, which replays would not repeat; make tensors from Go data before the step or pass them as inputs, and read results after it")
	}
}

// bytes is memory of a tensor that d describes.
func (t *Tensor) bytes(op string, d *abi.Desc) []byte {
	if dev := deviceOf(d.Device); dev.Type != DeviceCPU {
		panic(&Error{Kind: KindRuntime, Op: op, Msg: fmt.Sprintf("the tensor is on %v; move it with ToDevice(CPU) first", dev)})
	}
	if d.Flags&abi.FlagContiguous == 0 {
		panic(&Error{Kind: KindRuntime, Op: op, Shapes: [][]int{t.Shape()}, Msg: "the tensor is not contiguous; call Contiguous first"})
	}
	n := d.Numel * d.Itemsize
	if n > 0 && (d.Data == 0 || d.StorageBytes < n) {
		panic(&Error{Kind: KindRuntime, Op: op, Shapes: [][]int{t.Shape()}, Msg: "the tensor has no storage of its size"})
	}
	return abi.Memory(d.Data, int(n))
}

// copyOut copies elements to Go. A bool byte of libtorch may be any number but 0 for true, Go's are 0 and 1.
func copyOut[T Element](dst []T, src []byte) {
	if b, ok := any(dst).([]bool); ok {
		for i := range b {
			b[i] = src[i] != 0
		}
		return
	}
	copy(rawBytes(dst), src)
}

// ViewBytes shows the elements' bytes, row-major, little endian, to f: without copying where the tensor is contiguous
// and on the CPU. The slice is valid only inside f.
func (t *Tensor) ViewBytes(f func(b []byte)) {
	c := t.hosted()
	defer c.freeIfNot(t)
	f(c.memory("bytes"))
	runtime.KeepAlive(c)
}

// Bytes copies the elements, row-major, little endian.
func (t *Tensor) Bytes() []byte {
	c := t.hosted()
	out := append([]byte(nil), c.memory("bytes")...)
	runtime.KeepAlive(c)
	c.freeIfNot(t)
	return out
}

// ToSlice copies the elements row-major into a new slice; the tensor is converted to T first where it has another type.
func ToSlice[T Element](t *Tensor) []T {
	c := t
	if want := dtypeOf[T](); t.DType() != want {
		c = t.ToDType(want)
	}
	h := c.hosted()
	out := make([]T, h.Numel())
	copyOut(out, h.memory("to_slice"))
	runtime.KeepAlive(h)
	h.freeIfNot(c)
	c.freeIfNot(t)
	return out
}

// CopyTo copies the elements row-major into dst, which must have their number and type.
func CopyTo[T Element](dst []T, t *Tensor) {
	if want := dtypeOf[T](); t.DType() != want || t.Numel() != len(dst) {
		panic(&Error{Kind: KindValue, Op: "copy_to", Shapes: [][]int{t.Shape()}, Msg: fmt.Sprintf("%d elements of %v do not fit %d of %v", t.Numel(), t.DType(), len(dst), want)})
	}
	h := t.hosted()
	copyOut(dst, h.memory("copy_to"))
	runtime.KeepAlive(h)
	h.freeIfNot(t)
}

// CopyFrom overwrites a contiguous CPU tensor with data, which must have its number of elements and type. Autograd does
// not see it.
func CopyFrom[T Element](t *Tensor, data []T) {
	if want := dtypeOf[T](); t.DType() != want || t.Numel() != len(data) {
		panic(&Error{Kind: KindValue, Op: "copy_from", Shapes: [][]int{t.Shape()}, Msg: fmt.Sprintf("%d elements of %v do not fill %d of %v", len(data), want, t.Numel(), t.DType())})
	}
	copy(t.memory("copy_from"), rawBytes(data))
	runtime.KeepAlive(t)
}

// View shows the elements of a contiguous CPU tensor to f without copying. The slice is valid only inside f.
func View[T Element](t *Tensor, f func(data []T)) {
	d := t.describe("view")
	if want := dtypeOf[T](); DType(d.DType) != want {
		panic(&Error{Kind: KindType, Op: "view", Msg: fmt.Sprintf("the tensor holds %v, not %v", DType(d.DType), want)})
	}
	refuseRecording("view")
	m := t.bytes("view", &d)
	if len(m) == 0 {
		f(nil)
	} else {
		f(unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(m))), int(d.Numel)))
	}
	runtime.KeepAlive(t)
}

// hosted returns a contiguous CPU tensor with the same values: t itself where it is one.
func (t *Tensor) hosted() *Tensor {
	d := t.describe("to_slice")
	stored := d.Data != 0 || d.Numel == 0
	if deviceOf(d.Device).Type == DeviceCPU && d.Flags&abi.FlagContiguous != 0 && stored {
		return t
	}
	u := t.Detach()
	v := u.ToDevice(CPU)
	c := v.Contiguous()
	if !stored { // autograd's symbolic zeros, which a copy spells out
		w := c
		c = w.Clone()
		w.Free()
	}
	v.Free()
	u.Free()
	return c
}

// freeIfNot frees a temporary unless it is the value it came from. Another handle of the same libtorch tensor owns a
// reference of its own and is freed too.
func (t *Tensor) freeIfNot(origin *Tensor) {
	if t != origin {
		t.Free()
	}
}

// Item is the value of a tensor with one element.
func (t *Tensor) Item() float64 {
	a := args{op: &opItem}
	a.tensor(t)
	v := a.floatResult()
	runtime.KeepAlive(t)
	return v
}

// ItemInt is the value of an integer tensor with one element.
func (t *Tensor) ItemInt() int {
	a := args{op: &opItem}
	a.tensor(t)
	a.results(1)
	runtime.KeepAlive(t)
	if a.f.Tag[0] == abi.Double {
		panic(&Error{Kind: KindType, Op: "item", Msg: "the tensor holds floating point numbers; use Item"})
	}
	return int(a.f.W[0])
}

var opItem = opRef{name: "aten::item"}
