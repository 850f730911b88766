package golden

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"sort"
	"strings"

	"github.com/gospml/gospml/torch"
)

// File is a parsed file of reference numbers.
type File struct {
	Path string
	Top  map[string]any
	Kind Kind
}

// Kind is one sort of file.
type Kind interface {
	Name() string
	// Detect says whether the content is of this kind.
	Detect(top map[string]any) bool
	// Check runs every case and reports each to r.
	Check(f *File, o Options, r *Report) error
	// Eval computes every case without looking at expected values.
	Eval(f *File, o Options, emit func(id string, outputs any) error) error
}

// Kinds are all sorts of file, in the order they are tried.
var Kinds = []Kind{lossCases{}, trajectory{}, backbones{}, modelNumbers, lacNumbers, pseudoLabels{}, preprocessing}

// Options choose how cases are computed.
type Options struct {
	DType torch.DType // Float64, Float32 or BFloat16
	Fused bool        // the fused form where there is one
	// Device is where losses are computed; label estimators stay on the CPU. Files of other kinds know the CPU only.
	Device torch.Device
}

// Open reads a file and finds its kind.
func Open(path string) (*File, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &File{Path: path}
	if err := json.Unmarshal(b, &f.Top); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, k := range Kinds {
		if k.Detect(f.Top) {
			f.Kind = k
			return f, nil
		}
	}
	return nil, fmt.Errorf("%s: no known kind of file; its sections are %s", path, strings.Join(keys(f.Top), ", "))
}

func keys(m map[string]any) []string {
	s := make([]string, 0, len(m))
	for k := range m {
		s = append(s, k)
	}
	sort.Strings(s)
	return s
}

// node is a value of a file with its place, for errors.
type node struct {
	at string
	v  any
}

// badInput is thrown by the readers of node and caught by guard.
type badInput struct{ error }

func (n node) fail(format string, a ...any) { panic(badInput{fmt.Errorf(n.at+": "+format, a...)}) }

// guard turns a panic of node's readers or of tensor maths into an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			b, ok := p.(badInput)
			if !ok {
				panic(p)
			}
			err = b.error
		}
	}()
	var inner error
	if e := torch.Try(func() { inner = f() }); e != nil {
		return e
	}
	return inner
}

func (n node) object() map[string]any {
	m, ok := n.v.(map[string]any)
	if !ok {
		n.fail("want an object")
	}
	return m
}

func (n node) has(name string) bool {
	v, ok := n.object()[name]
	return ok && v != nil
}

func (n node) get(name string) node {
	v, ok := n.object()[name]
	if !ok {
		n.fail("%q is missing", name)
	}
	return node{n.at + "/" + name, v}
}

func (n node) list() []node {
	l, ok := n.v.([]any)
	if !ok {
		n.fail("want a list")
	}
	out := make([]node, len(l))
	for i, v := range l {
		out[i] = node{fmt.Sprintf("%s/%d", n.at, i), v}
	}
	return out
}

func (n node) number() float64 {
	x, ok := toFloat(n.v)
	if !ok {
		n.fail("want a number, got %v", n.v)
	}
	return x
}

// num is a number by name, or def where it is absent or null.
func (n node) num(name string, def float64) float64 {
	if !n.has(name) {
		return def
	}
	return n.get(name).number()
}

func (n node) whole() int {
	x := n.number()
	if x != math.Trunc(x) || math.Abs(x) > 1<<40 {
		n.fail("want a whole number, got %v", x)
	}
	return int(x)
}

func (n node) text(name, def string) string {
	if !n.has(name) {
		return def
	}
	s, ok := n.get(name).v.(string)
	if !ok {
		n.fail("%s wants a string", name)
	}
	return s
}

func (n node) wholes() []int {
	l := n.list()
	out := make([]int, len(l))
	for i, e := range l {
		out[i] = e.whole()
	}
	return out
}

// tensor reads nested lists.
func (n node) tensor(dtype torch.DType) *torch.Tensor {
	var shape []int
	var flat []float64
	var walk func(v any, depth int)
	walk = func(v any, depth int) {
		if l, ok := v.([]any); ok {
			if depth == len(shape) && len(flat) == 0 {
				shape = append(shape, len(l))
			}
			if depth >= len(shape) || shape[depth] != len(l) {
				n.fail("lists of unequal length")
			}
			for _, e := range l {
				walk(e, depth+1)
			}
			return
		}
		x, ok := toFloat(v)
		if !ok || depth != len(shape) {
			n.fail("want nested lists of numbers")
		}
		flat = append(flat, x)
	}
	walk(n.v, 0)
	return torch.FromSlice(flat, shape...).ToDType(dtype)
}

func toFloat(v any) (float64, bool) {
	switch x := v.(type) {
	case float64:
		return x, true
	case bool:
		if x {
			return 1, true
		}
		return 0, true
	case string:
		switch strings.ToLower(x) {
		case "nan":
			return math.NaN(), true
		case "inf", "+inf", "infinity":
			return math.Inf(1), true
		case "-inf", "-infinity":
			return math.Inf(-1), true
		}
	}
	return 0, false
}

// plain makes a result printable as JSON: tensors become nested lists.
func plain(v any) any {
	switch x := v.(type) {
	case *torch.Tensor:
		flat := torch.ToSlice[float64](x.Detach().ToDType(torch.Float64).Contiguous())
		return nest(flat, x.Shape())
	case float64:
		switch {
		case math.IsNaN(x):
			return "nan"
		case math.IsInf(x, 0):
			return strings.ToLower(strings.TrimPrefix(fmt.Sprint(x), "+"))
		}
		return x
	case int:
		return float64(x)
	case []int:
		l := make([]any, len(x))
		for i, e := range x {
			l[i] = float64(e)
		}
		return l
	case []float64:
		return nest(x, []int{len(x)})
	case map[string]any:
		m := make(map[string]any, len(x))
		for k, e := range x {
			m[k] = plain(e)
		}
		return m
	case []map[string]any:
		l := make([]any, len(x))
		for i, e := range x {
			l[i] = plain(e)
		}
		return l
	case []any:
		l := make([]any, len(x))
		for i, e := range x {
			l[i] = plain(e)
		}
		return l
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Slice, reflect.Array:
		l := make([]any, r.Len())
		for i := range l {
			l[i] = plain(r.Index(i).Interface())
		}
		return l
	case reflect.Int8, reflect.Int32, reflect.Int64:
		return float64(r.Int())
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return float64(r.Uint())
	case reflect.Float32:
		return plain(r.Float())
	}
	return v
}

func nest(flat []float64, shape []int) any {
	if len(shape) == 0 {
		return plain(flat[0])
	}
	l := make([]any, shape[0])
	if shape[0] == 0 {
		return l
	}
	step := len(flat) / shape[0]
	for i := range l {
		l[i] = nest(flat[i*step:(i+1)*step], shape[1:])
	}
	return l
}
