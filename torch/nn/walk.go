package nn

import (
	"fmt"
	"iter"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"unicode"

	"github.com/gospml/gospml/torch"
)

// Entry is a tensor of a module.
type Entry struct {
	Key           string // for instance "layer1.0.bn1.running_mean"
	Tensor        *torch.Tensor
	Buffer        bool // running statistics, counters, tables: not trained
	NonPersistent bool // a buffer that is not saved
}

// Walk calls fn for each tensor of a module, in PyTorch's order: a struct's own parameters, its buffers, then the
// layers in it. m is a pointer to a struct, a slice, a map with string keys, or a Layer. A tensor that is reachable under two keys is
// visited under both.
func Walk(m any, fn func(Entry)) {
	w := walker{entry: fn}
	w.visit("", reflect.ValueOf(m))
}

// Modules yields the module itself (with an empty name) and every layer in it, outer ones first, by name: pointers to
// structs, and slices that are a Layer.
func Modules(m any) iter.Seq2[string, any] {
	type named struct {
		name   string
		module any
	}
	return func(yield func(string, any) bool) {
		var all []named
		w := walker{module: func(name string, module any) { all = append(all, named{name, module}) }}
		w.visit("", reflect.ValueOf(m))
		for _, n := range all {
			if !yield(n.name, n.module) {
				return
			}
		}
	}
}

// NamedParameters yields the parameters by key in PyTorch's order, each tensor once.
func NamedParameters(m any) iter.Seq2[string, *torch.Tensor] { return named(m, false) }

// NamedBuffers yields the buffers by key in PyTorch's order, each tensor once.
func NamedBuffers(m any) iter.Seq2[string, *torch.Tensor] { return named(m, true) }

func named(m any, buffers bool) iter.Seq2[string, *torch.Tensor] {
	return func(yield func(string, *torch.Tensor) bool) {
		var all []Entry
		seen := map[*torch.Tensor]bool{}
		Walk(m, func(e Entry) {
			if e.Buffer == buffers && !seen[e.Tensor] {
				seen[e.Tensor] = true
				all = append(all, e)
			}
		})
		for _, e := range all {
			if !yield(e.Key, e.Tensor) {
				return
			}
		}
	}
}

// Parameters lists the parameters in PyTorch's order, each tensor once.
func Parameters(m any) []*torch.Tensor {
	var ts []*torch.Tensor
	for _, t := range NamedParameters(m) {
		ts = append(ts, t)
	}
	return ts
}

// CountParameters is the number of elements of all parameters.
func CountParameters(m any) int {
	n := 0
	for _, t := range NamedParameters(m) {
		n += t.Numel()
	}
	return n
}

type walker struct {
	entry  func(Entry)
	module func(name string, module any)
	path   []reflect.Value // the pointers and maps that are being visited, against cycles
}

var (
	tensorType = reflect.TypeFor[*torch.Tensor]()
	layerType  = reflect.TypeFor[Layer]()
)

func join(prefix, name string) string {
	switch {
	case prefix == "":
		return name
	case name == "":
		return prefix
	}
	return prefix + "." + name
}

// visit looks into v, whose key is prefix.
func (w *walker) visit(prefix string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			w.visit(prefix, v.Elem())
		}
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		if v.Type() == tensorType {
			w.tensor(Entry{Key: prefix, Tensor: v.Interface().(*torch.Tensor)})
			return
		}
		w.within(v, func() { w.visit(prefix, v.Elem()) })
	case reflect.Struct:
		if w.module != nil && v.CanAddr() {
			w.module(prefix, v.Addr().Interface())
		}
		w.fields(prefix, v)
	case reflect.Slice, reflect.Array:
		if !holdsModules(v.Type().Elem()) {
			return
		}
		w.layer(prefix, v)
		elements := func() {
			for i := range v.Len() {
				w.visit(join(prefix, strconv.Itoa(i)), v.Index(i))
			}
		}
		if v.Kind() == reflect.Slice && v.Len() > 0 {
			w.within(v, elements)
		} else {
			elements()
		}
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String || !holdsModules(v.Type().Elem()) {
			return
		}
		w.within(v, func() {
			w.layer(prefix, v)
			keys := v.MapKeys()
			sort.Slice(keys, func(i, k int) bool { return keys[i].String() < keys[k].String() })
			for _, k := range keys {
				w.visit(join(prefix, k.String()), v.MapIndex(k))
			}
		})
	}
}

