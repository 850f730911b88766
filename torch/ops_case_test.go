package torch_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/torchtest"
)

// opCase is a case of testdata/torch/ops.json; make_ops.py beside it says what the fields mean.
type opCase struct {
	Op      string
	Args    []value
	Out     []value
	After   map[int]value
	Grad    []value
	Seed    *int64
	Cmp     string
	Through *int
	Tol     float64
	NoCheck int
}

// value is an argument or a result: nil, bool, int, float64, string, torch.DType, torch.Device, torch.MemoryFormat,
// []int, []float64, []bool, *torchtest.Array or []*torchtest.Array.
type value struct {
	v         any
	byDefault bool
}

var opCases = sync.OnceValue(func() []opCase {
	var file struct{ Cases []opCase }
	golden("ops.json", &file)
	return file.Cases
})

// golden reads a file of testdata/torch; the tests cannot go on without it.
func golden(name string, v any) {
	torchtest.Golden(panicking{}, testroot.Testdata("torch", name), v)
}

type panicking struct{ testing.TB }

func (panicking) Helper()                        {}
func (panicking) Fatal(args ...any)              { panic(fmt.Sprint(args...)) }
func (panicking) Fatalf(f string, values ...any) { panic(fmt.Sprintf(f, values...)) }

func (v *value) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	switch b[0] {
	case '{':
		return v.object(b)
	case '[':
		var items []json.Number
		if bytes.Contains(b, []byte("true")) || bytes.Contains(b, []byte("false")) {
			var bools []bool
			v.v = bools
			return json.Unmarshal(b, &bools)
		}
		if err := json.Unmarshal(b, &items); err != nil {
			return err
		}
		if slices.ContainsFunc(items, func(n json.Number) bool { return strings.ContainsAny(string(n), ".e") }) {
			floats := make([]float64, len(items))
			for i, n := range items {
				floats[i], _ = n.Float64()
			}
			v.v = floats
			return nil
		}
		ints := make([]int, len(items))
		for i, n := range items {
			k, err := n.Int64()
			if err != nil {
				return err
			}
			ints[i] = int(k)
		}
		v.v = ints
	case '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		v.v = s
		if s == "inf" || s == "-inf" || s == "nan" {
			v.v, _ = strconv.ParseFloat(s, 64)
		}
	case 't', 'f':
		v.v = b[0] == 't'
	case 'n':
		v.v = nil
	default:
		if i, err := strconv.Atoi(string(b)); err == nil {
			v.v = i
			return nil
		}
		f, err := strconv.ParseFloat(string(b), 64)
		v.v = f
		return err
	}
	return nil
}

func (v *value) object(b []byte) error {
	var o struct {
		Ts     *[]*torchtest.Array
		DType  *string
		Device *string
		Mem    *int
		Def    *value
	}
	if err := json.Unmarshal(b, &o); err != nil {
		return err
	}
	switch {
	case o.Ts != nil:
		v.v = *o.Ts
	case o.DType != nil:
		for d, name := range map[torch.DType]string{torch.Float64: "f64", torch.Float32: "f32", torch.Float16: "f16", torch.BFloat16: "bf16",
			torch.Int64: "i64", torch.Int32: "i32", torch.Uint8: "u8", torch.Bool: "b"} {
			if name == *o.DType {
				v.v = d
			}
		}
	case o.Device != nil:
		v.v = torch.CPU
	case o.Mem != nil:
		v.v = torch.MemoryFormat(*o.Mem)
	case o.Def != nil:
		*v = value{o.Def.v, true}
	case bytes.HasPrefix(b, []byte(`{"def":null`)):
		*v = value{nil, true}
	default:
		a := new(torchtest.Array)
		v.v = a
		return a.UnmarshalJSON(b)
	}
	return nil
}
