package torch

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requireUnusable asserts that using the tensor is an error of KindHandle that says why.
func requireUnusable(t *testing.T, x *Tensor, why string) {
	t.Helper()
	err := Try(func() { x.AddScalar(1) })
	require.ErrorIs(t, err, ErrHandle)
	require.ErrorContains(t, err, why)
}

const (
	whyFreed = "the tensor was freed"
	whyEnded = "the tensor is used after its scope ended; keep it with the scope's Keep"
)

// settled counts the tensors after the garbage of earlier tests is gone.
func settled() int {
	n := -1
	for m := Live(); m != n; m = Live() {
		n = m
		collect()
		time.Sleep(time.Millisecond)
	}
	return n
}

func TestScopeFrees(t *testing.T) {
	outside := Ones(S(2))
	before := settled()
	var made []*Tensor
	Scope(func(*Arena) {
		for range 100 {
			made = append(made, outside.AddScalar(1))
		}
		made = append(made, Ones(S(4, 3)).Split(1, 0)...)
		require.Equal(t, before+105, Live())
	})
	require.Equal(t, before, Live())
	for _, x := range made {
		requireUnusable(t, x, whyEnded)
	}
	require.Equal(t, []float32{1, 1}, ToSlice[float32](outside))
}

func TestScopesNest(t *testing.T) {
	before := settled()
	Scope(func(*Arena) {
		a := Ones(S(2))
		var b, c *Tensor
		Scope(func(inner *Arena) {
			b = a.AddScalar(1)
			c = inner.Keep(b.AddScalar(1))
			require.Equal(t, before+3, Live())
		})
		require.Equal(t, before+2, Live())
		requireUnusable(t, b, whyEnded)
		require.Equal(t, []float32{3, 3}, ToSlice[float32](c))
		Scope(func(*Arena) { c.Free() }) // the outer scope's tensor, freed from an inner one
		requireUnusable(t, c, whyFreed)
		require.Equal(t, []float32{1, 1}, ToSlice[float32](a))
		require.Equal(t, before+1, Live())
	})
	require.Equal(t, before, Live())
}

func TestKeep(t *testing.T) {
	before := settled()
	var kept *Tensor
	Scope(func(s1 *Arena) {
		Scope(func(s2 *Arena) {
			Scope(func(s3 *Arena) {
				kept = s3.Keep(Ones(S(2)))
				require.Same(t, kept, s3.Keep(kept), "no longer this scope's")
			})
			kept.AddScalar_(1)
			require.Same(t, kept, s2.Keep(kept, Zeros(S(1)), nil))
		})
		require.Equal(t, before+2, Live())
		s1.Keep(kept)
	})
	require.Equal(t, before+1, Live())
	require.Equal(t, []float32{2, 2}, ToSlice[float32](kept))
	kept.Free()
	require.Equal(t, before, Live())
	requireUnusable(t, kept, whyFreed)
	Scope(func(s *Arena) { require.Nil(t, s.Keep()) })
}

// An outer scope can let a tensor of its own go while an inner one runs.
func TestKeepFromInnerScope(t *testing.T) {
	before := settled()
	var kept *Tensor
	Scope(func(outer *Arena) {
		kept = Ones(S(2))
		Scope(func(*Arena) {
			outer.Keep(kept)
			require.Zero(t, kept.scope)
		})
	})
	require.Equal(t, []float32{1, 1}, ToSlice[float32](kept))
	kept.Free()
	require.Equal(t, before, Live())
}

func TestKeepErrors(t *testing.T) {
	var ended *Arena
	var left *Tensor
	Scope(func(s *Arena) {
		ended, left = s, Ones(S(2))
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			err = Try(func() { s.Keep(left) })
		}()
		<-done
		require.ErrorIs(t, err, ErrHandle)
		require.ErrorContains(t, err, "the scope belongs to another goroutine")
		require.Equal(t, []float32{1, 1}, ToSlice[float32](left), "nothing happened to it")
		freed := Ones(S(2))
		freed.Free()
		require.ErrorIs(t, Try(func() { s.Keep(freed) }), ErrHandle)
	})
	err := Try(func() { ended.Keep(left) })
	require.ErrorIs(t, err, ErrHandle)
	require.ErrorContains(t, err, whyEnded)
}

func TestScopePanics(t *testing.T) {
	before := settled()
	require.PanicsWithValue(t, "x", func() {
		Scope(func(*Arena) {
			Ones(S(2))
			NoGrad(func() {
				Scope(func(*Arena) {
					Ones(S(2))
					panic("x")
				})
			})
		})
	})
	require.Equal(t, before, Live())
	require.True(t, GradEnabled())

	// An error of tensor maths, and runtime.Goexit, the same.
	require.Error(t, Try(func() { Scope(func(*Arena) { Ones(S(2)).Add(Ones(S(3))) }) }))
	var wg sync.WaitGroup
	wg.Go(func() {
		Scope(func(*Arena) {
			Ones(S(2))
			runtime.Goexit()
		})
	})
	wg.Wait()
	require.Equal(t, before, Live())
}

