package torchtest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gospml/gospml/torch"
)

// Option changes a tolerance of Gradcheck and Gradgradcheck.
type Option func(*tolerance)

type tolerance struct{ eps, atol, rtol float64 }

// Eps sets the step of the differences, 1e-6 by default.
func Eps(v float64) Option { return func(o *tolerance) { o.eps = v } }

// Atol sets the absolute tolerance, 1e-5 by default.
func Atol(v float64) Option { return func(o *tolerance) { o.atol = v } }

// Rtol sets the relative tolerance, 1e-3 by default.
func Rtol(v float64) Option { return func(o *tolerance) { o.rtol = v } }

// Gradcheck compares the gradients of f with central differences, as torch.autograd.gradcheck does: for every element of
// the result and every element of the inputs that require grad, which must be float64,
//
//	|analytical - numerical| <= atol + rtol·|numerical|
//
// The analytical gradients are computed twice and must agree bit for bit. f must not change its inputs nor depend on
// anything that changes, and its result must be float64. The cost is 2 calls of f for an input element and 2 backwards for
// a result element, so inputs should be small.
func Gradcheck(t testing.TB, f func(in []*torch.Tensor) *torch.Tensor, inputs []*torch.Tensor, opts ...Option) {
	t.Helper()
	if err := gradcheck(f, inputs, opts); err != nil {
		t.Fatalf("gradcheck: %v", err)
	}
}

// Gradgradcheck is Gradcheck of the gradient function: it differentiates (inputs, v) -> Σ v·∂f/∂inputs, recorded with
// CreateGraph, where v stands for the gradient of f's result and takes fixed values of both signs.
func Gradgradcheck(t testing.TB, f func(in []*torch.Tensor) *torch.Tensor, inputs []*torch.Tensor, opts ...Option) {
	t.Helper()
	if err := gradgradcheck(f, inputs, opts); err != nil {
		t.Fatalf("gradgradcheck: %v", err)
	}
}

func gradcheck(f func([]*torch.Tensor) *torch.Tensor, inputs []*torch.Tensor, opts []Option) error {
	o := tolerance{eps: 1e-6, atol: 1e-5, rtol: 1e-3}
	for _, set := range opts {
		set(&o)
	}
	checked, err := differentiable(inputs)
	if err != nil {
		return err
	}
	var analytical [][][]float64 // per checked input: [element][result element]
	var shape []int              // of the result
	if err := run(func() error {
		analytical, shape, err = analyse(f, inputs, checked)
		return err
	}); err != nil {
		return err
	}
	for n, i := range checked {
		x := inputs[i]
		in := x.Shape()
		bad, worst := 0, ""
		var worstExcess float64
		for k := range x.Numel() {
			var numerical []float64
			if err := run(func() error {
				numerical, err = difference(f, inputs, x, position(in, k), o.eps)
				return err
			}); err != nil {
				return err
			}
			if len(numerical) != len(analytical[n][k]) {
				return fmt.Errorf("f gave %d elements, then %d: it must not depend on anything but its inputs", len(analytical[n][k]), len(numerical))
			}
			for j, b := range numerical {
				a := analytical[n][k][j]
				allowed := o.atol + o.rtol*math.Abs(b)
				if math.Abs(a-b) <= allowed {
					continue
				}
				bad++
				excess := math.Abs(a-b) / allowed
				if worst == "" || excess > worstExcess || math.IsNaN(excess) {
					worstExcess = excess
					worst = fmt.Sprintf("∂result%v/∂input%v: analytical %v, numerical %v (|difference| %.3g, allowed %.3g)", position(shape, j), position(in, k), a, b, math.Abs(a-b), allowed)
				}
			}
		}
		if bad > 0 {
			return fmt.Errorf("input %d: %d of %d derivatives are wrong; the worst is %s", i, bad, x.Numel()*product(shape), worst)
		}
	}
	return nil
}

// differentiable returns the indices of the inputs to check, or says why an input cannot be checked.
func differentiable(inputs []*torch.Tensor) ([]int, error) {
	var checked []int
	err := run(func() error {
		for i, x := range inputs {
			if x == nil || !x.RequiresGrad() {
				continue
			}
			if x.DType() != torch.Float64 {
				return fmt.Errorf("input %d is %v; differences need float64", i, x.DType())
			}
			shape := x.Shape()
			for d, step := range x.Strides() {
				if step == 0 && shape[d] > 1 {
					return fmt.Errorf("input %d is expanded: its elements share memory and cannot be changed one by one", i)
				}
			}
			checked = append(checked, i)
		}
		if len(checked) == 0 {
			return fmt.Errorf("no input requires grad")
		}
		return nil
	})
	return checked, err
}

// run calls f in a scope and turns a panic of tensor maths into its error.
func run(f func() error) (err error) {
	if e := torch.Try(func() { torch.Scope(func(*torch.Arena) { err = f() }) }); e != nil {
		return e
	}
	return err
}

