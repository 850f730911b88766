package torch_test

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/torchtest"
)

// ends is an autograd function whose backward ends its goroutine, as t.FailNow and require do, below modes and a scope
// of its own.
type ends struct{}

func (ends) Forward(_ *torch.FunctionContext, in []*torch.Tensor) []*torch.Tensor {
	return []*torch.Tensor{in[0].Mul(in[0])}
}

func (ends) Backward(_ *torch.FunctionContext, g []*torch.Tensor) []*torch.Tensor {
	torch.Scope(func(*torch.Arena) {
		torch.EnableGrad(func() {
			torch.Autocast(torch.DeviceCPU, torch.BFloat16, func() {
				g[0].Mul(g[0])
				runtime.Goexit()
			})
		})
	})
	return nil
}

// deep calls f within n backward passes, one inside the hook of another. Beyond 60 libtorch goes on on a thread of its
// own.
func deep(n int, f func()) {
	torch.EnableGrad(func() {
		x := torch.Ones(torch.S(2), torch.RequiresGrad)
		x.RegisterHook(func(*torch.Tensor) *torch.Tensor {
			if n > 0 {
				deep(n-1, f)
			} else {
				f()
			}
			return nil
		})
		x.Mul(x).Sum().Backward()
	})
}

// TestGoexitInBackward: runtime.Goexit in a hook or function is an error of that backward. Whatever thread it ran on
// works afterwards, and its modes are what they were.
func TestGoexitInBackward(t *testing.T) {
	kinds := map[string]func(x *torch.Tensor) *torch.Tensor{
		"hook": func(x *torch.Tensor) *torch.Tensor {
			x.RegisterHook(func(*torch.Tensor) *torch.Tensor { runtime.Goexit(); return nil })
			return x.Mul(x).Sum()
		},
		"function": func(x *torch.Tensor) *torch.Tensor { return torch.Apply(ends{}, x)[0].Sum() },
		"after": func(x *torch.Tensor) *torch.Tensor {
			x.OnAccumulate(func(*torch.Tensor) { runtime.Goexit() })
			return x.Mul(x).Sum()
		},
		"checkpoint": func(x *torch.Tensor) *torch.Tensor {
			runs := 0
			return torch.Checkpoint(func(in []*torch.Tensor) []*torch.Tensor {
				if runs++; runs == 2 {
					runtime.Goexit()
				}
				return []*torch.Tensor{in[0].Mul(in[0])}
			}, x)[0].Sum()
		},
		"deep": func(x *torch.Tensor) *torch.Tensor {
			x.RegisterHook(func(*torch.Tensor) *torch.Tensor { deep(3, runtime.Goexit); return nil })
			return x.Mul(x).Sum()
		},
		"libtorch's thread": func(x *torch.Tensor) *torch.Tensor {
			x.RegisterHook(func(*torch.Tensor) *torch.Tensor { deep(70, runtime.Goexit); return nil })
			return x.Mul(x).Sum()
		},
	}
	for name, loss := range kinds {
		t.Run(name, func(t *testing.T) {
			torchtest.NoLeaks(t)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					torch.Scope(func(*torch.Arena) {
						x := torch.Ones(torch.S(4), torch.RequiresGrad)
						y := loss(x)
						err := torch.Try(func() { y.Backward() })
						if autocast := torch.Ones(torch.S(2, 2)).Matmul(torch.Ones(torch.S(2, 2))).DType(); err == nil || !torch.GradEnabled() || autocast != torch.Float32 {
							t.Errorf("error %v, grad mode %v, products in %v", err, torch.GradEnabled(), autocast)
							return
						}
						if want := "runtime.Goexit"; !strings.Contains(err.Error(), want) {
							t.Errorf("%v lacks %q", err, want)
						}
					})
				})
			}
			wg.Wait()
			for range 64 {
				wg.Go(func() {
					torch.Scope(func(*torch.Arena) {
						x := torch.Ones(torch.S(4), torch.RequiresGrad)
						if err := torch.Try(func() { x.Mul(x).Sum().Backward() }); err != nil {
							t.Error(err)
							return
						}
						if got := torch.ToSlice[float32](x.Grad()); got[3] != 2 {
							t.Errorf("gradient %v", got)
						}
					})
				})
			}
			wg.Wait()
		})
	}
}

// TestFunctionsSeeTheCallersModes: what runs in backward finds the scope and the autocast of the goroutine that waits
// for it, and the grad mode of that backward.
func TestFunctionsSeeTheCallersModes(t *testing.T) {
	torchtest.NoLeaks(t)
	for _, create := range []bool{false, true} {
		torch.Scope(func(s *torch.Arena) {
			x := torch.Ones(torch.S(4), torch.RequiresGrad)
			var seen bool
			var kept *torch.Tensor
			x.RegisterHook(func(g *torch.Tensor) *torch.Tensor {
				seen = torch.GradEnabled()
				kept = s.Keep(g.Add(g)) // an error on a thread that is not the scope's
				return nil
			})
			y := x.Mul(x).Sum()
			if create {
				torch.Grad([]*torch.Tensor{y}, []*torch.Tensor{x}, torch.CreateGraph)
			} else {
				y.Backward()
			}
			require.Equal(t, create, seen)
			require.Equal(t, []float32{4, 4, 4, 4}, torch.ToSlice[float32](kept.Detach()))
			kept.Free()
			require.True(t, torch.GradEnabled())
		})
	}
	torch.Scope(func(*torch.Arena) {
		depth := 0
		deep(100, func() { depth = 100 })
		require.Equal(t, 100, depth)
	})
}

func BenchmarkHook(b *testing.B) {
	for _, hooks := range []int{0, 1, 16} {
		b.Run(map[int]string{0: "none", 1: "one", 16: "sixteen"}[hooks], func(b *testing.B) {
			torch.Scope(func(*torch.Arena) {
				x := torch.Ones(torch.S(4), torch.RequiresGrad)
				for range hooks {
					x.RegisterHook(func(*torch.Tensor) *torch.Tensor { return nil })
				}
				for b.Loop() {
					torch.Scope(func(*torch.Arena) { x.Mul(x).Sum().Backward() })
				}
			})
		})
	}
}
