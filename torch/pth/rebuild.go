package pth

import "fmt"

// newTensor makes a view of a storage from the pickle's own arguments.
func (v *vm) newTensor(d Dtype, args Tuple) (*Tensor, error) {
	s, ok := args[0].(*Storage)
	if !ok {
		return nil, fmt.Errorf("the storage is a %s", typeName(args[0]))
	}
	v.budget.grant(v.tensor - v.left)
	v.tensor = v.left
	offset, ok := args[1].(int64)
	if !ok {
		return nil, fmt.Errorf("the offset is a %s, a whole number within 64 bits is expected", typeName(args[1]))
	}
	shape, err := v.ints(args[2])
	if err != nil {
		return nil, err
	}
	stride, err := v.ints(args[3])
	if err != nil {
		return nil, err
	}
	if d == "" {
		d = s.Dtype
	}
	if d == "" {
		return nil, fmt.Errorf("the storage is untyped and no dtype is given")
	}
	if err := v.budget.charge(160); err != nil {
		return nil, err
	}
	t := &Tensor{Dtype: d, Shape: shape, Stride: stride, Offset: offset, Storage: s}
	return t, t.check()
}

// rebuildTensor is _rebuild_tensor(storage, offset, size, stride) and
// _rebuild_tensor_v2(…, requires_grad, backward_hooks[, metadata]).
func rebuildTensor(v *vm, args Tuple) (any, error) {
	if len(args) != 4 {
		if err := arity(args, 6, 7); err != nil {
			return nil, err
		}
	}
	t, err := v.newTensor("", args)
	if err != nil {
		return nil, err
	}
	if len(args) == 4 {
		return t, nil
	}
	if len(args) == 7 {
		err = noMetadata(args[6])
	}
	if err == nil {
		err = t.gradient(args[4], args[5])
	}
	return t, err
}

// rebuildTensorV3 is _rebuild_tensor_v3(storage, offset, size, stride, requires_grad, backward_hooks, dtype[,
// metadata]).
func rebuildTensorV3(v *vm, args Tuple) (any, error) {
	if err := arity(args, 7, 8); err != nil {
		return nil, err
	}
	d, ok := args[6].(Dtype)
	if !ok {
		return nil, fmt.Errorf("the dtype is a %s", typeName(args[6]))
	}
	t, err := v.newTensor(d, args)
	if err != nil {
		return nil, err
	}
	if len(args) == 8 {
		err = noMetadata(args[7])
	}
	if err == nil {
		err = t.gradient(args[4], args[5])
	}
	return t, err
}

// gradient notes requires_grad and refuses hooks, which would be code.
func (t *Tensor) gradient(requires, hooks any) error {
	g, ok := requires.(bool)
	if !ok {
		return fmt.Errorf("requires_grad is a %s", typeName(requires))
	}
	t.RequiresGrad = g
	if hooks == nil {
		return nil
	}
	d, ok := hooks.(*Dict)
	if !ok || len(d.Items) != 0 {
		return fmt.Errorf("it carries backward hooks")
	}
	return nil
}

// noMetadata refuses the bits that say that a tensor is to be conjugated or negated when it is read.
func noMetadata(m any) error {
	if m == nil {
		return nil
	}
	d, ok := m.(*Dict)
	if !ok {
		return fmt.Errorf("the metadata is a %s", typeName(m))
	}
	for _, it := range d.Items {
		if it.Value != any(false) {
			return fmt.Errorf("a tensor is conjugated or negated lazily (save its resolve_conj() and resolve_neg())")
		}
	}
	return nil
}

// rebuildParameter is _rebuild_parameter(data, requires_grad, backward_hooks[, state]) and Parameter(data[,
// requires_grad]).
func rebuildParameter(v *vm, args Tuple) (any, error) {
	if err := arity(args, 1, 4); err != nil {
		return nil, err
	}
	t, ok := args[0].(*Tensor)
	if !ok {
		return nil, fmt.Errorf("the data is a %s", typeName(args[0]))
	}
	if err := v.budget.charge(160); err != nil {
		return nil, err
	}
	p := *t
	p.Parameter, p.RequiresGrad = true, true
	if len(args) == 1 {
		return &p, nil
	}
	var hooks any
	if len(args) > 2 {
		hooks = args[2]
	}
	return &p, p.gradient(args[1], hooks)
}

// rebuildFromType is _rebuild_from_type_v2(function, class, arguments, attributes), for tensors that carry attributes,
// which are left out.
func rebuildFromType(v *vm, args Tuple) (any, error) {
	if err := arity(args, 4, 4); err != nil {
		return nil, err
	}
	switch args[0] {
	case Class("torch._utils._rebuild_tensor_v2"), Class("torch._utils._rebuild_tensor_v3"), Class("torch._utils._rebuild_parameter"):
	default:
		return nil, fmt.Errorf("made by a %s", typeName(args[0]))
	}
	if args[1] != any(Class("torch.Tensor")) && args[1] != any(Class("torch.nn.parameter.Parameter")) {
		return nil, fmt.Errorf("a tensor of the class %s", typeName(args[1]))
	}
	inner, ok := args[2].(Tuple)
	if !ok {
		return nil, fmt.Errorf("its arguments are a %s", typeName(args[2]))
	}
	return v.call(args[0], inner)
}
