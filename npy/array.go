package npy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/gospml/gospml/internal/plain"
)

// Array is an array in memory.
type Array struct {
	Dtype string  // numpy's name: |b1 |i1 |u1 <i2 <i4 <i8 <u2 <u4 <u8 <f2 <f4 <f8 or <U{k}
	Shape []int64 // empty for a scalar
	Data  []byte  // little-endian, C order (the last axis varies fastest)
}

// Len returns the number of elements, the product of Shape.
func (a *Array) Len() int {
	n := 1
	for _, d := range a.Shape {
		n *= int(d)
	}
	return n
}

// check verifies an Array that a caller may have made by hand.
func (a *Array) check() (dtype, error) {
	d, err := parseDtype(a.Dtype)
	if err != nil {
		return d, err
	}
	if d.String() != a.Dtype {
		return d, fmt.Errorf("dtype %q: an Array holds %q, little-endian", a.Dtype, d)
	}
	_, bytes, err := d.count(a.Shape)
	if err != nil {
		return d, err
	}
	if bytes != int64(len(a.Data)) {
		return d, fmt.Errorf("shape %v in %s takes %d bytes, Data has %d", a.Shape, d, bytes, len(a.Data))
	}
	return d, nil
}

// FormatError says how a file breaks the format's rules or what it holds that is not supported.
type FormatError struct {
	Path   string // empty where data did not come from a file
	Reason string
}

func (e *FormatError) Error() string {
	if e.Path == "" {
		return plain.Message("cannot read the array: " + e.Reason)
	}
	return plain.Message("cannot read " + plain.Text(e.Path) + ": " + e.Reason)
}

func reason(format string, args ...any) error {
	return &FormatError{Reason: fmt.Sprintf(format, args...)}
}

// ended turns the end of the data at a place where more must follow into a reason.
func ended(err error, where string) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return reason("it ends %s: is it truncated?", where)
	}
	return err
}

// named puts the path into an error.
func named(err error, path string) error {
	var fe *FormatError
	if errors.As(err, &fe) {
		return &FormatError{Path: path, Reason: fe.Reason}
	}
	return fmt.Errorf("reading %s: %w", path, err)
}

// openRegular opens a file and returns its size.
func openRegular(path string) (*os.File, int64, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !st.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a regular file (%s)", path, st.Mode())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	if st, err = f.Stat(); err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// Read reads a .npy file.
func Read(path string) (*Array, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	a, err := Decode(f, size)
	if err != nil {
		return nil, named(err, path)
	}
	return a, nil
}

// Decode reads an array from r, which holds size bytes: the array must take all of them.
func Decode(r io.Reader, size int64) (*Array, error) {
	br := bufio.NewReaderSize(r, int(min(max(size, 16), 64<<10))) // no larger than it, because archives hold many small ones
	h, err := readHeader(br)
	if err != nil {
		return nil, err
	}
	_, want, err := h.dtype.count(h.shape)
	if err != nil {
		return nil, reason("%v", err)
	}
	if have := size - h.length; have < want {
		return nil, reason("shape %v in %s takes %d bytes, only %d follow the header: is it truncated?", h.shape, h.dtype, want, have)
	} else if have > want {
		return nil, reason("shape %v in %s takes %d bytes, %d follow the header", h.shape, h.dtype, want, have)
	}
	a := &Array{Dtype: h.dtype.String(), Shape: h.shape, Data: make([]byte, want)}
	if h.fortran && !sameOrder(h.shape) {
		err = readFortran(br, a, int(h.dtype.size))
	} else {
		_, err = io.ReadFull(br, a.Data)
	}
	if err != nil {
		return nil, ended(err, "before its size was reached")
	}
	if h.dtype.big {
		unit := h.dtype.unit()
		for i := 0; i < len(a.Data); i += unit {
			slices.Reverse(a.Data[i : i+unit])
		}
	}
	return a, nil
}

// sameOrder reports whether C and Fortran order are the same: at most one axis is longer than 1.
func sameOrder(shape []int64) bool {
	long := 0
	for _, n := range shape {
		if n > 1 {
			long++
		}
	}
	return long < 2
}

// readFortran puts elements that come with the first axis varying fastest where they belong in C order.
func readFortran(r io.Reader, a *Array, size int) error {
	rank := len(a.Shape)
	stride := make([]int, rank) // bytes from an element to the next along an axis
	at := size
	for i := rank - 1; i >= 0; i-- {
		stride[i] = at
		at *= int(a.Shape[i])
	}
	index := make([]int64, rank)
	pos := 0
	for range len(a.Data) / size {
		if _, err := io.ReadFull(r, a.Data[pos:pos+size]); err != nil {
			return err
		}
		for i := range rank {
			index[i]++
			pos += stride[i]
			if index[i] < a.Shape[i] {
				break
			}
			pos -= stride[i] * int(a.Shape[i])
			index[i] = 0
		}
	}
	return nil
}
