package nn

import (
	"reflect"

	"github.com/gospml/gospml/torch"
)

// Copy makes a deep copy of a module (copy.deepcopy): its tensors are new leaves with the same values, training flags and
// sharing among themselves, without gradients. What exported fields reach through pointers, slices, maps and interfaces is
// copied, fields with the tag torch:"-" too; unexported fields and functions are shared with the original.
func Copy[M any](m M) M {
	c := copier{tensors: map[*torch.Tensor]*torch.Tensor{}, pointers: map[visited]reflect.Value{}}
	var out reflect.Value
	torch.NoGrad(func() { out = c.copy(reflect.ValueOf(&m).Elem()) })
	return out.Interface().(M)
}

type copier struct {
	tensors  map[*torch.Tensor]*torch.Tensor
	pointers map[visited]reflect.Value
}

type visited struct {
	typ reflect.Type
	at  uintptr
}

func (c *copier) copy(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		return c.pointer(v)
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		out := reflect.New(v.Type()).Elem()
		out.Set(c.copy(v.Elem()))
		return out
	case reflect.Struct:
		out := reflect.New(v.Type()).Elem()
		out.Set(v)
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && holdsModules(f.Type) {
				out.Field(i).Set(c.copy(v.Field(i)))
			}
		}
		return out
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(c.copy(v.Index(i)))
		}
		return out
	case reflect.Array:
		out := reflect.New(v.Type()).Elem()
		for i := range v.Len() {
			out.Index(i).Set(c.copy(v.Index(i)))
		}
		return out
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		out := reflect.MakeMapWithSize(v.Type(), v.Len())
		for _, k := range v.MapKeys() {
			out.SetMapIndex(k, c.copy(v.MapIndex(k)))
		}
		return out
	}
	return v
}

func (c *copier) pointer(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return v
	}
	if v.Type() == tensorType {
		t := v.Interface().(*torch.Tensor)
		if c.tensors[t] == nil {
			c.tensors[t] = t.Clone().SetRequiresGrad(t.RequiresGrad())
		}
		return reflect.ValueOf(c.tensors[t])
	}
	if v.Elem().Kind() != reflect.Struct || v.Type() == generatorType {
		return v
	}
	key := visited{v.Type(), v.Pointer()}
	if made, ok := c.pointers[key]; ok {
		return made
	}
	out := reflect.New(v.Type().Elem())
	c.pointers[key] = out // before its fields, which may point back
	out.Elem().Set(c.copy(v.Elem()))
	return out
}

var generatorType = reflect.TypeFor[*torch.Generator]()
