package pth

import (
	"fmt"
	"strings"
)

// Entry is a named tensor of a state dict.
type Entry struct {
	Name   string
	Tensor *Tensor
}

// checkpointKeys are where programs put the state dict beside an epoch and an optimizer, the usual ones first.
var checkpointKeys = []string{"state_dict", "model_state_dict", "model", "net", "network", "module", "weights", "params"}

const maxDepth = 64 // of modules in modules

// StateDict returns the tensors of a state dict in the file's order. Without a path the state dict is looked for: the root
// itself if it is a TorchScript module or a dict with tensors, else the value of one of the usual keys (state_dict,
// model_state_dict, model, …). A path is the keys that lead to it, for instance "ema", "state_dict". Values of a dict that are
// no tensors are left out; tensors of a TorchScript module's submodules have the names joined with dots.
func (f *File) StateDict(path ...string) ([]Entry, error) {
	at := f.root
	for i, key := range path {
		d := dictOf(at)
		if d == nil {
			return nil, fmt.Errorf("%s: %s is a %s, not a dict", f, place(path[:i]), typeName(at))
		}
		next, ok := d.Get(key)
		if !ok {
			return nil, fmt.Errorf("%s: %s has no %q; it has %s", f, place(path[:i]), cut(key), keys(d))
		}
		at = next
	}
	if len(path) == 0 {
		if d, ok := at.(*Dict); ok && !holdsTensors(d) {
			if at = usual(d); at == nil {
				return nil, fmt.Errorf("%s holds no state dict under a usual key; name one of its keys: %s", f, keys(d))
			}
		}
	}
	d := dictOf(at)
	if d == nil {
		return nil, fmt.Errorf("%s: %s is a %s, not a state dict", f, place(path), typeName(at))
	}
	w := &walk{f: f, seen: map[string]bool{}, left: f.left}
	if err := w.dict("", d, 0); err != nil {
		return nil, err
	}
	if len(w.out) == 0 {
		return nil, fmt.Errorf("%s: %s holds no tensors", f, place(path))
	}
	return w.out, nil
}

func dictOf(x any) *Dict {
	switch x := x.(type) {
	case *Dict:
		return x
	case *Object:
		return x.Attr
	}
	return nil
}

func place(path []string) string {
	if len(path) == 0 {
		return "its root"
	}
	return cut(strings.Join(path, "."))
}

func keys(d *Dict) string {
	var names []string
	for i, it := range d.Items {
		if i == 12 {
			names = append(names, "…")
			break
		}
		names = append(names, cut(fmt.Sprint(it.Key)))
	}
	return strings.Join(names, ", ")
}

func holdsTensors(d *Dict) bool {
	for _, it := range d.Items {
		if _, ok := it.Value.(*Tensor); ok {
			return true
		}
	}
	return false
}

// usual returns the value of the first usual key that leads to tensors.
func usual(d *Dict) any {
	for _, key := range checkpointKeys {
		switch x, _ := d.Get(key); x := x.(type) {
		case *Object:
			return x
		case *Dict:
			if holdsTensors(x) {
				return x
			}
		}
	}
	return nil
}

type walk struct {
	f    *File
	out  []Entry
	seen map[string]bool
	left int64 // of memory
}

func (w *walk) dict(prefix string, d *Dict, depth int) error {
	if depth > maxDepth {
		return w.f.invalid("its modules are nested deeper than %d, or hold themselves", maxDepth)
	}
	for _, it := range d.Items {
		key, ok := it.Key.(string)
		if !ok {
			continue
		}
		if w.left -= int64(4*(len(prefix)+len(key)) + 256); w.left < 0 {
			return w.f.invalid("its state dict has too many entries: its modules hold each other many times")
		}
		name := prefix + key
		switch x := it.Value.(type) {
		case *Tensor:
			if w.seen[name] {
				return w.f.invalid("two tensors have the name %q", cut(name))
			}
			w.seen[name] = true
			w.out = append(w.out, Entry{name, x})
		case *Object:
			if err := w.dict(name+".", x.Attr, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