func TestFree(t *testing.T) {
	before := settled()
	x := Ones(S(2))
	view := x.View(2, 1)
	x.Free()
	x.Free()
	requireUnusable(t, x, whyFreed)
	require.Equal(t, []float32{1, 1}, ToSlice[float32](view), "shared storage stays")
	view.Free()
	var none *Tensor
	none.Free()
	requireUnusable(t, none, "nil")
	(&Tensor{}).Free()
	requireUnusable(t, &Tensor{}, whyFreed)
	require.Equal(t, before, Live())
}

// In a scope, in any order; the places of freed tensors are reused.
func TestFreeInScope(t *testing.T) {
	before := settled()
	Scope(func(*Arena) {
		var xs []*Tensor
		for i := range 50 {
			xs = append(xs, Full(S(2), float64(i)))
		}
		for i := range 25 {
			xs[2*i].Free()
			xs[2*i].Free()
		}
		require.Equal(t, before+25, Live())
		xs[49].Free()
		y := Full(S(2), 7.) // takes the place of the last one
		requireUnusable(t, xs[49], whyFreed)
		for i := range 24 {
			require.Equal(t, float64(2*i+1), xs[2*i+1].Sum().Item()/2)
		}
		require.Equal(t, 14., y.Sum().Item())
		for i := range xs {
			xs[len(xs)-1-i].Free()
		}
		y.Free()
	})
	require.Equal(t, before, Live())
}

// Of several goroutines that free one tensor at once, one does.
func TestFreeRace(t *testing.T) {
	before := settled()
	for range 200 {
		x := Ones(S(2))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(x.Free)
		}
		wg.Wait()
	}
	require.Equal(t, before, Live())
}

func TestFreeOnOtherGoroutine(t *testing.T) {
	before := settled()
	free := func(x *Tensor) {
		var wg sync.WaitGroup
		wg.Go(func() { Scope(func(*Arena) { x.Free() }) })
		wg.Wait()
	}
	Scope(func(*Arena) {
		x := Ones(S(2))
		free(x)
		require.Equal(t, []float32{1, 1}, ToSlice[float32](x), "a scope's tensor is its goroutine's to free")
		require.Equal(t, before+1, Live())
	})
	x := Ones(S(2))
	free(x)
	requireUnusable(t, x, whyFreed)
	require.Equal(t, before, Live())
}

// A goroutine that is started in a scope makes tensors outside it, and may use the scope's.
func TestScopeIsOfOneGoroutine(t *testing.T) {
	Scope(func(*Arena) {
		x := Ones(S(2))
		var y *Tensor
		var wg sync.WaitGroup
		wg.Go(func() { y = x.AddScalar(1) })
		wg.Wait()
		require.Zero(t, y.scope)
		require.NotZero(t, x.scope)
		y.Free()
	})
}

func TestScopeIdsComeRound(t *testing.T) {
	defer lastScope.Store(lastScope.Load())
	lastScope.Store(^uint32(0) - 1)
	Scope(func(*Arena) {
		a := Ones(S(2))
		Scope(func(*Arena) { // 0 is skipped
			b := Ones(S(2))
			require.Equal(t, ^uint32(0), a.scope)
			require.Equal(t, uint32(1), b.scope)
			lastScope.Store(^uint32(0) - 1) // both are taken
			Scope(func(*Arena) {
				c := Ones(S(2))
				require.Equal(t, uint32(2), c.scope)
				a.Add(b).Add(c)
			})
		})
	})
}

func TestScopesWithoutEnd(t *testing.T) {
	for i := range scopeSlots {
		scopeSlots[i].CompareAndSwap(0, 1)
	}
	defer func() {
		for i := range scopeSlots {
			scopeSlots[i].CompareAndSwap(1, 0)
		}
	}()
	err := Try(func() { Scope(func(*Arena) {}) })
	require.ErrorContains(t, err, "65,536 scopes are open")
}

func TestDeepScopes(t *testing.T) {
	before := settled()
	var down func(depth int, x *Tensor) *Tensor
	down = func(depth int, x *Tensor) (y *Tensor) {
		Scope(func(s *Arena) {
			y = x.AddScalar(1)
			if depth > 0 {
				y = down(depth-1, y)
			}
			s.Keep(y)
		})
		return y
	}
	Scope(func(*Arena) { require.Equal(t, 301., down(300, Zeros(S(1))).Item()) })
	require.Equal(t, before, Live())
}

func TestSame(t *testing.T) {
	x := Ones(S(2))
	y := x.Retain()
	require.True(t, x.Same(y))
	require.False(t, x.Same(x.View(2)))
	require.False(t, x.Same(nil))
	y.Free()
	var e *Error
	require.True(t, errors.As(Try(func() { x.Same(y) }), &e))
	require.Equal(t, KindHandle, e.Kind)
}
