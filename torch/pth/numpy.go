package pth

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/gospml/gospml/npy"
)

// NumpyDtype is a numpy.dtype.
type NumpyDtype struct {
	code  string // "f8", "i2", "U5", …
	order string // "<", ">", "|" or "="
}

func newNumpyDtype(v *vm, args Tuple) (any, error) {
	if err := arity(args, 1, 3); err != nil {
		return nil, err
	}
	code, ok := args[0].(string)
	if !ok {
		return nil, fmt.Errorf("the dtype is a %s", typeName(args[0]))
	}
	if len(code) > 16 || strings.IndexFunc(code, func(r rune) bool { return r > 'z' || !unicode.IsLetter(r) && !unicode.IsDigit(r) }) >= 0 {
		return nil, fmt.Errorf("the dtype %q is not read", cut(code))
	}
	if strings.HasPrefix(code, "O") || strings.HasPrefix(code, "V") {
		return nil, fmt.Errorf("the dtype %q holds Python objects or structures, which are refused", code)
	}
	return &NumpyDtype{code: code, order: "|"}, v.budget.charge(64)
}

// setState takes (version, byte order, subdtype, names, fields, item size, alignment, flags[, metadata]).
func (t *NumpyDtype) setState(state any) error {
	s, ok := state.(Tuple)
	if !ok || len(s) < 5 {
		return fmt.Errorf("the state of a numpy dtype is a %s", typeName(state))
	}
	order, ok := s[1].(string)
	if !ok || order != "<" && order != ">" && order != "|" && order != "=" {
		return fmt.Errorf("the byte order of a numpy dtype is unknown")
	}
	if s[2] != nil || s[3] != nil || s[4] != nil {
		return fmt.Errorf("a structured numpy dtype is refused")
	}
	t.order = order
	return nil
}

// String is the name as .npy files have it, for instance "<f8".
func (t *NumpyDtype) String() string {
	order := t.order
	if order == "=" {
		order = "<"
	}
	return order + t.code
}

// newNumpyArray is _reconstruct(ndarray, (0,), b"b"); its state follows.
func newNumpyArray(v *vm, args Tuple) (any, error) {
	if err := arity(args, 3, 3); err != nil {
		return nil, err
	}
	if args[0] != any(Class("numpy.ndarray")) {
		return nil, fmt.Errorf("made of a %s", typeName(args[0]))
	}
	return &npy.Array{}, v.budget.charge(96)
}

// numpyState takes (version, shape, dtype, Fortran order, bytes).
func (v *vm) numpyState(state any) (*npy.Array, error) {
	s, ok := state.(Tuple)
	if !ok || len(s) != 5 {
		return nil, fmt.Errorf("the state of a numpy array is a %s, 5 values are expected", typeName(state))
	}
	shape, err := v.ints(s[1])
	if err != nil {
		return nil, fmt.Errorf("a numpy array: %w", err)
	}
	t, ok1 := s[2].(*NumpyDtype)
	fortran, ok2 := s[3].(bool)
	data, ok3 := s[4].([]byte)
	if !ok1 || !ok2 || !ok3 {
		return nil, fmt.Errorf("a numpy array is made of a %s, a %s and a %s", typeName(s[2]), typeName(s[3]), typeName(s[4]))
	}
	return v.array(t, shape, fortran, data)
}

// array reads the elements as a .npy file of one array would be, with its checks of dtype and size.
func (v *vm) array(t *NumpyDtype, shape []int64, fortran bool, data []byte) (*npy.Array, error) {
	if err := v.budget.charge(2*int64(len(data)) + 1024); err != nil {
		return nil, err
	}
	order := "False"
	if fortran {
		order = "True"
	}
	dims := make([]string, len(shape))
	for i, n := range shape {
		dims[i] = fmt.Sprintf("%d,", n)
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }\n", t, order, strings.Join(dims, " "))
	file := []byte("\x93NUMPY\x01\x00")
	file = binary.LittleEndian.AppendUint16(file, uint16(len(dict)))
	file = append(append(file, dict...), data...)
	if v.numpy == nil { // as large as the npy reader's own, which it then does without
		v.numpy = bufio.NewReaderSize(nil, 64<<10)
	}
	v.numpy.Reset(bytes.NewReader(file))
	a, err := npy.Decode(v.numpy, int64(len(file)))
	if err != nil {
		return nil, fmt.Errorf("a numpy array: %w", err)
	}
	return a, nil
}

// newNumpyScalar is scalar(dtype, bytes); it becomes a bool, int64, float64 or string where that holds it, else an array
// without dimensions.
func newNumpyScalar(v *vm, args Tuple) (any, error) {
	if err := arity(args, 2, 2); err != nil {
		return nil, err
	}
	t, ok1 := args[0].(*NumpyDtype)
	data, ok2 := args[1].([]byte)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("made of a %s and a %s", typeName(args[0]), typeName(args[1]))
	}
	a, err := v.array(t, nil, false, data)
	if err != nil {
		return nil, err
	}
	switch a.Dtype[1] {
	case 'b':
		return a.Data[0] != 0, nil
	case 'i', 'u':
		if n, err := a.Int64(); err == nil {
			return n[0], nil
		}
	case 'f':
		if a.Dtype == "<f8" {
			return math.Float64frombits(binary.LittleEndian.Uint64(a.Data)), nil
		}
		if n, err := a.Float64(); err == nil {
			return n[0], nil
		}
	case 'U':
		if s, err := a.Strings(); err == nil {
			return s[0], nil
		}
	}
	return a, nil
}
