package torch_test

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/torchtest"
)

// cube is x³·y, with the gradient written by hand.
type cube struct{}

func (cube) Forward(c *torch.FunctionContext, in []*torch.Tensor) []*torch.Tensor {
	c.Save(in[0], nil, in[1])
	return []*torch.Tensor{in[0].Pow(3).Mul(in[1])}
}

func (cube) Backward(c *torch.FunctionContext, g []*torch.Tensor) []*torch.Tensor {
	x, y := c.Saved()[0], c.Saved()[2]
	out := make([]*torch.Tensor, 2)
	if c.NeedsGrad(0) {
		out[0] = g[0].Mul(x.Square()).Mul(y).MulScalar(3)
	}
	if c.NeedsGrad(1) {
		out[1] = g[0].Mul(x.Pow(3))
	}
	return out
}

func applyCube(in []*torch.Tensor) *torch.Tensor { return torch.Apply(cube{}, in...)[0] }

// First and second derivatives equal differences.
func TestFunctionGradients(t *testing.T) {
	torchtest.NoLeaks(t)
	torch.Scope(func(*torch.Arena) {
		x := torch.FromSlice([]float64{0.5, -1.25, 2}).SetRequiresGrad(true)
		y := torch.FromSlice([]float64{1.5, 0.25, -1}).SetRequiresGrad(true)
		torchtest.Gradcheck(t, applyCube, []*torch.Tensor{x, y})
		torchtest.Gradgradcheck(t, applyCube, []*torch.Tensor{x, y})
		require.Equal(t, "GoFunction", applyCube([]*torch.Tensor{x, y}).GradFn())
		constant := torch.FromSlice([]float64{1, 1, 1})
		z := applyCube([]*torch.Tensor{x, constant})
		z.Sum().Backward()
		require.Nil(t, constant.Grad())
		require.InDeltaSlice(t, []float64{0.75, 3 * 1.25 * 1.25, 12}, torch.ToSlice[float64](x.Grad()), 1e-12)
	})
}

// Nothing requires a gradient: there is no node.
func TestFunctionWithoutGradient(t *testing.T) {
	torchtest.NoLeaks(t)
	x := torch.Ones(torch.S(2))
	require.Equal(t, "", applyCube([]*torch.Tensor{x, x}).GradFn())
	x.SetRequiresGrad(true)
	torch.NoGrad(func() { require.False(t, applyCube([]*torch.Tensor{x, x}).RequiresGrad()) })
}

// topTwo gives values and indices and saves an output.
type topTwo struct{}

func (topTwo) Forward(c *torch.FunctionContext, in []*torch.Tensor) []*torch.Tensor {
	v, at := in[0].Topk(2, 0, true, true)
	c.Save(at)
	c.NotDifferentiable(at)
	c.Value = in[0].Size(0)
	return []*torch.Tensor{v, at, in[0]}
}

func (topTwo) Backward(c *torch.FunctionContext, g []*torch.Tensor) []*torch.Tensor {
	d := torch.Zeros(torch.S(c.Value.(int)))
	if g[0] != nil {
		d = d.ScatterAdd(0, c.Saved()[0], g[0])
	}
	if g[2] != nil {
		d = d.Add(g[2])
	}
	return []*torch.Tensor{d}
}

func TestFunctionSeveralOutputs(t *testing.T) {
	torchtest.NoLeaks(t)
	torch.Scope(func(*torch.Arena) {
		x := torch.FromSlice([]float32{1, 4, 2, 3}).SetRequiresGrad(true)
		out := torch.Apply(topTwo{}, x)
		require.Equal(t, []float32{4, 3}, torch.ToSlice[float32](out[0]))
		require.Equal(t, []int64{1, 3}, torch.ToSlice[int64](out[1]))
		require.False(t, out[1].RequiresGrad())
		require.True(t, out[2].Equal(x))
		require.False(t, out[2].Same(x))
		out[0].MulScalar(10).Sum().Backward(torch.RetainGraph)
		require.Equal(t, []float32{0, 10, 0, 10}, torch.ToSlice[float32](x.Grad()))
		x.SetGrad(nil)
		out[0].Sum().Add(out[2].MulScalar(2).Sum()).Backward()
		require.Equal(t, []float32{2, 3, 2, 3}, torch.ToSlice[float32](x.Grad()))
	})
}

type broken struct{ f func() []*torch.Tensor }

func (broken) Forward(c *torch.FunctionContext, in []*torch.Tensor) []*torch.Tensor {
	c.Save(in[0])
	return []*torch.Tensor{in[0].MulScalar(2)}
}

func (b broken) Backward(*torch.FunctionContext, []*torch.Tensor) []*torch.Tensor { return b.f() }

