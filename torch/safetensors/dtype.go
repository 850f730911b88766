package safetensors

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Dtype is the name of an element type as it stands in the file.
type Dtype string

// The dtypes of the format.
const (
	BOOL        Dtype = "BOOL"    // one byte, 0 or 1
	F4          Dtype = "F4"      // two elements a byte (OCP MX)
	F6_E2M3     Dtype = "F6_E2M3" // four elements in three bytes (OCP MX)
	F6_E3M2     Dtype = "F6_E3M2"
	U8          Dtype = "U8"
	I8          Dtype = "I8"
	F8_E5M2     Dtype = "F8_E5M2"
	F8_E4M3     Dtype = "F8_E4M3" // PyTorch's float8_e4m3fn
	F8_E8M0     Dtype = "F8_E8M0" // power-of-two scales (OCP MX)
	F8_E4M3FNUZ Dtype = "F8_E4M3FNUZ"
	F8_E5M2FNUZ Dtype = "F8_E5M2FNUZ"
	I16         Dtype = "I16"
	U16         Dtype = "U16"
	F16         Dtype = "F16"
	BF16        Dtype = "BF16"
	I32         Dtype = "I32"
	U32         Dtype = "U32"
	F32         Dtype = "F32"
	C64         Dtype = "C64" // two F32: real, imaginary
	F64         Dtype = "F64"
	I64         Dtype = "I64"
	U64         Dtype = "U64"
)

// dtypes in increasing order of alignment: the writer puts the last of them first, as the reference implementation does.
var dtypes = [...]struct {
	name Dtype
	bits int64
}{
	{BOOL, 8}, {F4, 4}, {F6_E2M3, 6}, {F6_E3M2, 6}, {U8, 8}, {I8, 8}, {F8_E5M2, 8}, {F8_E4M3, 8}, {F8_E8M0, 8},
	{F8_E4M3FNUZ, 8}, {F8_E5M2FNUZ, 8}, {I16, 16}, {U16, 16}, {F16, 16}, {BF16, 16}, {I32, 32}, {U32, 32}, {F32, 32},
	{C64, 64}, {F64, 64}, {I64, 64}, {U64, 64},
}

// rank is the position in dtypes, -1 for an unknown name.
func (d Dtype) rank() int {
	for i := range dtypes {
		if dtypes[i].name == d {
			return i
		}
	}
	return -1
}

// Bits returns the size of an element in bits (4 and 6 occur), 0 for an unknown name.
func (d Dtype) Bits() int {
	if i := d.rank(); i >= 0 {
		return int(dtypes[i].bits)
	}
	return 0
}

// Size returns the number of bytes that a tensor of this dtype and shape takes. It fails for an unknown dtype, a negative
// dimension, more than MaxRank dimensions, a product beyond 63 bits, and a 4- or 6-bit dtype that does not fill whole bytes.
func (d Dtype) Size(shape []int64) (int64, error) {
	i := d.rank()
	if i < 0 {
		return 0, fmt.Errorf("unknown dtype %q (known: %s)", string(d), known())
	}
	return size(i, shape)
}

// size clones the shape for its errors, so that the caller's stays on the stack.
func size(dtype int, shape []int64) (int64, error) {
	if len(shape) > MaxRank {
		return 0, fmt.Errorf("%d dimensions, at most %d are read and written", len(shape), MaxRank)
	}
	n := dtypes[dtype].bits
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("negative dimension in shape %v", slices.Clone(shape))
		}
		if d > 0 && n > math.MaxInt64/d {
			return 0, fmt.Errorf("the size of shape %v in %s overflows 64 bits", slices.Clone(shape), dtypes[dtype].name)
		}
		n *= d
	}
	if n%8 != 0 {
		return 0, fmt.Errorf("shape %v in %s does not fill whole bytes", slices.Clone(shape), dtypes[dtype].name)
	}
	return n / 8, nil
}

func known() string {
	names := make([]string, len(dtypes))
	for i, d := range dtypes {
		names[i] = string(d.name)
	}
	return strings.Join(names, " ")
}
