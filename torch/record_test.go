package torch_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
)

// twice runs a step eagerly and then under the recorder.
func twice(r *torch.Recorded, in ...*torch.Tensor) error {
	if _, err := r.Run(in...); err != nil {
		return errors.New("the eager run failed")
	}
	_, err := r.Run(in...)
	return err
}

func TestRecordRefusesWhatReplaysWouldNotRepeat(t *testing.T) {
	x := torch.FromSlice([]float32{1, 0, 3, 0}, 4)
	other := torch.Zeros(torch.S(4))
	kept := torch.NewGenerator(1)
	state := kept.State()
	for name, c := range map[string]struct {
		step func(x *torch.Tensor)
		want string
	}{
		"item":          {func(x *torch.Tensor) { x.Sum().Item() }, "_local_scalar_dense: reads a value"},
		"branch":        {func(x *torch.Tensor) { _ = x.Equal(other) }, "equal: reads a value"},
		"to slice":      {func(x *torch.Tensor) { torch.ToSlice[float32](x) }, "Go code sees or writes the elements"},
		"view":          {func(x *torch.Tensor) { torch.View(x, func([]float32) {}) }, "Go code sees or writes the elements"},
		"copy from":     {func(x *torch.Tensor) { torch.CopyFrom(other, []float32{1, 2, 3, 4}) }, "Go code sees or writes the elements"},
		"from slice":    {func(x *torch.Tensor) { x.Add(torch.FromSlice([]float32{1}, 1)) }, "make tensors from Go data before the step"},
		"nonzero":       {func(x *torch.Tensor) { x.Nonzero() }, "the shape of its result depends on values"},
		"mask":          {func(x *torch.Tensor) { torch.Call("aten::masked_select", x, x.GtScalar(0.5)) }, "the shape of its result depends on values"},
		"in-place view": {func(x *torch.Tensor) { torch.Call("aten::unsqueeze_", x.Clone(), 0) }, "changes the shape of a tensor in place"},
		"seed":          {func(*torch.Tensor) { torch.ManualSeed(1) }, "seed before the step"},
		"state":         {func(*torch.Tensor) { kept.SetState(state) }, "set it before the step"},
		"set data":      {func(x *torch.Tensor) { other.SetData(x.Clone()) }, "replays would not set it again"},
		"unwritten":     {func(x *torch.Tensor) { x.EmptyLike().Add(x) }, "reads memory that no operator has written"},
	} {
		t.Run(name, func(t *testing.T) {
			r := torch.Record(func(in []*torch.Tensor) []*torch.Tensor {
				c.step(in[0])
				return nil
			})
			defer r.Close()
			err := twice(r, x)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "record_test.go:")
			require.False(t, torch.Recording())

			// The same where the step hides the panic.
			if name == "unwritten" {
				return
			}
			hiding := torch.Record(func(in []*torch.Tensor) []*torch.Tensor {
				_ = torch.Try(func() { c.step(in[0]) })
				return nil
			})
			defer hiding.Close()
			require.ErrorContains(t, twice(hiding, x), c.want)
		})
	}
	require.NoError(t, torch.Try(func() { x.Sum().Item() })) // the thread is as before
}

func TestRecordRefusesInputs(t *testing.T) {
	r := torch.Record(func(in []*torch.Tensor) []*torch.Tensor { return []*torch.Tensor{in[0].MulScalar(2)} })
	defer r.Close()
	w := torch.Ones(torch.S(2)).SetRequiresGrad(true)
	require.ErrorContains(t, twice(r, w), "input 0 requires a gradient")
	_, err := r.Run(nil)
	require.ErrorIs(t, err, torch.ErrHandle)
	x := torch.Ones(torch.S(2))
	require.NoError(t, twice(r, x))
	x.Free()
	_, err = r.Run(x)
	require.ErrorIs(t, err, torch.ErrHandle)
	bad := torch.Record(func(in []*torch.Tensor) []*torch.Tensor { return []*torch.Tensor{in[0].Mm(in[0])} })
	_, err = bad.Run(torch.Ones(torch.S(2, 3)))
	require.ErrorContains(t, err, "record_test.go:")
	var e *torch.Error
	require.ErrorAs(t, err, &e)
}