// What goes wrong in Go code within backward is the error of that backward.
func TestFunctionErrors(t *testing.T) {
	torchtest.NoLeaks(t)
	x := torch.Ones(torch.S(2), torch.RequiresGrad)
	run := func(f func() []*torch.Tensor) error {
		return torch.Try(func() {
			torch.Scope(func(*torch.Arena) { torch.Apply(broken{f}, x)[0].Sum().Backward() })
		})
	}
	err := run(func() []*torch.Tensor { return []*torch.Tensor{x.Mm(x)} })
	require.ErrorContains(t, err, "self must be a matrix")
	require.ErrorContains(t, run(func() []*torch.Tensor { panic("boom") }), "panic in a Go function of the graph: boom")
	require.ErrorContains(t, run(func() []*torch.Tensor { panic("boom") }), "function_test.go")
	require.ErrorContains(t, run(func() []*torch.Tensor { return nil }), "Backward returned 0 gradients for 1 inputs")
	require.ErrorContains(t, run(func() []*torch.Tensor { return []*torch.Tensor{torch.Ones(torch.S(3))} }), "shape")
	require.ErrorIs(t, run(func() []*torch.Tensor { return []*torch.Tensor{nil, x}[:1:1][:0] }), torch.ErrValue)
	require.NoError(t, run(func() []*torch.Tensor { return []*torch.Tensor{nil} }))
	require.Nil(t, x.Grad())

	// A second backward through a freed graph, and a saved tensor that was written to.
	torch.Scope(func(*torch.Arena) {
		y := applyCube([]*torch.Tensor{x, x}).Sum()
		y.Backward()
		require.ErrorContains(t, torch.Try(func() { y.Backward() }), "backward through the graph a second time")
		z := applyCube([]*torch.Tensor{x, x}).Sum()
		torch.NoGrad(func() { x.AddScalar_(1) })
		require.ErrorContains(t, torch.Try(func() { z.Backward() }), "use the form without _, or Clone the tensor before")
		// Below an operator Go code cannot run.
		w := applyCube([]*torch.Tensor{x, x}).Sum()
		require.ErrorContains(t, torch.Try(func() { torch.Call("aten::_backward", w, []*torch.Tensor{}, nil, false, false) }), "must be run by Backward or Grad")
	})
}

