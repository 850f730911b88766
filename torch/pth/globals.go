package pth

import (
	"fmt"
	"strings"

	"github.com/gospml/gospml/npy"
)

// function is what a global of the list does when the pickle calls it.
type function func(v *vm, args Tuple) (any, error)

// functions may be called (REDUCE) or made an object of (NEWOBJ).
var functions map[string]function

// init breaks the cycle between the list and rebuild_from_type, which looks into it.
func init() {
	functions = map[string]function{
		"collections.OrderedDict":                    newDict,
		"collections.Counter":                        newDict,
		"torch._utils._rebuild_tensor":               rebuildTensor,
		"torch._utils._rebuild_tensor_v2":            rebuildTensor,
		"torch._utils._rebuild_tensor_v3":            rebuildTensorV3,
		"torch._utils._rebuild_parameter":            rebuildParameter,
		"torch._utils._rebuild_parameter_with_state": rebuildParameter,
		"torch._tensor._rebuild_from_type_v2":        rebuildFromType,
		"torch.nn.parameter.Parameter":               rebuildParameter,
		"torch.Size":                                 newSize,
		"torch.device":                               newDevice,
		"torch.serialization._get_layout":            newLayout,
		"_codecs.encode":                             encode,
		"builtins.bytearray":                         newBytes,
		"builtins.set":                               newSet,
		"builtins.complex":                           newComplex,
		"numpy.dtype":                                newNumpyDtype,
		"numpy.core.multiarray.scalar":               newNumpyScalar,
		"numpy._core.multiarray.scalar":              newNumpyScalar,
		"numpy.core.multiarray._reconstruct":         newNumpyArray,
		"numpy._core.multiarray._reconstruct":        newNumpyArray,
		"torch.jit._pickle.build_intlist":            firstArgument,
		"torch.jit._pickle.build_doublelist":         firstArgument,
		"torch.jit._pickle.build_boollist":           firstArgument,
		"torch.jit._pickle.build_tensorlist":         firstArgument,
		"torch.jit._pickle.restore_type_tag":         firstArgument,
	}
}

// values may stand for themselves.
var values = map[string]bool{"torch.Tensor": true, "torch.storage.UntypedStorage": true, "numpy.ndarray": true, "argparse.Namespace": true}

// refusedTensors are torch's own ways to store what is no dense tensor.
var refusedTensors = map[string]string{
	"_rebuild_sparse_tensor":                 "a sparse tensor (save its to_dense())",
	"_rebuild_sparse_csr_tensor":             "a sparse tensor (save its to_dense())",
	"_rebuild_qtensor":                       "a quantized tensor (save its dequantize())",
	"_rebuild_nested_tensor":                 "a nested tensor",
	"_rebuild_meta_tensor_no_storage":        "a tensor without data on the meta device",
	"_rebuild_wrapper_subclass":              "a tensor of another class",
	"_rebuild_device_tensor_from_numpy":      "a tensor of another device kind (save its cpu())",
	"_rebuild_device_tensor_from_cpu_tensor": "a tensor of another device kind (save its cpu())",
	"_rebuild_xla_tensor":                    "a tensor of another device kind (save its cpu())",
}

// lookup returns what a global stands for, or refuses the file by its name.
func lookup(module, name string, script bool) (any, error) {
	full := module + "." + name
	switch {
	case functions[full] != nil || values[full]:
		return Class(full), nil
	case module == "torch" || module == "torch.cuda":
		if _, ok := storageDtypes[name]; ok {
			return Class("torch." + name), nil
		}
		if _, ok := dtypes[Dtype(name)]; ok && module == "torch" {
			return Dtype(name), nil
		}
		if d, ok := aliases[name]; ok && module == "torch" {
			return d, nil
		}
	case module == "torch._utils" && refusedTensors[name] != "":
		return nil, fmt.Errorf("it holds %s: only dense tensors are read", refusedTensors[name])
	case script && below(module, "__torch__"):
		return Class(full), nil
	}
	if below(module, "__torch__") {
		return nil, fmt.Errorf("the global %s is a TorchScript class outside a TorchScript archive", cut(full))
	}
	hint := ""
	if below(module, "torch.nn", "torchvision", "timm") || strings.Contains(module, "model") {
		hint = "; it looks like a whole pickled model: save its state_dict() instead"
	}
	return nil, fmt.Errorf("its pickle refers to the global %s, which is not among those that only make data: it could run code and is refused%s", cut(full), hint)
}