// layer reports a slice or map that is a Layer.
func (w *walker) layer(name string, v reflect.Value) {
	if w.module != nil && v.Type().Implements(layerType) {
		w.module(name, v.Interface())
	}
}

func (w *walker) tensor(e Entry) {
	if w.entry != nil && e.Tensor != nil {
		w.entry(e)
	}
}

// within runs f unless v is being visited already: a field that points back to its owner adds no keys.
func (w *walker) within(v reflect.Value, f func()) {
	for _, p := range w.path {
		if p.Type() == v.Type() && p.Pointer() == v.Pointer() {
			return
		}
	}
	w.path = append(w.path, v)
	f()
	w.path = w.path[:len(w.path)-1]
}

// holdsModules leaves out slices of numbers, strings and the like.
func holdsModules(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Struct, reflect.Slice, reflect.Array, reflect.Map:
		return true
	}
	return false
}

// fields visits a struct: parameters, buffers, then everything else.
func (w *walker) fields(prefix string, v reflect.Value) {
	fs := plan(v.Type(), nil)
	for _, buffers := range []bool{false, true} {
		for _, f := range fs {
			if f.typ == tensorType && f.buffer == buffers {
				t := v.FieldByIndex(f.index).Interface().(*torch.Tensor)
				w.tensor(Entry{Key: join(prefix, f.key), Tensor: t, Buffer: f.buffer, NonPersistent: f.nonPersistent})
			}
		}
	}
	for _, f := range fs {
		if f.typ != tensorType {
			w.visit(join(prefix, f.key), v.FieldByIndex(f.index))
		}
	}
}

type field struct {
	index                 []int
	key                   string
	typ                   reflect.Type
	buffer, nonPersistent bool
}

// plan lists the exported fields of a struct type that can hold tensors; those of an embedded struct count as its own.
func plan(t reflect.Type, index []int) []field {
	var fs []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("torch")
		if tag == "-" || !holdsModules(f.Type) {
			continue
		}
		at := append(append([]int(nil), index...), i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct && !tagged {
			fs = append(fs, plan(f.Type, at)...)
			continue
		}
		if !f.IsExported() {
			continue
		}
		x := field{index: at, typ: f.Type, key: snakeCase(f.Name)}
		parts := strings.Split(tag, ",")
		switch parts[0] {
		case "":
		case ".": // on the struct's own level
			x.key = ""
		default:
			x.key = parts[0]
		}
		for _, p := range parts[1:] {
			switch p {
			case "buffer":
				x.buffer = true
			case "nonpersistent":
				x.nonPersistent = true
			default:
				panic(fmt.Sprintf("nn: field %s.%s: unknown word %q in the tag torch:%q", t, f.Name, p, tag))
			}
		}
		if x.buffer && f.Type != tensorType || x.nonPersistent && !x.buffer {
			panic(fmt.Sprintf("nn: field %s.%s: the tag torch:%q fits a *torch.Tensor that is a buffer", t, f.Name, tag))
		}
		fs = append(fs, x)
	}
	return fs
}

// snakeCase turns a field's name into a key: RunningMean is running_mean, InProjWeight in_proj_weight, BN1 bn1, QKVBias qkv_bias.
func snakeCase(s string) string {
	r := []rune(s)
	var b strings.Builder
	for i, c := range r {
		if unicode.IsUpper(c) && i > 0 {
			before := r[i-1]
			endsWord := !unicode.IsUpper(before) && before != '_'
			startsWord := i+1 < len(r) && unicode.IsLower(r[i+1]) && before != '_'
			if endsWord || startsWord {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
