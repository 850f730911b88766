// Package scorefile reads matrices of scores and labels from the files that people keep them in: .npy, .npz,
// .safetensors and .csv.
//
// A matrix is [N, C], a row an image; one axis alone is taken as one class. An archive with several arrays wants the
// name of one after a colon: `run.npz:scores`. A CSV may have a header of class names and a first column of image
// names; with names on both sides, labels are brought into the order of the scores. Everything is read into memory.
// Errors name file, row and column.
package scorefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/torch/safetensors"
)

// FormatError says what is wrong with a file.
type FormatError struct{ Path, Reason string }

func (e *FormatError) Error() string { return plain.Message(plain.Text(e.Path) + ": " + e.Reason) }

func bad(path, format string, args ...any) error {
	return &FormatError{path, fmt.Sprintf(format, args...)}
}

// Matrix holds N rows of C values; exactly one of Single and Double is set, whichever the file has without rounding.
type Matrix struct {
	Path    string
	N, C    int
	Single  []float32
	Double  []float64
	Classes []string // of a CSV's header, else nil
	Images  []string // of a CSV's first column, else nil
}

// Read reads a file, or one array of an archive (`file:name`).
func Read(path string) (*Matrix, error) {
	file, name := path, ""
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if i := strings.LastIndexByte(path, ':'); i > 0 {
			file, name = path[:i], path[i+1:]
		}
	}
	switch strings.ToLower(filepath.Ext(file)) {
	case ".npy":
		a, err := npy.Read(file)
		if err != nil {
			return nil, err
		}
		return fromArray(path, a)
	case ".npz":
		return readNPZ(path, file, name)
	case ".safetensors":
		return readSafetensors(path, file, name)
	case ".csv":
		return readCSV(file)
	}
	return nil, bad(file, "a matrix comes from .npy, .npz, .safetensors or .csv")
}

// pick chooses the array of an archive.
func pick(file, name string, names []string) (string, error) {
	if name == "" && len(names) == 1 {
		return names[0], nil
	}
	if slices.Contains(names, name) {
		return name, nil
	}
	what := "it holds several arrays"
	if name != "" {
		what = fmt.Sprintf("it holds no array %q", name)
	}
	if len(names) > 8 {
		names = append(slices.Clone(names[:8]), "…")
	}
	return "", bad(file, "%s: write %s:NAME with one of %s", what, file, strings.Join(names, ", "))
}

func readNPZ(path, file, name string) (*Matrix, error) {
	st, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	z, err := npy.OpenNPZ(file, npy.Account(st.Size()))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	if name, err = pick(file, name, z.Names()); err != nil {
		return nil, err
	}
	a, err := z.Read(name)
	if err != nil {
		return nil, err
	}
	return fromArray(path, a)
}

// dtypes are numpy's names of the types that both formats have.
var dtypes = map[safetensors.Dtype]string{
	safetensors.BOOL: "|b1", safetensors.I8: "|i1", safetensors.U8: "|u1", safetensors.I16: "<i2", safetensors.U16: "<u2", safetensors.I32: "<i4",
	safetensors.U32: "<u4", safetensors.I64: "<i8", safetensors.U64: "<u8", safetensors.F16: "<f2", safetensors.F32: "<f4", safetensors.F64: "<f8",
}

func readSafetensors(path, file, name string) (*Matrix, error) {
	f, err := safetensors.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if name, err = pick(file, name, f.Names()); err != nil {
		return nil, err
	}
	info, _ := f.Info(name)
	b, err := f.Bytes(name)
	if err != nil {
		return nil, err
	}
	if info.Dtype == safetensors.BF16 {
		wide := make([]byte, 2*len(b))
		for i := 0; i < len(b); i += 2 {
			copy(wide[2*i+2:], b[i:i+2])
		}
		return fromArray(path, &npy.Array{Dtype: "<f4", Shape: info.Shape, Data: wide})
	}
	dtype, ok := dtypes[info.Dtype]
	if !ok {
		return nil, bad(path, "numbers of type %s are not read as scores or labels", info.Dtype)
	}
	return fromArray(path, &npy.Array{Dtype: dtype, Shape: info.Shape, Data: b})
}