func (v *vm) reduce() error {
	a, err := v.pop()
	if err != nil {
		return err
	}
	f, err := v.pop()
	if err != nil {
		return err
	}
	args, ok := a.(Tuple)
	if !ok {
		return fmt.Errorf("its pickle calls with a %s for arguments", typeName(a))
	}
	x, err := v.call(f, args)
	if err != nil {
		return err
	}
	return v.push(x)
}

func (v *vm) call(f any, args Tuple) (any, error) {
	class, ok := f.(Class)
	if !ok {
		return nil, fmt.Errorf("its pickle calls a %s, which is no function", typeName(f))
	}
	call := functions[string(class)]
	if call == nil {
		return nil, fmt.Errorf("its pickle calls %s, which is refused", cut(string(class)))
	}
	x, err := call(v, args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", class, err)
	}
	return x, nil
}

func (v *vm) newObject() error {
	a, err := v.pop()
	if err != nil {
		return err
	}
	c, err := v.pop()
	if err != nil {
		return err
	}
	args, ok := a.(Tuple)
	class, isClass := c.(Class)
	if !ok || !isClass {
		return fmt.Errorf("its pickle makes an object of a %s with a %s for arguments", typeName(c), typeName(a))
	}
	if class == "argparse.Namespace" || below(string(class), "__torch__") {
		if len(args) != 0 {
			return fmt.Errorf("%s: made with %d arguments, 0 are expected", cut(string(class)), len(args))
		}
		if err := v.budget.charge(160); err != nil {
			return err
		}
		return v.push(&Object{Class: string(class), Attr: &Dict{}})
	}
	x, err := v.call(class, args)
	if err != nil {
		return err
	}
	return v.push(x)
}

// build gives the object on top its state.
func (v *vm) build() error {
	state, err := v.pop()
	if err != nil {
		return err
	}
	x, err := v.top()
	if err != nil {
		return err
	}
	switch x := x.(type) {
	case *Object:
		d, ok := state.(*Dict)
		if !ok {
			if list, isTuple := state.(Tuple); isTuple && below(x.Class, "__torch__") { // __getstate__ gave something else
				return v.set(x.Attr, "state", list)
			}
			return fmt.Errorf("the state of %s is a %s, a dict is expected", cut(x.Class), typeName(state))
		}
		x.Attr = d
		return nil
	case *Dict:
		d, ok := state.(*Dict)
		if !ok {
			return fmt.Errorf("the state of a dict is a %s, a dict is expected", typeName(state))
		}
		x.Attr = d
		return nil
	case *NumpyDtype:
		return x.setState(state)
	case *npy.Array:
		if x.Dtype != "" {
			return fmt.Errorf("its pickle sets the state of a numpy array twice")
		}
		a, err := v.numpyState(state)
		if err != nil {
			return err
		}
		*x = *a
		return nil
	}
	return fmt.Errorf("its pickle sets the state of a %s, which is refused", typeName(x))
}

func arity(args Tuple, low, high int) error {
	if len(args) < low || len(args) > high {
		return fmt.Errorf("called with %d arguments, %d to %d are expected", len(args), low, high)
	}
	return nil
}

func newDict(v *vm, args Tuple) (any, error) {
	if err := arity(args, 0, 1); err != nil {
		return nil, err
	}
	if err := v.budget.charge(64); err != nil {
		return nil, err
	}
	d := &Dict{}
	if len(args) == 0 {
		return d, nil
	}
	switch from := args[0].(type) {
	case *Dict:
		for _, it := range from.Items {
			if err := v.set(d, it.Key, it.Value); err != nil {
				return nil, err
			}
		}
	case *List: // of pairs: Python 2's OrderedDict
		for _, x := range from.Items {
			var key, value any
			switch p := x.(type) {
			case Tuple:
				if len(p) == 2 {
					key, value = p[0], p[1]
					break
				}
				return nil, fmt.Errorf("an item has %d elements, 2 are expected", len(p))
			case *List:
				if len(p.Items) == 2 {
					key, value = p.Items[0], p.Items[1]
					break
				}
				return nil, fmt.Errorf("an item has %d elements, 2 are expected", len(p.Items))
			default:
				return nil, fmt.Errorf("an item is a %s", typeName(x))
			}
			if err := v.set(d, key, value); err != nil {
				return nil, err
			}
		}
	default:
		return nil, fmt.Errorf("made from a %s", typeName(args[0]))
	}
	return d, nil
}

