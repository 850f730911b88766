package pth

import (
	"fmt"
	"strconv"
)

// The structure of a file is made of nil, bool, int64, *big.Int, float64, complex128, string, []byte, Dtype, Device, Size,
// Tuple, *List, *Dict, *Set, *Object, *Tensor, *Storage, *npy.Array, *NumpyDtype and Class. It may contain itself: a walk
// over it must bound its depth.

type (
	// Tuple is a Python tuple.
	Tuple []any
	// Size is a torch.Size.
	Size []int64
	// Device is a torch.device, for instance "cuda:0".
	Device string
	// Class is a class or function of the fixed list that stands for itself, for instance "collections.OrderedDict".
	Class string
	// List is a Python list.
	List struct{ Items []any }
	// Set is a Python set, in the file's order.
	Set struct{ Items []any }
	// Object is a TorchScript module or an argparse.Namespace with its attributes.
	Object struct {
		Class string
		Attr  *Dict
	}
)

// Item is an entry of a Dict.
type Item struct{ Key, Value any }

// Dict is a dict, an OrderedDict or a Counter, in the file's order. Attr holds attributes that an OrderedDict carries
// ("_metadata" of a state dict); it is nil where there are none.
type Dict struct {
	Items []Item
	Attr  *Dict
	index map[any]int // made when a linear search would be slow
}

// Get returns the value of a key; ok is false if there is none.
func (d *Dict) Get(key any) (value any, ok bool) {
	if i := d.find(key); i >= 0 {
		return d.Items[i].Value, true
	}
	return nil, false
}

const linear = 8 // entries that are searched one by one

func (d *Dict) find(key any) int {
	k, err := hashable(key)
	if err != nil {
		return -1
	}
	if d.index != nil {
		if i, ok := d.index[k]; ok {
			return i
		}
		return -1
	}
	for i := range d.Items {
		if have, err := hashable(d.Items[i].Key); err == nil && have == k {
			return i
		}
	}
	return -1
}

// hashable turns a key into what Go can compare: tuples of scalars become text.
func hashable(key any) (any, error) {
	switch k := key.(type) {
	case nil, bool, int64, float64, string, Dtype, Device, Class:
		return key, nil
	case Tuple:
		if len(k) > 16 {
			return nil, fmt.Errorf("a dict key is a tuple of %d elements", len(k))
		}
		var text []byte
		for _, v := range k {
			switch v := v.(type) {
			case nil, bool, int64, float64:
				text = fmt.Appendf(text, "%T:%v,", v, v)
			case string:
				if len(v) > 256 {
					return nil, fmt.Errorf("a dict key is a tuple with a string of %d bytes", len(v))
				}
				text = strconv.AppendQuote(text, v)
			default:
				return nil, fmt.Errorf("a dict key is a tuple with a %s", typeName(v))
			}
		}
		return tupleKey(text), nil
	}
	return nil, fmt.Errorf("a dict key is a %s", typeName(key))
}

type tupleKey string

func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case []byte:
		return "bytes"
	case Tuple:
		return "tuple"
	case *List:
		return "list"
	case *Dict:
		return "dict"
	case *Set:
		return "set"
	case *Tensor:
		return "tensor"
	case *Storage:
		return "storage"
	case *Object:
		return "object of " + cut(v.Class)
	case Class:
		return "class " + cut(string(v))
	}
	return fmt.Sprintf("%T", v)
}

// cut keeps a name from the file short in messages.
func cut(s string) string {
	if len(s) > 120 {
		return s[:120] + "…"
	}
	return s
}
