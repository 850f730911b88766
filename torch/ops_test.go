package torch_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/torchtest"
	"github.com/stretchr/testify/require"
)

// live turns arrays into tensors; with grad the floating point ones become leaves where the case has a gradient.
func (c *opCase) live(i int, grad bool) any {
	leaf := func(a *torchtest.Array, g any) *torch.Tensor {
		x := a.Tensor()
		if grad && g != nil && a.DType.IsFloat() {
			x.SetRequiresGrad(true)
		}
		return x
	}
	switch a := c.Args[i].v.(type) {
	case *torchtest.Array:
		var g any
		if c.Grad != nil {
			g = c.Grad[i].v
		}
		return leaf(a, g)
	case []*torchtest.Array:
		out := make([]*torch.Tensor, len(a))
		for k := range a {
			if a[k] != nil {
				var g any
				if c.Grad != nil && c.Grad[i].v != nil {
					g = c.Grad[i].v.([]*torchtest.Array)[k]
				}
				out[k] = leaf(a[k], g)
			}
		}
		return out
	}
	return c.Args[i].v
}

// arguments makes the live arguments, the leaves among them, and what is passed: clones where the operator writes.
func (c *opCase) arguments(grad bool) (passed []any, leaves []*torch.Tensor) {
	passed = make([]any, len(c.Args))
	for i := range c.Args {
		_, written := c.After[i]
		passed[i] = c.live(i, grad)
		switch x := passed[i].(type) {
		case *torch.Tensor:
			if x.RequiresGrad() {
				leaves = append(leaves, x)
				if written {
					passed[i] = x.Clone()
				}
			}
		case []*torch.Tensor:
			for k := range x {
				if x[k] != nil && x[k].RequiresGrad() {
					leaves = append(leaves, x[k])
					if written {
						x[k] = x[k].Clone()
					}
				}
			}
		}
	}
	return passed, leaves
}

// differentiable collects the tensors among the results and the written arguments through which gradients flow.
func (c *opCase) differentiable(passed, results []any) []*torch.Tensor {
	var out []*torch.Tensor
	collect := func(v any) {
		switch x := v.(type) {
		case *torch.Tensor:
			if x.RequiresGrad() {
				out = append(out, x)
			}
		case []*torch.Tensor:
			for _, y := range x {
				if y.RequiresGrad() {
					out = append(out, y)
				}
			}
		}
	}
	for _, r := range results {
		collect(r)
	}
	for i := range c.Args {
		if _, written := c.After[i]; written {
			collect(passed[i])
		}
	}
	if c.Through != nil {
		out = out[*c.Through : *c.Through+1]
	}
	return out
}

// weights are those of make_ops.py.
func weights(outs []*torch.Tensor) []*torch.Tensor {
	ws, k := make([]*torch.Tensor, len(outs)), 0
	for i, o := range outs {
		w := make([]float64, o.Numel())
		for j := range w {
			w[j] = float64((k+j)*7%11-4) / 8
		}
		k += len(w)
		ws[i] = torch.FromSlice(w).Reshape(o.Shape()...).ToDType(o.DType())
	}
	return ws
}

// fits says whether the case can go through a line of the table: what it gives is shown, and what is shown it has.
func (c *opCase) fits(l tableLine) bool {
	if l.op() != c.Op {
		return false
	}
	f := reflect.TypeOf(l.fn)
	for k, i := range l.shown {
		if i >= len(c.Args) {
			return false
		}
		if kind := f.In(k).Kind(); c.Args[i].v == nil && (kind == reflect.Int || kind == reflect.Float64 || kind == reflect.String) {
			return false // a Go int cannot be None
		}
	}
	for i, a := range c.Args {
		if !slices.Contains(l.shown, i) && !a.byDefault {
			return false
		}
	}
	return true
}

// callGo passes the shown arguments to a line's Go function and returns the results as Call does.
func callGo(l tableLine, args []any) []any {
	f := reflect.ValueOf(l.fn)
	in := make([]reflect.Value, len(l.shown))
	for k, i := range l.shown {
		in[k] = goValue(args[i], f.Type().In(k))
	}
	var rs []reflect.Value
	if f.Type().IsVariadic() {
		rs = f.CallSlice(in)
	} else {
		rs = f.Call(in)
	}
	out := make([]any, len(rs))
	for i, r := range rs {
		out[i] = r.Interface()
	}
	return out
}

// goValue converts as a Go programmer would have written the argument.
func goValue(v any, t reflect.Type) reflect.Value {
	if v == nil {
		return reflect.Zero(t)
	}
	if ints, ok := v.([]int); ok && len(ints) == 0 {
		return reflect.MakeSlice(t, 0, 0)
	}
	r := reflect.ValueOf(v)
	if !r.Type().AssignableTo(t) && r.CanConvert(t) && (t.Kind() == reflect.Float64 || t.Kind() == reflect.Int) {
		return r.Convert(t)
	}
	return r
}

