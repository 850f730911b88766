package npy

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"unicode/utf8"
)

// Float32 returns the elements in C order. It fails for strings and where a value would change: a float64 that needs
// more than float32's precision or range, a whole number that needs more than 24 bits.
func (a *Array) Float32() ([]float32, error) { return floats[float32](a, "float32", 24) }

// Float64 returns the elements in C order. It fails for strings and for whole numbers that need more than 53 bits.
func (a *Array) Float64() ([]float64, error) { return floats[float64](a, "float64", 53) }

// Int64 returns the elements in C order, booleans as 0 and 1. It fails for strings, fractions and values beyond 63 bits.
func (a *Array) Int64() ([]int64, error) {
	d, err := a.check()
	if err != nil {
		return nil, err
	}
	out := make([]int64, a.Len())
	switch d.kind {
	case 'f':
		for i := range out {
			v := d.float(a.Data, i)
			if v != math.Trunc(v) || v < -1<<63 || v >= 1<<63 { // NaN differs from itself
				return nil, a.lossy(i, v, "int64")
			}
			out[i] = int64(v)
		}
	case 'b', 'i', 'u':
		for i := range out {
			negative, magnitude := d.integer(a.Data, i)
			if magnitude > math.MaxInt64 && !negative {
				return nil, a.lossy(i, magnitude, "int64")
			}
			out[i] = int64(magnitude)
			if negative {
				out[i] = -out[i]
			}
		}
	default:
		return nil, fmt.Errorf("an array of dtype %s has no int64 values", d)
	}
	return out, nil
}

// Strings returns the elements of a U array in C order, without the NULs that fill them up.
func (a *Array) Strings() ([]string, error) {
	d, err := a.check()
	if err != nil {
		return nil, err
	}
	if d.kind != 'U' {
		return nil, fmt.Errorf("an array of dtype %s has no strings", d)
	}
	out := make([]string, a.Len())
	var text []byte
	for i := range out {
		cell := a.Data[i*int(d.size) : (i+1)*int(d.size)]
		for len(cell) > 0 && binary.LittleEndian.Uint32(cell[len(cell)-4:]) == 0 {
			cell = cell[:len(cell)-4]
		}
		text = text[:0]
		for ; len(cell) > 0; cell = cell[4:] {
			c := binary.LittleEndian.Uint32(cell)
			if c > utf8.MaxRune || !utf8.ValidRune(rune(c)) {
				return nil, fmt.Errorf("element %d of shape %v holds %#x, which is no Unicode character", i, a.Shape, c)
			}
			text = utf8.AppendRune(text, rune(c))
		}
		out[i] = string(text)
	}
	return out, nil
}

// floats converts to T, whose mantissa has that many bits.
func floats[T float32 | float64](a *Array, name string, mantissa int) ([]T, error) {
	d, err := a.check()
	if err != nil {
		return nil, err
	}
	out := make([]T, a.Len())
	switch d.kind {
	case 'f':
		for i := range out {
			v := d.float(a.Data, i)
			out[i] = T(v)
			if float64(out[i]) != v && v == v {
				return nil, a.lossy(i, v, name)
			}
		}
	case 'b', 'i', 'u':
		for i := range out {
			negative, magnitude := d.integer(a.Data, i)
			if bits.Len64(magnitude)-bits.TrailingZeros64(magnitude) > mantissa {
				return nil, a.lossy(i, magnitude, name)
			}
			out[i] = T(magnitude)
			if negative {
				out[i] = -out[i]
			}
		}
	default:
		return nil, fmt.Errorf("an array of dtype %s has no %s values", d, name)
	}
	return out, nil
}

func (a *Array) lossy(i int, value any, to string) error {
	return fmt.Errorf("element %d of shape %v, %v in %s, would change as %s", i, a.Shape, value, a.Dtype, to)
}

// float returns element i of a float array; every float16 and float32 is a float64.
func (d dtype) float(data []byte, i int) float64 {
	switch d.size {
	case 2:
		return float16(binary.LittleEndian.Uint16(data[2*i:]))
	case 4:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
}

// float16 converts the bits of an IEEE half.
func float16(h uint16) float64 {
	exponent, fraction := int(h>>10&31), float64(h&1023)
	var v float64
	switch exponent {
	case 0:
		v = math.Ldexp(fraction, -24)
	case 31:
		v = math.Inf(1)
		if fraction != 0 {
			v = math.NaN()
		}
	default:
		v = math.Ldexp(1024+fraction, exponent-25)
	}
	if h>>15 == 1 {
		v = -v
	}
	return v
}

// integer returns element i of an integer or bool array as sign and magnitude.
func (d dtype) integer(data []byte, i int) (negative bool, magnitude uint64) {
	switch b := data[i*int(d.size):]; d.size {
	case 1:
		magnitude = uint64(b[0])
	case 2:
		magnitude = uint64(binary.LittleEndian.Uint16(b))
	case 4:
		magnitude = uint64(binary.LittleEndian.Uint32(b))
	default:
		magnitude = binary.LittleEndian.Uint64(b)
	}
	switch d.kind {
	case 'b':
		if magnitude != 0 { // as numpy, any byte but 0 is True
			magnitude = 1
		}
	case 'i':
		shift := 64 - 8*uint(d.size)
		if v := int64(magnitude<<shift) >> shift; v < 0 {
			return true, -uint64(v)
		}
	}
	return false, magnitude
}