// analyse computes the Jacobian by one backward per result element, twice.
func analyse(f func([]*torch.Tensor) *torch.Tensor, inputs []*torch.Tensor, checked []int) ([][][]float64, []int, error) {
	out := f(inputs)
	switch {
	case out == nil:
		return nil, nil, fmt.Errorf("f returned nil")
	case out.DType() != torch.Float64:
		return nil, nil, fmt.Errorf("the result is %v; differences need float64", out.DType())
	case !out.RequiresGrad():
		return nil, nil, fmt.Errorf("the result does not require grad: no gradient flows from it to the inputs")
	}
	shape, m := out.Shape(), out.Numel()
	xs := make([]*torch.Tensor, len(checked))
	jacobian := make([][][]float64, len(checked))
	for n, i := range checked {
		xs[n] = inputs[i]
		jacobian[n] = make([][]float64, xs[n].Numel())
		for k := range jacobian[n] {
			jacobian[n][k] = make([]float64, m)
		}
	}
	unit := make([]float64, m)
	for j := range m {
		unit[j] = 1
		v := shaped(unit, shape)
		unit[j] = 0
		for pass := range 2 {
			for n, g := range torch.Grad([]*torch.Tensor{out}, xs, torch.WithGradient(v), torch.RetainGraph, torch.AllowUnused) {
				if g == nil {
					continue
				}
				if !slices.Equal(g.Shape(), xs[n].Shape()) || g.DType() != torch.Float64 {
					return nil, nil, fmt.Errorf("the gradient of input %d is %v %v, the input %v float64", checked[n], g.Shape(), g.DType(), xs[n].Shape())
				}
				for k, a := range torch.ToSlice[float64](g) {
					if b := jacobian[n][k][j]; pass == 1 && math.Float64bits(a) != math.Float64bits(b) {
						return nil, nil, fmt.Errorf("two backwards of result%v disagree at input %d%v: %v and %v", position(shape, j), checked[n], position(xs[n].Shape(), k), b, a)
					}
					jacobian[n][k][j] = a
				}
			}
		}
	}
	return jacobian, shape, nil
}

// difference is (f(x+eps) - f(x-eps)) / 2·eps for one element of x, which is restored.
func difference(f func([]*torch.Tensor) *torch.Tensor, inputs []*torch.Tensor, x *torch.Tensor, at []int, eps float64) ([]float64, error) {
	element := x.Detach()
	for _, i := range at {
		element = element.Select(0, i)
	}
	v := element.Item()
	defer element.Fill_(v)
	element.Fill_(v + eps)
	up := f(inputs)
	element.Fill_(v - eps)
	down := f(inputs)
	if up == nil || down == nil || up.DType() != torch.Float64 || down.DType() != torch.Float64 {
		return nil, fmt.Errorf("the result was float64 and then was not: f must not depend on anything but its inputs")
	}
	a, b := torch.ToSlice[float64](up), torch.ToSlice[float64](down)
	if len(a) != len(b) {
		return nil, fmt.Errorf("f gave %d elements, then %d: it must not depend on anything but its inputs", len(a), len(b))
	}
	for j := range a {
		a[j] = (a[j] - b[j]) / (2 * eps)
	}
	return a, nil
}

func gradgradcheck(f func([]*torch.Tensor) *torch.Tensor, inputs []*torch.Tensor, opts []Option) error {
	checked, err := differentiable(inputs)
	if err != nil {
		return err
	}
	var shape []int
	if err := run(func() error {
		out := f(inputs)
		if out == nil || out.DType() != torch.Float64 {
			return fmt.Errorf("the result is not float64")
		}
		shape = out.Shape()
		return nil
	}); err != nil {
		return err
	}
	values := make([]float64, product(shape))
	for i := range values {
		values[i] = float64(i*7%11-4)/8 + 0.0625
	}
	v := shaped(values, shape).SetRequiresGrad(true)
	defer v.Free()
	last := len(inputs)
	second := func(in []*torch.Tensor) *torch.Tensor {
		xs := make([]*torch.Tensor, len(checked))
		for n, i := range checked {
			xs[n] = in[i]
		}
		var flat []*torch.Tensor
		for _, g := range torch.Grad([]*torch.Tensor{f(in[:last])}, xs, torch.WithGradient(in[last]), torch.CreateGraph, torch.AllowUnused) {
			if g != nil {
				flat = append(flat, g.Reshape(-1))
			}
		}
		return torch.Cat(flat, 0)
	}
	return gradcheck(second, append(slices.Clone(inputs), v), opts)
}

// shaped copies values into a tensor; unlike FromSlice it takes an empty shape as zero-dimensional.
func shaped[T torch.Element](values []T, shape []int) *torch.Tensor {
	if len(shape) == 0 {
		return torch.Scalar(values[0])
	}
	return torch.FromSlice(values, shape...)
}

// position is the multi-index of the k-th element of a shape.
func position(shape []int, k int) []int {
	at := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		at[d], k = k%shape[d], k/shape[d]
	}
	return at
}

func product(shape []int) int {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return n
}
