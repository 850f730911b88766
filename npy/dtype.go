package npy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MaxRank is the largest number of dimensions, numpy's own limit.
const MaxRank = 64

// dtype is a parsed descr such as "<f4": byte order, kind, size.
type dtype struct {
	kind byte  // b i u f U, as in numpy
	size int64 // bytes of an element
	big  bool  // big-endian
}

const supported = "|b1 |i1 |u1 <i2 <i4 <i8 <u2 <u4 <u8 <f2 <f4 <f8 <U{k} and their big-endian forms"

func parseDtype(descr string) (dtype, error) {
	unsupported := fmt.Errorf("dtype %s is not supported (supported: %s)", strconv.Quote(descr), supported)
	if strings.HasPrefix(strings.TrimLeft(descr, "<>|="), "O") {
		return dtype{}, fmt.Errorf("object arrays (dtype %s) hold pickled Python code and are refused: save it with a fixed dtype", strconv.Quote(descr))
	}
	if len(descr) < 3 || !strings.ContainsRune("<>|=", rune(descr[0])) {
		return dtype{}, unsupported
	}
	digits := descr[2:]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != digits || n < 0 {
		return dtype{}, unsupported
	}
	d := dtype{kind: descr[1], size: n, big: descr[0] == '>'}
	switch {
	case d.kind == 'U' && 1 <= n && n <= math.MaxInt32:
		d.size *= 4 // UCS-4
	case d.kind == 'b' && n == 1,
		(d.kind == 'i' || d.kind == 'u') && (n == 1 || n == 2 || n == 4 || n == 8),
		d.kind == 'f' && (n == 2 || n == 4 || n == 8):
	default:
		return dtype{}, unsupported
	}
	if d.size == 1 {
		d.big = false
	} else if descr[0] == '|' {
		return dtype{}, unsupported // no byte order given
	}
	return d, nil
}

// String returns the name under which an Array holds this dtype: little-endian.
func (d dtype) String() string {
	switch {
	case d.kind == 'U':
		return fmt.Sprintf("<U%d", d.size/4)
	case d.size == 1:
		return fmt.Sprintf("|%c1", d.kind)
	}
	return fmt.Sprintf("<%c%d", d.kind, d.size)
}

// unit is the number of bytes that a change of byte order reverses.
func (d dtype) unit() int {
	if d.kind == 'U' {
		return 4
	}
	return int(d.size)
}

// count returns the number of elements and of bytes of a shape.
func (d dtype) count(shape []int64) (elements, bytes int64, err error) {
	if len(shape) > MaxRank {
		return 0, 0, fmt.Errorf("%d dimensions, at most %d are allowed", len(shape), MaxRank)
	}
	elements = 1
	for _, n := range shape {
		if n < 0 {
			return 0, 0, fmt.Errorf("negative dimension in shape %v", shape)
		}
		if n > 0 && elements > math.MaxInt64/d.size/n {
			return 0, 0, fmt.Errorf("the size of shape %v in %s overflows 64 bits", shape, d)
		}
		elements *= n
	}
	return elements, elements * d.size, nil
}
