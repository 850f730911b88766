package torch

import "fmt"

// DType is the element type of a tensor, numbered as in libtorch.
type DType int

// Element types.
const (
	Uint8      DType = 0
	Int8       DType = 1
	Int16      DType = 2
	Int32      DType = 3
	Int64      DType = 4
	Float16    DType = 5
	Float32    DType = 6
	Float64    DType = 7
	Complex64  DType = 9
	Complex128 DType = 10
	Bool       DType = 11
	QInt8      DType = 12 // quantised: see QuantizePerTensor in PyTorch, reached by Call
	QUInt8     DType = 13
	BFloat16   DType = 15
	Float8E5M2 DType = 23 // storage only: convert to compute
	Float8E4M3 DType = 24 // PyTorch's float8_e4m3fn
)

var dtypeNames = map[DType]string{
	Uint8: "uint8", Int8: "int8", Int16: "int16", Int32: "int32", Int64: "int64", Float16: "float16",
	Float32: "float32", Float64: "float64", Complex64: "complex64", Bool: "bool", BFloat16: "bfloat16",
	Complex128: "complex128", QInt8: "qint8", QUInt8: "quint8", Float8E5M2: "float8_e5m2", Float8E4M3: "float8_e4m3fn",
}

// String is PyTorch's name without the "torch." prefix.
func (d DType) String() string {
	if s, ok := dtypeNames[d]; ok {
		return s
	}
	return fmt.Sprintf("dtype(%d)", int(d))
}

// Size is the number of bytes of one element.
func (d DType) Size() int {
	switch d {
	case Uint8, Int8, Bool, QInt8, QUInt8, Float8E5M2, Float8E4M3:
		return 1
	case Int16, Float16, BFloat16:
		return 2
	case Int32, Float32:
		return 4
	case Int64, Float64, Complex64:
		return 8
	}
	if d == Complex128 {
		return 16
	}
	panic(&Error{Kind: KindType, Msg: fmt.Sprintf("the size of %v is not known", d)})
}

// IsFloat says whether values are real floating point numbers.
func (d DType) IsFloat() bool {
	return d == Float16 || d == Float32 || d == Float64 || d == BFloat16
}

// Device is where a tensor lives.
type Device struct {
	Type  DeviceType
	Index int // -1 = the current one
}

// DeviceType is numbered as in libtorch.
type DeviceType int

// Device types.
const (
	DeviceCPU  DeviceType = 0
	DeviceCUDA DeviceType = 1
	DeviceMeta DeviceType = 14
	// DevicePrivateUse1 is the device that a library of operators may register with libtorch (LoadOps).
	DevicePrivateUse1 DeviceType = 20
)

// CPU is the processor's memory.
var CPU = Device{DeviceCPU, -1}

// Meta is the device of tensors that have a shape but no data.
var Meta = Device{DeviceMeta, -1}

// CUDA is the graphics card with this index.
func CUDA(index int) Device { return Device{DeviceCUDA, index} }

// String is PyTorch's spelling, for instance "cuda:0".
func (d Device) String() string {
	s := map[DeviceType]string{DeviceCPU: "cpu", DeviceCUDA: "cuda", DeviceMeta: "meta", DevicePrivateUse1: "privateuseone"}[d.Type]
	if s == "" {
		s = fmt.Sprintf("device(%d)", int(d.Type))
	}
	if d.Index >= 0 {
		s += fmt.Sprintf(":%d", d.Index)
	}
	return s
}

func (d Device) word() uint64 { return uint64(d.Type)<<8 | uint64(d.Index)&0xff }

func deviceOf(w int32) Device {
	i := int(w & 0xff)
	if i == 255 {
		i = -1
	}
	return Device{DeviceType(w >> 8), i}
}

// MemoryFormat is the order of a tensor's dimensions in memory, numbered as in libtorch.
type MemoryFormat int

// Memory formats.
const (
	ContiguousFormat MemoryFormat = 0
	PreserveFormat   MemoryFormat = 1
	ChannelsLast     MemoryFormat = 2
)