// Every form of inputs has its own recording; replays follow the inputs where they lie and write their own outputs.
func TestRecordedFollowsInputs(t *testing.T) {
	calls := 0
	r := torch.Record(func(in []*torch.Tensor) []*torch.Tensor {
		calls++
		v := in[0].Transpose(0, 1) // a view of the input
		return []*torch.Tensor{v.MulScalar(2).Add(in[1]), v, in[0].SumDim([]int{0}, true)}
	})
	defer r.Close()
	g := torch.NewGenerator(3)
	for i := range 30 {
		shape := []int{2 + i%3, 5}
		x, y := torch.Randn(shape, g), torch.Randn([]int{1}, g)
		if i%2 == 1 { // other strides
			x = torch.Randn([]int{5, shape[0]}, g).T()
		}
		out, err := r.Run(x, y)
		require.NoError(t, err)
		require.True(t, out[0].Equal(x.T().MulScalar(2).Add(y)))
		require.True(t, out[1].Equal(x.T()))
		require.True(t, out[2].Equal(x.SumDim([]int{0}, true)))
		out2, err := r.Run(x, y)
		require.NoError(t, err)
		require.True(t, out2[0].Equal(x.T().MulScalar(2).Add(y)))
	}
	require.Equal(t, 12, calls) // three shapes, two orders of strides; eager and recorded
	r.Reset()
	x, y := torch.Randn([]int{2, 5}, g), torch.Randn([]int{1}, g)
	_, err := r.Run(x, y)
	require.NoError(t, err)
	require.Equal(t, 13, calls)
	require.NotEmpty(t, r.Kernels())
}

// What a step refers to may change between replays: in place it is followed, other memory makes a new recording.
func TestRecordedFollowsState(t *testing.T) {
	w, scale := torch.Ones(torch.S(3)).SetRequiresGrad(true), 2.0
	calls := 0
	r := torch.Record(func(in []*torch.Tensor) []*torch.Tensor {
		calls++
		s := scale
		torch.ReplayIf(func() bool { return s == scale })
		y := w.Mul(in[0]).MulScalar(s).Sum()
		if torch.GradEnabled() && w.RequiresGrad() {
			y.Backward()
		}
		return []*torch.Tensor{y}
	})
	defer r.Close()
	x := torch.FromSlice([]float32{1, 2, 3}, 3)
	run := func(want float64) {
		t.Helper()
		out, err := r.Run(x)
		require.NoError(t, err)
		require.Equal(t, want, out[0].Item())
	}
	run(12) // gradients accumulate: the function does not clear them
	run(12)
	run(12)
	require.Equal(t, []float32{6, 12, 18}, torch.ToSlice[float32](w.Grad()))
	require.Equal(t, 2, calls)

	torch.NoGrad(func() { w.MulScalar_(2) }) // in place
	version := w.Version()
	run(24)
	require.Equal(t, 2, calls)
	require.Equal(t, version, w.Version())
	torch.NoGrad(func() { run(24) }) // another mode: no gradient
	require.Equal(t, 3, calls)
	require.Equal(t, []float32{8, 16, 24}, torch.ToSlice[float32](w.Grad()))

	w.SetData(torch.FromSlice([]float32{1, 1, 1}, 3))
	run(12)
	require.Equal(t, 4, calls)
	scale = 3
	run(18)
	run(18)
	require.Equal(t, 5, calls)
	w.SetRequiresGrad(false)
	run(18)
	require.Equal(t, 6, calls)
	w.SetRequiresGrad(true)
	torch.ZeroGrad([]*torch.Tensor{w}, false)
	run(18)
	run(18) // overwritten, as in CUDA graphs
	require.Equal(t, []float32{3, 6, 9}, torch.ToSlice[float32](w.Grad()))
	w.SetGrad(nil)
	run(18)
	require.Equal(t, []float32{3, 6, 9}, torch.ToSlice[float32](w.Grad()))
}

