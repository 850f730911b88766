package pth

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch/safetensors"
)

// Dtype is the name of an element type, as torch prints it without "torch.".
type Dtype string

// The dtypes that are read and written.
const (
	Bool           Dtype = "bool"
	Uint8          Dtype = "uint8"
	Int8           Dtype = "int8"
	Uint16         Dtype = "uint16"
	Int16          Dtype = "int16"
	Uint32         Dtype = "uint32"
	Int32          Dtype = "int32"
	Uint64         Dtype = "uint64"
	Int64          Dtype = "int64"
	Float8E4M3FN   Dtype = "float8_e4m3fn"
	Float8E5M2     Dtype = "float8_e5m2"
	Float8E4M3FNUZ Dtype = "float8_e4m3fnuz"
	Float8E5M2FNUZ Dtype = "float8_e5m2fnuz"
	Float8E8M0FNU  Dtype = "float8_e8m0fnu"
	Float16        Dtype = "float16"
	BFloat16       Dtype = "bfloat16"
	Float32        Dtype = "float32"
	Float64        Dtype = "float64"
	Complex32      Dtype = "complex32"
	Complex64      Dtype = "complex64"
	Complex128     Dtype = "complex128"
)

type dtypeInfo struct {
	size    int64             // of an element in bytes
	unit    int               // of what a byte order turns
	storage string            // the legacy storage class, "" for a dtype that came after them
	tensors safetensors.Dtype // "" where that format has none
}

var dtypes = map[Dtype]dtypeInfo{
	Bool:           {1, 1, "BoolStorage", safetensors.BOOL},
	Uint8:          {1, 1, "ByteStorage", safetensors.U8},
	Int8:           {1, 1, "CharStorage", safetensors.I8},
	Int16:          {2, 2, "ShortStorage", safetensors.I16},
	Int32:          {4, 4, "IntStorage", safetensors.I32},
	Int64:          {8, 8, "LongStorage", safetensors.I64},
	Float16:        {2, 2, "HalfStorage", safetensors.F16},
	BFloat16:       {2, 2, "BFloat16Storage", safetensors.BF16},
	Float32:        {4, 4, "FloatStorage", safetensors.F32},
	Float64:        {8, 8, "DoubleStorage", safetensors.F64},
	Complex64:      {8, 4, "ComplexFloatStorage", safetensors.C64},
	Complex128:     {16, 8, "ComplexDoubleStorage", ""},
	Complex32:      {4, 2, "", ""},
	Uint16:         {2, 2, "", safetensors.U16},
	Uint32:         {4, 4, "", safetensors.U32},
	Uint64:         {8, 8, "", safetensors.U64},
	Float8E4M3FN:   {1, 1, "", safetensors.F8_E4M3},
	Float8E5M2:     {1, 1, "", safetensors.F8_E5M2},
	Float8E4M3FNUZ: {1, 1, "", safetensors.F8_E4M3FNUZ},
	Float8E5M2FNUZ: {1, 1, "", safetensors.F8_E5M2FNUZ},
	Float8E8M0FNU:  {1, 1, "", safetensors.F8_E8M0},
}

// aliases are the other names that torch gives its dtypes; a pickle holds the first ones.
var aliases = map[string]Dtype{
	"float": Float32, "double": Float64, "half": Float16, "short": Int16, "int": Int32, "long": Int64,
	"chalf": Complex32, "cfloat": Complex64, "cdouble": Complex128,
}

// storageDtypes maps legacy storage classes to dtypes.
var storageDtypes = func() map[string]Dtype {
	m := map[string]Dtype{}
	for d, info := range dtypes {
		if info.storage != "" {
			m[info.storage] = d
		}
	}
	return m
}()

// ItemSize returns the size of an element in bytes, 0 for an unknown name.
func (d Dtype) ItemSize() int64 { return dtypes[d].size }

// Safetensors returns the name that safetensors files use; ok is false where they have none (complex32, complex128).
func (d Dtype) Safetensors() (name safetensors.Dtype, ok bool) {
	name = dtypes[d].tensors
	return name, name != ""
}

// Size returns the number of bytes of a dense tensor. It fails for an unknown dtype, a negative dimension, more than
// MaxRank dimensions and a product beyond 63 bits.
func (d Dtype) Size(shape []int64) (int64, error) {
	info, ok := dtypes[d]
	if !ok {
		return 0, fmt.Errorf("unknown dtype %q", string(d))
	}
	if len(shape) > MaxRank {
		return 0, fmt.Errorf("%d dimensions, at most %d are read and written", len(shape), MaxRank)
	}
	n := info.size
	empty := false
	for _, s := range shape {
		switch {
		case s < 0:
			return 0, fmt.Errorf("negative dimension in shape %v", shape)
		case s == 0:
			empty = true
		case n > math.MaxInt64/s:
			return 0, fmt.Errorf("the size of shape %v in %s overflows 64 bits", shape, d)
		default:
			n *= s
		}
	}
	if empty {
		return 0, nil
	}
	return n, nil
}