// check compares one result or written argument.
func (c *opCase) check(t *testing.T, what string, got any, want value) {
	t.Helper()
	switch w := want.v.(type) {
	case *torchtest.Array:
		x, ok := got.(*torch.Tensor)
		require.True(t, ok, "%s is a %T, want a tensor", what, got)
		c.close(t, what, x, w)
	case []*torchtest.Array:
		xs, ok := got.([]*torch.Tensor)
		require.True(t, ok, "%s is a %T, want tensors", what, got)
		require.Len(t, xs, len(w), what)
		for i := range w {
			if w[i] == nil {
				require.Nil(t, xs[i], "%s %d", what, i)
				continue
			}
			c.close(t, fmt.Sprintf("%s %d", what, i), xs[i], w[i])
		}
	default:
		require.Equal(t, want.v, got, what)
	}
}

func (c *opCase) close(t *testing.T, what string, got *torch.Tensor, want *torchtest.Array) {
	t.Helper()
	rtol, atol := 1e-9, 1e-11
	switch {
	case c.Seed != nil && c.Grad == nil:
		rtol, atol = rngTolerance(want.DType), rngTolerance(want.DType)
	case want.DType == torch.Float32:
		rtol, atol = 2e-5, 2e-6
	case want.DType == torch.Float16 || want.DType == torch.BFloat16:
		rtol, atol = 1e-2, 1e-2
	case !want.DType.IsFloat():
		rtol, atol = 0, 0
	}
	if c.Tol != 0 {
		rtol, atol = c.Tol, c.Tol/10
	}
	expected := want.Tensor()
	switch {
	case got == nil:
		t.Errorf("%s is nil", what)
	case c.Cmp == "shape":
		require.Equal(t, expected.Shape(), got.Shape(), what)
		require.Equal(t, expected.DType(), got.DType(), what)
		return
	case c.Cmp == "abs":
		got, expected = got.Abs(), expected.Abs()
	}
	if !torchtest.AllClose(t, got, expected, rtol, atol) {
		t.Errorf("… that was %s of %s", what, c.Op)
	}
}

// verify runs a case through one way of calling and compares results, written arguments and gradients.
func (c *opCase) verify(t *testing.T, call func(args []any) []any) {
	t.Helper()
	torch.Scope(func(*torch.Arena) {
		passed, leaves := c.arguments(true)
		if c.Seed != nil {
			torch.ManualSeed(*c.Seed)
		}
		results := call(passed)
		require.Len(t, results, len(c.Out), "results")
		for i, want := range c.Out {
			c.check(t, fmt.Sprintf("result %d", i), results[i], want)
		}
		for i, want := range c.After {
			c.check(t, fmt.Sprintf("argument %d afterwards", i+1), passed[i], want)
		}
		if c.Grad == nil {
			return
		}
		outs := c.differentiable(passed, results)
		grads := torch.Grad(outs, leaves, torch.WithGradient(weights(outs)...), torch.AllowUnused)
		k := 0
		for i, want := range c.Grad {
			what := fmt.Sprintf("gradient of argument %d", i+1)
			switch w := want.v.(type) {
			case *torchtest.Array:
				c.check(t, what, grads[k], want)
				k++
			case []*torchtest.Array:
				n := 0
				for _, g := range w {
					if g != nil {
						n++
					}
				}
				c.check(t, what, grads[k:k+n], value{v: slices.DeleteFunc(slices.Clone(w), func(g *torchtest.Array) bool { return g == nil })})
				k += n
			}
		}
		require.Equal(t, k, len(grads))
	})
}

// TestOpsByCall runs every case through Call.
func TestOpsByCall(t *testing.T) {
	torchtest.NoLeaks(t)
	for i, c := range opCases() {
		ok := t.Run(fmt.Sprintf("%s/%d", strings.TrimPrefix(c.Op, "aten::"), i), func(t *testing.T) {
			c.verify(t, func(args []any) []any { return torch.Call(c.Op, args...) })
		})
		if !ok {
			t.Logf("case %d is line %d of ops.json", i, i+2)
		}
	}
}

// TestOpsByMethod runs the cases through the typed functions and methods. A line of the table without a case fails.
func TestOpsByMethod(t *testing.T) {
	torchtest.NoLeaks(t)
	cases := map[string][]*opCase{}
	for i := range opCases() {
		c := &opCases()[i]
		cases[c.Op] = append(cases[c.Op], c)
	}
	for _, l := range table {
		name := goName(l)
		t.Run(name, func(t *testing.T) {
			ran := 0
			for i, c := range cases[l.op()] {
				if !c.fits(l) {
					continue
				}
				ran++
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					c.verify(t, func(args []any) []any {
						results := callGo(l, args)
						if len(c.After) > 0 && len(c.Out) == 0 && len(results) == 1 { // in-place methods return their receiver
							require.True(t, results[0] == args[0], "%s does not return its receiver", name)
							results = nil
						}
						return results
					})
				})
			}
			if ran == 0 {
				t.Errorf("testdata/torch/ops.json has no case for %s (%s); add one to a cases_*.py beside it and run make_ops.py", name, l.op())
			}
		})
	}
}