func newSet(v *vm, args Tuple) (any, error) {
	if err := arity(args, 0, 1); err != nil {
		return nil, err
	}
	s := &Set{}
	if len(args) == 1 {
		l, ok := args[0].(*List)
		if !ok {
			return nil, fmt.Errorf("made from a %s, a list is expected", typeName(args[0]))
		}
		if err := v.budget.charge(int64(len(l.Items)) * 16); err != nil {
			return nil, err
		}
		s.Items = append(s.Items, l.Items...)
	}
	return s, v.budget.charge(48)
}

func newSize(v *vm, args Tuple) (any, error) {
	if err := arity(args, 0, 1); err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return Size(nil), nil
	}
	n, err := v.ints(args[0])
	return Size(n), err
}

// ints copies a tuple or list of whole numbers.
func (v *vm) ints(x any) ([]int64, error) {
	var items []any
	switch x := x.(type) {
	case Tuple:
		items = x
	case *List:
		items = x.Items
	case Size:
		return x, nil
	default:
		return nil, fmt.Errorf("a %s where a tuple of numbers is expected", typeName(x))
	}
	if len(items) > MaxRank {
		return nil, fmt.Errorf("%d dimensions, at most %d are read and written", len(items), MaxRank)
	}
	if err := v.budget.charge(int64(len(items))*8 + 24); err != nil {
		return nil, err
	}
	n := make([]int64, len(items))
	for i, it := range items {
		var ok bool
		if n[i], ok = it.(int64); !ok {
			return nil, fmt.Errorf("a dimension is a %s, a whole number within 64 bits is expected", typeName(it))
		}
	}
	return n, nil
}

func newDevice(v *vm, args Tuple) (any, error) {
	if err := arity(args, 1, 2); err != nil {
		return nil, err
	}
	kind, ok := args[0].(string)
	if !ok || len(kind) > 64 {
		return nil, fmt.Errorf("the device's kind is a %s", typeName(args[0]))
	}
	if err := v.budget.charge(160); err != nil {
		return nil, err
	}
	if len(args) == 1 {
		return Device(kind), nil
	}
	i, ok := args[1].(int64)
	if !ok {
		return nil, fmt.Errorf("the device's index is a %s", typeName(args[1]))
	}
	return Device(fmt.Sprintf("%s:%d", kind, i)), nil
}

func newLayout(_ *vm, args Tuple) (any, error) {
	if err := arity(args, 1, 1); err != nil {
		return nil, err
	}
	if args[0] != any("torch.strided") {
		return nil, fmt.Errorf("only the layout torch.strided is read")
	}
	return args[0], nil
}

// encode is how protocol 2 writes bytes: as text in which each character is a byte.
func encode(v *vm, args Tuple) (any, error) {
	if err := arity(args, 2, 2); err != nil {
		return nil, err
	}
	text, ok := args[0].(string)
	if !ok || args[1] != any("latin1") && args[1] != any("latin-1") {
		return nil, fmt.Errorf("only text is encoded, as latin1")
	}
	if err := v.budget.charge(int64(len(text)) + 48); err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 255 {
			return nil, fmt.Errorf("the character %q is not in latin1", r)
		}
		b = append(b, byte(r))
	}
	return b, nil
}

func newBytes(v *vm, args Tuple) (any, error) {
	if err := arity(args, 0, 2); err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return []byte(nil), nil
	}
	switch x := args[0].(type) {
	case []byte:
		return x, nil
	case string:
		return encode(v, Tuple{x, "latin1"})
	}
	return nil, fmt.Errorf("made from a %s", typeName(args[0])) // a number would allocate as many bytes
}

func newComplex(v *vm, args Tuple) (any, error) {
	if err := arity(args, 2, 2); err != nil {
		return nil, err
	}
	re, ok1 := args[0].(float64)
	im, ok2 := args[1].(float64)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("made from a %s and a %s", typeName(args[0]), typeName(args[1]))
	}
	return complex(re, im), v.budget.charge(16)
}

// firstArgument is TorchScript's way to tag a list with its type.
func firstArgument(_ *vm, args Tuple) (any, error) {
	if err := arity(args, 1, 2); err != nil {
		return nil, err
	}
	return args[0], nil
}
