package torchtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/gospml/gospml/torch"
)

// Golden reads a JSON file of expected values into v and fails the test when it cannot.
func Golden(t testing.TB, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Array is a tensor in a JSON file, in one of two forms: nested lists of numbers or booleans, [[1, 2], [3, 4]], whose
// dtype is float64, int64 (no number has a point or an exponent) or bool; or an object
//
//	{"d": "f32", "s": [2, 2], "v": [1, 2, "nan", "-inf"]}
//
// with dtype (f64 f32 f16 bf16 i64 i32 i16 i8 u8 b), shape and the values row-major. With "n": 1 the tensor is laid out
// with gaps and its dimensions in reverse order, so that it is not contiguous.
type Array struct {
	DType   torch.DType
	Shape   []int
	Strided bool      // make it with gaps
	Floats  []float64 // values of floating point dtypes, as near as they can be
	Ints    []int64   // values of the others; bool is 0 and 1
}

var arrayDTypes = map[string]torch.DType{
	"f64": torch.Float64, "f32": torch.Float32, "f16": torch.Float16, "bf16": torch.BFloat16,
	"i64": torch.Int64, "i32": torch.Int32, "i16": torch.Int16, "i8": torch.Int8, "u8": torch.Uint8, "b": torch.Bool,
}

// UnmarshalJSON reads either form.
func (a *Array) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '{' {
		return a.object(b)
	}
	*a = Array{}
	var words []string
	if err := a.nested(b, 0, &words); err != nil {
		return err
	}
	a.DType = torch.Int64
	for _, w := range words {
		switch {
		case w == "true" || w == "false":
			a.DType = torch.Bool
		case bytes.ContainsAny([]byte(w), ".eEnN"):
			a.DType = torch.Float64
		}
	}
	if len(words) == 0 {
		a.DType = torch.Float64
	}
	return a.values(words)
}

func (a *Array) object(b []byte) error {
	var o struct {
		D string            `json:"d"`
		S []int             `json:"s"`
		V []json.RawMessage `json:"v"`
		N int               `json:"n"`
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return err
	}
	d, ok := arrayDTypes[o.D]
	if !ok {
		return fmt.Errorf("array: no dtype %q", o.D)
	}
	if len(o.V) != product(o.S) {
		return fmt.Errorf("array: %d values for shape %v", len(o.V), o.S)
	}
	*a = Array{DType: d, Shape: o.S, Strided: o.N != 0}
	words := make([]string, len(o.V))
	for i, v := range o.V {
		words[i] = word(v)
	}
	return a.values(words)
}

// nested collects the values of lists in lists and finds their shape.
func (a *Array) nested(b []byte, depth int, words *[]string) error {
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != '[' {
		if depth != len(a.Shape) {
			return fmt.Errorf("array: a number where a list of %d dimensions should be", len(a.Shape)-depth)
		}
		*words = append(*words, word(b))
		return nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(b, &items); err != nil {
		return err
	}
	first := len(*words) == 0 && depth == len(a.Shape)
	if first {
		a.Shape = append(a.Shape, len(items))
	}
	if depth >= len(a.Shape) || a.Shape[depth] != len(items) {
		return fmt.Errorf("array: the lists are ragged")
	}
	for _, item := range items {
		if err := a.nested(item, depth+1, words); err != nil {
			return err
		}
	}
	return nil
}

// word strips the quotes of "nan" and "inf".
func word(b []byte) string { return string(bytes.Trim(bytes.TrimSpace(b), `"`)) }

func (a *Array) values(words []string) error {
	var err error
	if a.DType.IsFloat() {
		a.Floats = make([]float64, len(words))
		bits := 64
		if a.DType == torch.Float32 {
			bits = 32
		}
		for i, w := range words {
			if a.Floats[i], err = strconv.ParseFloat(w, bits); err != nil {
				return fmt.Errorf("array: %w", err)
			}
		}
		return nil
	}
	a.Ints = make([]int64, len(words))
	for i, w := range words {
		switch w {
		case "true":
			a.Ints[i] = 1
		case "false":
		default:
			if a.Ints[i], err = strconv.ParseInt(w, 10, 64); err != nil {
				return fmt.Errorf("array: %w", err)
			}
		}
	}
	return nil
}

// Tensor makes a tensor with these values.
func (a *Array) Tensor() *torch.Tensor {
	var out *torch.Tensor
	torch.Scope(func(s *torch.Arena) {
		if a.DType.IsFloat() {
			out = shaped(a.Floats, a.Shape)
		} else {
			out = shaped(a.Ints, a.Shape)
		}
		out = out.ToDType(a.DType)
		if a.Strided {
			out = strided(out)
		}
		s.Keep(out)
	})
	return out
}

// strided copies a tensor into every second element of a block whose dimensions lie in reverse order.
func strided(t *torch.Tensor) *torch.Tensor {
	shape := t.Shape()
	slices.Reverse(shape)
	order := make([]int, len(shape))
	for i := range order {
		order[i] = len(shape) - 1 - i
	}
	block := torch.Zeros(append(shape, 2), t.DType())
	return block.Select(-1, 0).Permute(order...).Copy_(t)
}
