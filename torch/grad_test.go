package torch_test

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/torchtest"
	"github.com/stretchr/testify/require"
)

// goName is the name of a line's function as Go shows it, for instance "(*Tensor).Add".
func goName(l tableLine) string {
	full := runtime.FuncForPC(reflect.ValueOf(l.fn).Pointer()).Name()
	return full[strings.LastIndexByte(full, '/')+len("/torch."):]
}

// TestOpGradients compares the gradients of every differentiable float64 case with differences. The function under the
// check joins all differentiable results.
func TestOpGradients(t *testing.T) {
	torchtest.NoLeaks(t)
	checked := map[string]bool{}
	for i, c := range opCases() {
		if c.Grad == nil || c.NoCheck != 0 || !float64Only(c) {
			continue
		}
		checked[c.Op] = true
		t.Run(fmt.Sprintf("%s/%d", strings.TrimPrefix(c.Op, "aten::"), i), func(t *testing.T) {
			torch.Scope(func(*torch.Arena) {
				_, leaves := c.arguments(true)
				torchtest.Gradcheck(t, c.joined, leaves)
			})
		})
	}
	require.Greater(t, len(checked), 150)
	for _, c := range opCases() {
		if c.Grad != nil && !checked[c.Op] && c.NoCheck == 0 {
			t.Errorf("%s is differentiable but no case of float64 checks it", c.Op)
		}
	}
}

// float64Only says whether every argument that has a gradient is float64.
func float64Only(c opCase) bool {
	for _, g := range c.Grad {
		arrays, ok := g.v.([]*torchtest.Array)
		if a, one := g.v.(*torchtest.Array); one {
			arrays, ok = []*torchtest.Array{a}, true
		}
		if ok && slices.ContainsFunc(arrays, func(a *torchtest.Array) bool { return a != nil && a.DType != torch.Float64 }) {
			return false
		}
	}
	return true
}

// joined runs the case with its leaves replaced by in and returns the differentiable results in one dimension.
func (c *opCase) joined(in []*torch.Tensor) *torch.Tensor {
	passed, k := make([]any, len(c.Args)), 0
	next := func(g any, written bool, x *torch.Tensor) *torch.Tensor {
		if g == nil || x == nil || !x.DType().IsFloat() {
			return x
		}
		k++
		if written {
			return in[k-1].Clone()
		}
		return in[k-1]
	}
	for i := range c.Args {
		_, written := c.After[i]
		passed[i] = c.live(i, false)
		switch x := passed[i].(type) {
		case *torch.Tensor:
			passed[i] = next(c.Grad[i].v, written, x)
		case []*torch.Tensor:
			for j := range x {
				var g any
				if gs, ok := c.Grad[i].v.([]*torchtest.Array); ok && gs[j] != nil {
					g = gs[j]
				}
				x[j] = next(g, written, x[j])
			}
		}
	}
	if c.Seed != nil {
		torch.ManualSeed(*c.Seed)
	}
	results := torch.Call(c.Op, passed...)
	var flat []*torch.Tensor
	for _, o := range c.differentiable(passed, results) {
		flat = append(flat, o.Reshape(-1))
	}
	return torch.Cat(flat, 0)
}

// withoutSecond lists the operators whose gradient does not depend on anything, or for which libtorch has no second
// derivative, with a part of the error.
var withoutSecond = map[string]string{
	"aten::sign": "does not require grad", "aten::floor": "does not require grad", "aten::ceil": "does not require grad",
	"aten::round": "does not require grad", "aten::trunc": "does not require grad", "aten::div.Tensor_mode": "does not require grad",
	"aten::zero_": "does not require grad", "aten::fill_.Scalar": "does not require grad",
	"aten::grid_sampler": "derivative for aten::grid_sampler_2d_backward",
	"aten::hardsigmoid":  "derivative for aten::hardsigmoid_backward", "aten::cdist": "derivative for '_cdist_backward'",
	"aten::scaled_dot_product_attention": "derivative for aten::_scaled_dot_product_flash_attention_for_cpu_backward",
}

// TestOpSecondGradients is the same for the gradient of the gradient, one case an operator.
func TestOpSecondGradients(t *testing.T) {
	torchtest.NoLeaks(t)
	checked := map[string]bool{}
	for i, c := range opCases() {
		if c.Grad == nil || c.NoCheck != 0 || !float64Only(c) || checked[c.Op] {
			continue
		}
		checked[c.Op] = true
		t.Run(fmt.Sprintf("%s/%d", strings.TrimPrefix(c.Op, "aten::"), i), func(t *testing.T) {
			torch.Scope(func(*torch.Arena) {
				_, leaves := c.arguments(true)
				words := withoutSecond[c.Op]
				if words == "" {
					torchtest.Gradgradcheck(t, c.joined, leaves)
					return
				}
				r := &firstError{TB: t}
				done := make(chan struct{})
				go func() { // Fatalf ends the goroutine
					defer close(done)
					torchtest.Gradgradcheck(r, c.joined, leaves)
				}()
				<-done
				require.Contains(t, r.message, words)
			})
		})
	}
}

// firstError keeps the message of a check that is expected to fail.
type firstError struct {
	testing.TB
	message string
}

func (r *firstError) Helper() {}
func (r *firstError) Fatalf(format string, args ...any) {
	r.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestSymmetricGradients covers the decompositions that read one triangle of a symmetric matrix: a difference in a single
// element would leave their domain, so the matrix is built from x.
func TestSymmetricGradients(t *testing.T) {
	torchtest.NoLeaks(t)
	x := torch.FromSlice([]float64{1, 0.5, -0.25, 0.75, 2, 0.5, -1, 0.25, 1.5}, 3, 3).SetRequiresGrad(true)
	in := []*torch.Tensor{x}
	positive := func(x *torch.Tensor) *torch.Tensor { return x.Matmul(x.T()).Add(torch.Eye(3, torch.Float64)) }
	for name, f := range map[string]func(in []*torch.Tensor) *torch.Tensor{
		"cholesky":     func(in []*torch.Tensor) *torch.Tensor { return positive(in[0]).LinalgCholesky() },
		"eigenvalues":  func(in []*torch.Tensor) *torch.Tensor { v, _ := positive(in[0]).LinalgEigh(); return v },
		"eigenvectors": func(in []*torch.Tensor) *torch.Tensor { _, q := positive(in[0]).LinalgEigh(); return q.Square() },
		"svd": func(in []*torch.Tensor) *torch.Tensor {
			u, s, vh := torch.LinalgSVD(in[0], false)
			return torch.Cat([]*torch.Tensor{u.Square(), s.Unsqueeze(0), vh.Square()}, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			torchtest.Gradcheck(t, f, in)
			torchtest.Gradgradcheck(t, f, in)
		})
	}
}