// Functions are given back with their graphs.
func TestFunctionsAreForgotten(t *testing.T) {
	x := torch.Ones(torch.S(2), torch.RequiresGrad)
	gone := make(chan bool, 1)
	func() {
		f := &struct{ a [64]byte }{}
		runtime.AddCleanup(f, func(c chan bool) { c <- true }, gone)
		torch.Scope(func(*torch.Arena) {
			torch.Apply(broken{func() []*torch.Tensor { f.a[0]++; return []*torch.Tensor{nil} }}, x)[0].Sum().Backward()
		})
	}()
	for range 50 {
		torch.Scope(func(*torch.Arena) { applyCube([]*torch.Tensor{x, x}) })
		runtime.GC()
		select {
		case <-gone:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatal("the function's closure is still referenced after its graph is gone")
}

// Many goroutines run graphs with Go functions at once; Go code within backward may call operators.
func TestFunctionsFromManyGoroutines(t *testing.T) {
	torchtest.NoLeaks(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for k := range 20 {
				torch.Scope(func(*torch.Arena) {
					v := float64(i + k)
					x := torch.FromSlice([]float64{v, 1}).SetRequiresGrad(true)
					applyCube([]*torch.Tensor{x, x.MulScalar(2)}).Sum().Backward() // 2x⁴
					if g := torch.ToSlice[float64](x.Grad()); math.Abs(g[0]-8*v*v*v) > 1e-9*(1+math.Abs(g[0])) {
						t.Errorf("gradient %v at %v", g, v)
					}
				})
			}
		}()
	}
	wg.Wait()
}

// OnAccumulate runs behind the accumulation of all parts of a gradient, once for each backward.
func TestOnAccumulate(t *testing.T) {
	x := torch.FromSlice([]float32{1, 2}).SetRequiresGrad(true)
	var seen [][]float32
	x.OnAccumulate(func(leaf *torch.Tensor) {
		seen = append(seen, torch.ToSlice[float32](leaf.Grad()))
		torch.ZeroGrad([]*torch.Tensor{leaf}, false)
		torch.NoGrad(func() { leaf.Mul_(torch.Scalar(float32(2))) })
	})
	x.Mul(x).Add(x).Sum().Backward()
	require.Equal(t, [][]float32{{3, 5}}, seen)
	require.Nil(t, x.Grad())
	require.Equal(t, []float32{2, 4}, torch.ToSlice[float32](x))
	x.OnAccumulate(nil)
	x.Sum().Backward()
	require.Len(t, seen, 1)
	require.Equal(t, []float32{1, 1}, torch.ToSlice[float32](x.Grad()))
	x.OnAccumulate(func(*torch.Tensor) { panic("on purpose") })
	require.Panics(t, func() { x.Sum().Backward() })
	require.Panics(t, func() { x.Mul(x).OnAccumulate(func(*torch.Tensor) {}) })
	require.Panics(t, func() { torch.Ones(torch.S(1)).OnAccumulate(func(*torch.Tensor) {}) })
}

func TestTensorHooks(t *testing.T) {
	torchtest.NoLeaks(t)
	torch.Scope(func(*torch.Arena) {
		x := torch.FromSlice([]float32{1, 2}).SetRequiresGrad(true)
		y := x.MulScalar(3)
		var seen [][]float32
		see := y.RegisterHook(func(g *torch.Tensor) *torch.Tensor {
			seen = append(seen, torch.ToSlice[float32](g))
			return nil
		})
		double := y.RegisterHook(func(g *torch.Tensor) *torch.Tensor { return g.MulScalar(2) })
		leaf := x.RegisterHook(func(g *torch.Tensor) *torch.Tensor { return g.AddScalar(0.5) })
		y.Square().Sum().Backward(torch.RetainGraph)
		require.Equal(t, [][]float32{{6, 12}}, seen)
		require.Equal(t, []float32{36.5, 72.5}, torch.ToSlice[float32](x.Grad()))
		x.SetGrad(nil)
		see.Remove()
		double.Remove()
		leaf.Remove()
		y.Square().Sum().Backward()
		require.Len(t, seen, 1)
		require.Equal(t, []float32{18, 36}, torch.ToSlice[float32](x.Grad()))
		require.ErrorContains(t, torch.Try(func() { torch.Ones(torch.S(1)).RegisterHook(nil) }), "doesn't require gradient")
		z := x.MulScalar(1)
		z.RegisterHook(func(*torch.Tensor) *torch.Tensor { panic("from the hook") })
		require.ErrorContains(t, torch.Try(func() { z.Sum().Backward() }), "from the hook")
	})
}

// Checkpointing changes neither values nor gradients, dropout and autocast included, and keeps less.
func TestCheckpoint(t *testing.T) {
	torchtest.NoLeaks(t)
	w := torch.Randn(torch.S(8, 8), torch.RequiresGrad)
	x := torch.Randn(torch.S(4, 8))
	for _, inputGrad := range []bool{true, false} {
		for _, autocast := range []bool{true, false} {
			run := func(checkpoint bool) (y, gw, gx []float32, runs int) {
				torch.Scope(func(*torch.Arena) {
					torch.ManualSeed(3)
					in := x.Detach().Clone().SetRequiresGrad(inputGrad)
					f := func(in []*torch.Tensor) []*torch.Tensor {
						runs++
						return []*torch.Tensor{torch.Dropout(in[0].Matmul(w).Tanh(), 0.5, true).Matmul(w)}
					}
					var out *torch.Tensor
					body := func() {
						if checkpoint {
							out = torch.Checkpoint(f, in)[0]
						} else {
							out = f([]*torch.Tensor{in})[0]
						}
					}
					if autocast {
						torch.Autocast(torch.DeviceCPU, torch.BFloat16, body)
					} else {
						body()
					}
					torch.Rand(torch.S(5)) // the generator moves on
					out = out.ToDType(torch.Float32)
					out.Square().Sum().Backward()
					next := torch.Rand(torch.S(1)).Item()
					y, gw = append(torch.ToSlice[float32](out.Flatten(0, -1)), float32(next)), torch.ToSlice[float32](w.Grad().Flatten(0, -1))
					if inputGrad {
						gx = torch.ToSlice[float32](in.Grad().Flatten(0, -1))
					}
					w.SetGrad(nil)
				})
				return y, gw, gx, runs
			}
			y, gw, gx, once := run(false)
			y2, gw2, gx2, twice := run(true)
			require.Equal(t, []any{y, gw, gx}, []any{y2, gw2, gx2})
			require.Equal(t, []int{1, 2}, []int{once, twice})
		}
	}
	torch.NoGrad(func() {
		require.False(t, torch.Checkpoint(func(in []*torch.Tensor) []*torch.Tensor { return []*torch.Tensor{in[0].Matmul(w)} }, x)[0].RequiresGrad())
	})
}

func TestJacobianHessian(t *testing.T) {
	torchtest.NoLeaks(t)
	torch.Scope(func(*torch.Arena) {
		x := torch.FromSlice([]float64{1, 2, -1})
		a := torch.FromSlice([]float64{1, 2, 3, 4, 5, 6}).Reshape(2, 3)
		require.True(t, torch.Jacobian(func(x *torch.Tensor) *torch.Tensor { return a.Mv(x) }, x).Equal(a))
		// Σxᵢ³ + x₀·x₁
		h := torch.Hessian(func(x *torch.Tensor) *torch.Tensor { return x.Pow(3).Sum().Add(x.Select(0, 0).Mul(x.Select(0, 1))) }, x)
		require.Equal(t, []float64{6, 1, 0, 1, 12, 0, 0, 0, -6}, torch.ToSlice[float64](h.Flatten(0, -1)))
		require.Equal(t, []float64{0, 0, 0, 0, 0, 0, 0, 0, 0}, torch.ToSlice[float64](torch.Hessian((*torch.Tensor).Sum, x).Flatten(0, -1)))
		require.ErrorContains(t, torch.Try(func() { torch.Hessian((*torch.Tensor).Neg, x) }), "must have one value")
	})
}

func TestDetectAnomaly(t *testing.T) {
	torchtest.NoLeaks(t)
	x := torch.FromSlice([]float32{0}).SetRequiresGrad(true)
	bad := func() { torch.Scope(func(*torch.Arena) { x.Sqrt().Mul(x).Sum().Backward() }) }
	require.NoError(t, torch.Try(bad))
	require.True(t, math.IsNaN(x.Grad().Item()))
	require.ErrorContains(t, torch.Try(func() { torch.DetectAnomaly(bad) }), "Function 'SqrtBackward0' returned nan values in its 0th output")
	require.NoError(t, torch.Try(bad), "anomaly detection ends with its function, also by a panic")
}

func TestInplaceErrorIsReadable(t *testing.T) {
	torchtest.NoLeaks(t)
	torch.Scope(func(*torch.Arena) {
		x := torch.Ones(torch.S(3), torch.RequiresGrad)
		y := x.Exp()
		y.AddScalar_(1)
		err := torch.Try(func() { y.Sum().Backward() })
		require.ErrorContains(t, err, "which is output 0 of ExpBackward0, is at version 1; expected version 0 instead. A method that writes its receiver")
		require.NotContains(t, err.Error(), "torch.autograd.set_detect_anomaly")
	})
}

func TestFlags(t *testing.T) {
	for name, f := range map[string]struct {
		set func(bool)
		get func() bool
	}{
		"tf32": {torch.SetAllowTF32, torch.AllowTF32}, "benchmark": {torch.SetCuDNNBenchmark, torch.CuDNNBenchmark},
		"cudnn": {torch.SetCuDNNDeterministic, torch.CuDNNDeterministic}, "deterministic": {torch.SetDeterministic, torch.Deterministic},
	} {
		before := f.get()
		for _, on := range []bool{true, false} {
			f.set(on)
			require.Equal(t, on, f.get(), name)
		}
		f.set(before)
	}
	for _, p := range []string{"high", "medium", "highest"} {
		torch.SetFloat32MatmulPrecision(p)
		require.Equal(t, p, torch.Float32MatmulPrecision())
	}
	require.ErrorContains(t, torch.Try(func() { torch.SetFloat32MatmulPrecision("low") }), "want highest, high or medium")
	// An operator without a deterministic form.
	put := func() {
		torch.Call("aten::put_", torch.Zeros(torch.S(2)), torch.FromSlice([]int64{0, 0}), torch.Ones(torch.S(2)), false)
	}
	put()
	t.Setenv("CUBLAS_WORKSPACE_CONFIG", "")
	torch.SetDeterministic(true)
	defer torch.SetDeterministic(false)
	require.Equal(t, ":4096:8", os.Getenv("CUBLAS_WORKSPACE_CONFIG"), "without it cuBLAS refuses products")
	t.Setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
	torch.SetDeterministic(true)
	require.Equal(t, ":16:8", os.Getenv("CUBLAS_WORKSPACE_CONFIG"), "what is set stays")
	require.ErrorContains(t, torch.Try(put), "put_ does not have a deterministic implementation")
}

func TestProfiled(t *testing.T) {
	x := torch.Ones(torch.S(64, 64), torch.RequiresGrad)
	p := torch.Profiled(func() {
		torch.Scope(func(*torch.Arena) {
			for range 3 {
				x.Matmul(x).Relu().Sum().Backward()
			}
			require.ErrorContains(t, torch.Try(func() { torch.Profiled(func() {}) }), "already")
		})
	})
	calls := map[string]torch.ProfileRow{}
	for _, r := range p {
		calls[r.Name] = r
	}
	require.Equal(t, 3, calls["aten::relu"].Calls)
	require.Equal(t, 9, calls["aten::mm"].Calls, "forward once, backward twice")
	require.GreaterOrEqual(t, calls["aten::matmul"].Total, calls["aten::matmul"].Self)
	require.Greater(t, calls["aten::mm"].Self, time.Duration(0))
	require.Contains(t, p.String(), "aten::mm\n")
	require.True(t, strings.HasPrefix(strings.TrimSpace(p.String()), "self"))
	require.Empty(t, torch.Profiled(func() {}))
	_ = fmt.Sprint(p)
}