// Random numbers of a generator and of the default one go on as in eager code.
func TestRecordedDrawsOn(t *testing.T) {
	step := func(g *torch.Generator) func([]*torch.Tensor) []*torch.Tensor {
		return func(in []*torch.Tensor) []*torch.Tensor {
			return []*torch.Tensor{torch.Randn([]int{4}, g).Add(in[0]), torch.Dropout(in[0], 0.5, true), torch.Randint(0, 9, []int{3})}
		}
	}
	x := torch.Ones(torch.S(4))
	var want [][]*torch.Tensor
	torch.ManualSeed(4)
	f := step(torch.NewGenerator(7))
	for range 10 {
		want = append(want, f([]*torch.Tensor{x}))
	}
	torch.ManualSeed(4)
	r := torch.Record(step(torch.NewGenerator(7)))
	defer r.Close()
	for i := range 10 {
		got, err := r.Run(x)
		require.NoError(t, err)
		for k := range got {
			require.True(t, want[i][k].Equal(got[k]), "step %d, output %d", i, k)
		}
	}
}

func TestRecordedStepsNest(t *testing.T) {
	inner := torch.Record(func(in []*torch.Tensor) []*torch.Tensor { return []*torch.Tensor{in[0].AddScalar(1)} })
	outer := torch.Record(func(in []*torch.Tensor) []*torch.Tensor {
		out, err := inner.Run(in[0].MulScalar(2))
		if err != nil {
			panic(err)
		}
		return []*torch.Tensor{out[0].MulScalar(10)}
	})
	for i := range 4 {
		out, err := outer.Run(torch.FromSlice([]float32{float32(i)}, 1))
		require.NoError(t, err)
		require.Equal(t, float64(20*i+10), out[0].Item())
	}
}

// Goroutines take turns; their recordings do not see each other's operators.
func TestRecordedConcurrent(t *testing.T) {
	var group sync.WaitGroup
	errs := make(chan error, 8)
	for k := range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			r := torch.Record(func(in []*torch.Tensor) []*torch.Tensor { return []*torch.Tensor{in[0].MulScalar(float64(k)).Sum()} })
			defer r.Close()
			for i := range 40 {
				n := 1 + i%3
				x := torch.Ones(torch.S(n))
				out, err := r.Run(x)
				if err == nil && out[0].Item() != float64(k*n) {
					err = fmt.Errorf("%v instead of %d", out[0].Item(), k*n)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	group.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

// A closed recording gives everything back, and memory of intermediates is shared in the plan.
func TestRecordedLeavesNothing(t *testing.T) {
	x := torch.Ones(torch.S(8))
	one := func() {
		r := torch.Record(func(in []*torch.Tensor) []*torch.Tensor {
			y := in[0]
			for range 50 {
				y = y.AddScalar(1).Relu()
			}
			return []*torch.Tensor{y}
		})
		for i := range 4 {
			out, err := r.Run(x)
			require.NoError(t, err)
			sum := out[0].Sum()
			require.Equal(t, 8*51.0, sum.Item())
			sum.Free()
			if i == 0 || i == 3 { // of the eager run, and of the replays
				out[0].Free()
			}
		}
		require.Greater(t, len(r.Kernels()), 99)
		require.False(t, strings.Contains(strings.Join(r.Kernels(), " "), "detach"))
		r.Close()
	}
	one()
	before := torch.Live()
	for range 5 {
		one()
	}
	require.LessOrEqual(t, torch.Live(), before) // less where the collector found what other tests left
}
