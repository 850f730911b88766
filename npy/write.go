package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/gospml/gospml/internal/atomicfile"
)

// Element is the Go types that have a numpy dtype.
type Element interface {
	bool | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64 | string
}

// New makes an Array of a shape from its elements in C order; it copies them. Strings become U with the length of the
// longest (at least 1); they must be valid UTF-8 and not end in NUL, which the format cannot hold.
func New[T Element](shape []int64, elements []T) (*Array, error) {
	a := &Array{Shape: append([]int64{}, shape...)}
	var err error
	switch e := any(elements).(type) {
	case []bool:
		a.Dtype = "|b1"
		a.Data = make([]byte, len(e))
		for i, v := range e {
			if v {
				a.Data[i] = 1
			}
		}
	case []string:
		a.Dtype, a.Data, err = ucs4(e)
	case []int8:
		a.Dtype = "|i1"
	case []uint8:
		a.Dtype = "|u1"
	case []int16:
		a.Dtype = "<i2"
	case []uint16:
		a.Dtype = "<u2"
	case []int32:
		a.Dtype = "<i4"
	case []uint32:
		a.Dtype = "<u4"
	case []int64:
		a.Dtype = "<i8"
	case []uint64:
		a.Dtype = "<u8"
	case []float32:
		a.Dtype = "<f4"
	case []float64:
		a.Dtype = "<f8"
	}
	if err == nil && a.Data == nil {
		a.Data, err = binary.Append([]byte{}, binary.LittleEndian, elements)
	}
	if err != nil {
		return nil, err
	}
	if _, err := a.check(); err != nil {
		return nil, err
	}
	return a, nil
}

// ucs4 lays strings out with fixed width.
func ucs4(strs []string) (descr string, data []byte, err error) {
	width := 1
	for i, s := range strs {
		if !utf8.ValidString(s) {
			return "", nil, fmt.Errorf("string %d (%q) is not valid UTF-8", i, cut(s))
		}
		if strings.HasSuffix(s, "\x00") {
			return "", nil, fmt.Errorf("string %d (%q) ends in NUL, which numpy's strings cannot", i, cut(s))
		}
		width = max(width, utf8.RuneCountInString(s))
	}
	if width > math.MaxInt32 {
		return "", nil, errors.New("a string is too long")
	}
	data = make([]byte, 4*width*len(strs))
	for i, s := range strs {
		cell := data[4*width*i:]
		for _, r := range s {
			binary.LittleEndian.PutUint32(cell, uint32(r))
			cell = cell[4:]
		}
	}
	return fmt.Sprintf("<U%d", width), data, nil
}

// Write writes a .npy file of version 1.0, byte for byte what numpy.save writes. The file appears as a whole, replacing
// what was there, or not at all.
func Write(path string, a *Array) error {
	if _, err := a.check(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return atomicfile.WriteFile(path, 0o664, func(w io.Writer) error { return Encode(w, a) })
}

// Encode writes the format to w.
func Encode(w io.Writer, a *Array) error {
	if _, err := a.check(); err != nil {
		return err
	}
	if _, err := w.Write(a.header()); err != nil {
		return err
	}
	_, err := w.Write(a.Data)
	return err
}

// Begin writes what stands before the elements, for a file that is written in pieces: dtype is numpy's, such as "|i1",
// and elements of that shape follow in C order.
func Begin(w io.Writer, dtype string, shape []int64) error {
	d, err := parseDtype(dtype)
	if err == nil {
		_, _, err = d.count(shape)
	}
	if err == nil {
		_, err = w.Write((&Array{Dtype: dtype, Shape: shape}).header())
	}
	return err
}

// header returns the bytes before the data.
func (a *Array) header() []byte {
	tuple := "()"
	room := 0 // numpy leaves place for the first dimension to grow to 21 digits
	if len(a.Shape) > 0 {
		dims := make([]string, len(a.Shape))
		for i, n := range a.Shape {
			dims[i] = fmt.Sprint(n)
		}
		tuple = "(" + strings.Join(dims, ", ") + ")"
		if len(dims) == 1 {
			tuple = "(" + dims[0] + ",)"
		}
		room = 21 - len(dims[0])
	}
	text := "{'descr': '" + a.Dtype + "', 'fortran_order': False, 'shape': " + tuple + ", }" + strings.Repeat(" ", room)
	const align = 64
	length := len(text) + 1
	length += align - (len(magic)+4+length)%align
	text += strings.Repeat(" ", length-1-len(text)) + "\n"

	h := append([]byte(magic), 1, 0)
	h = binary.LittleEndian.AppendUint16(h, uint16(length)) // MaxRank dimensions of 19 digits take under 2,000 bytes
	return append(h, text...)
}
