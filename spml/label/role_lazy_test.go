package label

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/optim"
)

// sideBySide trains a dense and a lazy table with the same gradients and compares them whenever rows are looked up, and at the end.
func sideBySide(t *testing.T, dtype torch.DType, scale, tolerance float64, steps int) {
	t.Helper()
	const n, c, lr = 60, 5, 0.01
	r := rand.New(rand.NewPCG(3, 4))
	y := torch.Zeros(torch.S(n, c), torch.Int8)
	start, err := NewRole(y, dtype, torch.NewGenerator(1))
	require.NoError(t, err)
	dense, err := RoleFromLogits(start.U.Detach().ToDType(torch.Float64))
	require.NoError(t, err)
	o := optim.NewAdam([]*torch.Tensor{dense.U}, optim.LR(RoleLRFactor*lr))
	lazy, err := start.Lazy(lr)
	require.NoError(t, err)
	near := func(step int, want, got *torch.Tensor) {
		w, g := flat(want), flat(got)
		for i := range w {
			if !(math.Abs(w[i]-g[i]) <= tolerance*(1+math.Abs(w[i]))) {
				require.Fail(t, "lazy is not dense", "gradients of %v, step %d, entry %d: dense %v, lazy %v", scale, step, i, w[i], g[i])
			}
		}
	}
	for step := range steps {
		torch.Scope(func(*torch.Arena) {
			rows := []int{r.IntN(8), r.IntN(n - 10), 8 + r.IntN(3)} // the first often, the last ten never; now and then one twice
			if step > 500 && step < 1000 {
				rows = rows[:1] // long silence for the others
			}
			if step == 700 {
				o.Groups()[0].LR, lazy.lr = 0.03, 0.03
			}
			g := make([]float64, len(rows)*c)
			for i := range g {
				g[i] = scale * r.NormFloat64() * math.Exp(3*r.NormFloat64())
			}
			weight := torch.FromSlice(g, len(rows), c)
			u, err := dense.Lookup(rows)
			require.NoError(t, err)
			o.ZeroGrad()
			u.Mul(weight).Sum().Backward()
			z, err := lazy.Lookup(rows)
			require.NoError(t, err)
			near(step, u, z)
			z.Mul(weight.ToDType(dtype)).Sum().Backward()
			o.Step()
			require.NoError(t, lazy.Step())
		})
	}
	require.NoError(t, lazy.Flush())
	near(steps, dense.U, start.U)
	state := o.StateDict().Tensors
	near(steps, state["state.0.exp_avg"].DivScalar(scale), lazy.m.DivScalar(scale))
	near(steps, state["state.0.exp_avg_sq"].DivScalar(scale*scale), lazy.v.ToDType(torch.Float64).DivScalar(scale*scale))
}

// Lazy rows catch up with dense Adam to rounding, from gradients where ε does not matter to those where it is all that matters.
func TestLazyRoleIsDenseAdam(t *testing.T) {
	for _, scale := range []float64{1, 1e-4, 1e-7, 1e-12} {
		sideBySide(t, torch.Float64, scale, 1e-12, 1300)
	}
	sideBySide(t, torch.Float32, 1e-3, 5e-6, 1300)
	sideBySide(t, torch.Float32, 1e-7, 5e-6, 1300)
}

// A stopped table goes on from its state as if it had never stopped.
func TestLazyRoleState(t *testing.T) {
	y := torch.FromSlice([]int8{1, 0, 0, 0, 0, 1, 0, 0}, 4, 2)
	r := rand.New(rand.NewPCG(1, 1))
	var rows []int
	var weights []float64
	for range 40 {
		rows, weights = append(rows, r.IntN(3)), append(weights, r.NormFloat64())
	}
	train := func(l *LazyRole, from, to int) {
		for i := from; i < to; i++ {
			z, err := l.Lookup(rows[i : i+1])
			require.NoError(t, err)
			z.Sum().MulScalar(weights[i]).Backward()
			require.NoError(t, l.Step())
		}
	}
	make := func() (*Role, *LazyRole) {
		role, err := NewRole(y, torch.Float64, torch.NewGenerator(5))
		require.NoError(t, err)
		l, err := role.Lazy(0.01)
		require.NoError(t, err)
		return role, l
	}
	whole, a := make()
	train(a, 0, 40)
	require.NoError(t, a.Flush())

	_, b := make()
	train(b, 0, 20)
	second, c := make()
	roundTrip(t, b, c)
	train(c, 20, 40)
	require.NoError(t, c.Flush())
	require.Equal(t, flat(whole.U), flat(second.U), "to the bit")
	roundTrip(t, c, b) // with every row up to date

	for words, change := range map[string]func(s State){
		`no number "lr"`:                     func(s State) { delete(s.Numbers, "lr") },
		`no tensor "exp_avg"`:                func(s State) { delete(s.Tensors, "exp_avg") },
		"a state of 3 steps from 40":         func(s State) { s.Numbers["step"] = 3 },
		"which step each of the 4 rows":      func(s State) { delete(s.Tensors, "last") },
		"row 2 of the state is of step 41":   func(s State) { s.Tensors["last"] = torch.FromSlice([]int64{40, 40, 41, 40}) },
		"lacks the 1 steps since all rows":   func(s State) { s.Numbers["step"] = 41 },
		"a state of 40 steps from 39.5 at l": func(s State) { s.Numbers["base"] = 39.5 },
	} {
		s := c.State()
		change(s)
		require.ErrorContains(t, c.LoadState(s), words)
	}
	require.Equal(t, flat(whole.U), flat(second.U), "a bad state changes nothing")
}

func TestLazyRoleRefuses(t *testing.T) {
	role, err := NewRole(torch.Zeros(torch.S(3, 2), torch.Int8), torch.Float32, nil)
	require.NoError(t, err)
	_, err = role.Lazy(math.NaN())
	require.ErrorContains(t, err, "learning rate is NaN")
	l, err := role.Lazy(0.1)
	require.NoError(t, err)
	_, err = l.Lookup([]int{3})
	require.ErrorContains(t, err, "row 3 of a table with 3")
	before := flat(role.U)
	_, err = l.Lookup([]int{0, 1})
	require.NoError(t, err)
	require.NoError(t, l.Step(), "no gradient, no step")
	require.Equal(t, before, flat(role.U))
	require.Zero(t, l.now)
}

// A step over COCO's table, dense and lazy.
func BenchmarkRoleStep(b *testing.B) {
	const n, c, rows = 65665, 80, 16
	y := torch.Zeros(torch.S(n, c), torch.Int8)
	r := rand.New(rand.NewPCG(1, 2))
	batch := func() []int {
		s := make([]int, rows)
		for i := range s {
			s[i] = r.IntN(n)
		}
		return s
	}
	b.Run("dense", func(b *testing.B) {
		role, err := NewRole(y, torch.Float32, nil)
		require.NoError(b, err)
		o := optim.NewAdam([]*torch.Tensor{role.U}, optim.LR(0.01))
		for b.Loop() {
			torch.Scope(func(*torch.Arena) {
				o.ZeroGrad()
				z, _ := role.Lookup(batch())
				z.Sum().Backward()
				o.Step()
			})
		}
	})
	b.Run("lazy", func(b *testing.B) {
		role, err := NewRole(y, torch.Float32, nil)
		require.NoError(b, err)
		l, err := role.Lazy(0.001)
		require.NoError(b, err)
		for b.Loop() {
			torch.Scope(func(*torch.Arena) {
				z, _ := l.Lookup(batch())
				z.Sum().Backward()
				_ = l.Step()
			})
		}
	})
}