func fromArray(path string, a *npy.Array) (m *Matrix, err error) {
	m = &Matrix{Path: path}
	switch len(a.Shape) {
	case 1:
		m.N, m.C = int(a.Shape[0]), 1
	case 2:
		m.N, m.C = int(a.Shape[0]), int(a.Shape[1])
	default:
		return nil, bad(path, "its shape is %v; a matrix has images and classes, [N, C]", a.Shape)
	}
	if m.C == 0 {
		return nil, bad(path, "it has no classes: its shape is %v", a.Shape)
	}
	switch a.Dtype {
	case "|b1", "|i1", "|u1", "<i2", "<u2", "<f2", "<f4":
		m.Single, err = a.Float32()
	default:
		m.Double, err = a.Float64()
	}
	if err != nil {
		return nil, bad(path, "%v", err)
	}
	return m, nil
}

// Labels returns the values as labels: 1 positive, 0 negative or unknown, -1 negative or not seen. Anything else is an
// error.
func (m *Matrix) Labels() ([]int8, error) {
	out := make([]int8, m.N*m.C)
	for i := range out {
		v := 0.0
		if m.Single != nil {
			v = float64(m.Single[i])
		} else {
			v = m.Double[i]
		}
		switch v {
		case -1, 0, 1:
			out[i] = int8(v)
		default:
			return nil, bad(m.Path, "row %d, column %s: %v is no label, labels are 1, 0 and -1", i/m.C, m.className(i%m.C), v)
		}
	}
	return out, nil
}

func (m *Matrix) className(c int) string {
	if m.Classes != nil {
		return fmt.Sprintf("%q", m.Classes[c])
	}
	return fmt.Sprint(c)
}

// Match brings other into the order of m's rows and columns where both have names, and compares the sizes.
func (m *Matrix) Match(other *Matrix) (*Matrix, error) {
	if m.N != other.N || m.C != other.C {
		return nil, bad(other.Path, "it is %d × %d, but %s is %d × %d (images × classes)", other.N, other.C, m.Path, m.N, m.C)
	}
	rows, err := matchNames(m.Images, other.Images, other.N, "image", m.Path, other.Path)
	if err != nil {
		return nil, err
	}
	columns, err := matchNames(m.Classes, other.Classes, other.C, "class", m.Path, other.Path)
	if err != nil {
		return nil, err
	}
	if rows == nil && columns == nil {
		return other, nil
	}
	out := *other
	out.Images, out.Classes = m.Images, m.Classes
	at := func(i int) int {
		r, c := i/m.C, i%m.C
		if rows != nil {
			r = rows[r]
		}
		if columns != nil {
			c = columns[c]
		}
		return r*m.C + c
	}
	if other.Single != nil {
		out.Single = make([]float32, len(other.Single))
		for i := range out.Single {
			out.Single[i] = other.Single[at(i)]
		}
		return &out, nil
	}
	out.Double = make([]float64, len(other.Double))
	for i := range out.Double {
		out.Double[i] = other.Double[at(i)]
	}
	return &out, nil
}

// matchNames returns where each name of want stands in have; nil where one side has no names or the order is the same.
func matchNames(want, have []string, n int, what, first, second string) ([]int, error) {
	if want == nil || have == nil || slices.Equal(want, have) {
		return nil, nil
	}
	at := make(map[string]int, n)
	for i, name := range have {
		if _, twice := at[name]; twice {
			return nil, bad(second, "the %s %q stands there twice, so its order cannot be matched with %s", what, name, first)
		}
		at[name] = i
	}
	out := make([]int, n)
	used := make([]bool, n)
	for i, name := range want {
		j, ok := at[name]
		if !ok {
			return nil, bad(second, "the %s %q of %s is not in it", what, name, first)
		}
		if used[j] {
			return nil, bad(first, "the %s %q stands there twice, so its order cannot be matched with %s", what, name, second)
		}
		out[i], used[j] = j, true
	}
	return out, nil
}
