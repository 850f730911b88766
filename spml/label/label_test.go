package label

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/optim"
	"github.com/gospml/gospml/torch/torchtest"
)

func mat(rows, cols int, v ...float64) *torch.Tensor { return torch.FromSlice(v, rows, cols) }

func flat(t *torch.Tensor) []float64 {
	return torch.ToSlice[float64](t.Detach().ToDType(torch.Float64).Contiguous())
}

// roundTrip copies a state into a fresh estimator.
func roundTrip(t *testing.T, from, to Keeper) {
	t.Helper()
	s := from.State()
	copied := State{Tensors: map[string]*torch.Tensor{}, Numbers: s.Numbers}
	for name, v := range s.Tensors {
		copied.Tensors[name] = v.Clone()
	}
	require.NoError(t, to.LoadState(copied))
	for name, v := range to.State().Tensors {
		require.True(t, v.Equal(s.Tensors[name]), name)
	}
	require.Equal(t, s.Numbers, to.State().Numbers)
	require.Error(t, to.LoadState(State{}), "an empty state is refused")
}

func TestRole(t *testing.T) {
	y := torch.FromSlice([]int8{1, 0, 0, -1, 0, 1}, 2, 3)
	r, err := NewRole(y, torch.Float64, torch.NewGenerator(1))
	require.NoError(t, err)
	u := flat(r.U)
	require.InDelta(t, 5.293304824724492, u[0], 1e-12)
	require.InDelta(t, -5.293304824724492, u[3], 1e-12)
	require.Less(t, math.Abs(u[1]), 0.4054651081)
	require.NotEqual(t, u[1], u[2])
	z, err := r.Lookup([]int{1, 0})
	require.NoError(t, err)
	require.Equal(t, u[3], flat(z)[0])
	_, err = r.Lookup([]int{2})
	require.ErrorContains(t, err, "row 2 of a table with 2")

	l, err := RoleFromProbabilities(mat(1, 3, 0, 0.5, 1))
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{-11.512915464920228, 0, 11.512915464920228}, flat(l.U), 1e-9)

	other, err := NewRole(y, torch.Float64, torch.NewGenerator(2))
	require.NoError(t, err)
	roundTrip(t, r, other)
}

// Rows outside the batch move by Adam's momentum.
func TestRoleIsDense(t *testing.T) {
	r, err := NewRole(torch.Zeros(torch.S(3, 2), torch.Int8), torch.Float64, torch.NewGenerator(1))
	require.NoError(t, err)
	w := torch.Zeros(torch.S(1), torch.Float64, torch.RequiresGrad)
	o := optim.NewAdam([]*torch.Tensor{w}, optim.LR(0.01))
	require.NoError(t, r.AddGroup(o, 0.01))
	step := func(rows ...int) []float64 {
		before := flat(r.U)
		o.ZeroGrad()
		u, err := r.Lookup(rows)
		require.NoError(t, err)
		u.Sum().Backward()
		o.Step()
		after := flat(r.U)
		for i := range after {
			after[i] -= before[i]
		}
		return after
	}
	d := step(0)
	require.InDelta(t, -0.1, d[0], 1e-6, "ten times the classifier's rate")
	require.Zero(t, d[4])
	d = step(1)
	require.Less(t, d[0], -0.01, "row 0 keeps drifting")
	require.Zero(t, d[4])
}

func TestAPL(t *testing.T) {
	y := mat(5, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1)
	c := APLConfig{Theta: 0.9, Epochs: 3, Warmup: 1}
	a, err := NewAPL(y, torch.Float64, c)
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, a.Quota()) // floor(0.9·4/2)
	require.False(t, a.Due(0))
	require.True(t, a.Due(1))
	// Column 0 has a tie of rows 2 and 3: the lower row wins. Column 1's lowest is observed.
	s := mat(5, 2, 0.1, 0.9, 0.7, 0.3, 0.4, 0.2, 0.4, 0.8, 0.9, 0.05)
	n, err := a.Update(s)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, []float64{1, 0, 0, 0, -0.4, -0.2, 0, 0, 0, 1}, flat(a.Labels))
	n, err = a.Update(s)
	require.NoError(t, err)
	require.Equal(t, 2, n, "given labels stay")
	require.Equal(t, []float64{1, 0, 0, -0.3, -0.4, -0.2, -0.4, 0, 0, 1}, flat(a.Labels))

	_, err = a.Update(mat(5, 2, 0, 0, 0, 0, 0, math.NaN(), 0, 0, 0, 0))
	require.ErrorContains(t, err, "not all in [0, 1]")
	_, err = a.Update(mat(2, 2, 0, 0, 0, 0))
	require.ErrorContains(t, err, "scores have shape [2 2], want [5 2]")
	b, err := NewAPL(y, torch.Float64, c)
	require.NoError(t, err)
	roundTrip(t, a, b)

	c.BatchSize = 5
	one, err := NewAPL(y, torch.Float64, c)
	require.NoError(t, err)
	n, err = one.Update(s)
	require.NoError(t, err)
	require.Zero(t, n, "the released code labels nothing in one batch")
	_, err = NewAPL(y, torch.Float64, APLConfig{Theta: 0.9, Epochs: 2, Warmup: 2})
	require.Error(t, err)
}

// A score of exactly 0 is stored as -0 and stays unknown.
func TestAPLZeroScore(t *testing.T) {
	a, err := NewAPL(mat(4, 1, 0, 0, 0, 0), torch.Float64, APLConfig{Theta: 1, Epochs: 2, Warmup: 0})
	require.NoError(t, err)
	_, err = a.Update(mat(4, 1, 0, 0.2, 0.3, 0.4))
	require.NoError(t, err)
	require.Equal(t, 1, a.Labels.LtScalar(0).Sum().ItemInt())
}

func TestLargeLossAndThreshold(t *testing.T) {
	y := torch.FromSlice([]int8{1, 0, 0, 0, 1, 0}, 3, 2)
	l, err := NewLargeLoss(y)
	require.NoError(t, err)
	require.NoError(t, l.Flip([]int{2, 0}, torch.FromSlice([]bool{false, true, false, false}, 2, 2)))
	require.Equal(t, []float64{1, 0, 0, 0, 1, 1}, flat(l.Labels))
	require.Error(t, l.Flip([]int{0}, torch.FromSlice([]bool{true, true}, 2, 1)))
	got, err := l.Lookup([]int{2})
	require.NoError(t, err)
	require.Equal(t, []float64{1, 1}, flat(got))
	m, _ := NewLargeLoss(y)
	roundTrip(t, l, m)

	h, err := NewThreshold(y, 0.95, 2)
	require.NoError(t, err)
	require.False(t, h.Due(1))
	require.NoError(t, h.Update([]int{0, 1}, mat(2, 2, 0.1, 0.95, 0.951, 0.2)))
	require.Equal(t, []float64{1, 0, 1, 0, 1, 0}, flat(h.Labels), "strictly above")
	k, _ := NewThreshold(y, 0.95, 2)
	roundTrip(t, h, k)
}

func TestScoreAverage(t *testing.T) {
	y := torch.FromSlice([]int8{1, 0, 0, 1}, 2, 2)
	a, err := NewScoreAverage(y, torch.Float64, 0.8)
	require.NoError(t, err)
	require.False(t, a.Started())
	require.NoError(t, a.Update([]int{1}, mat(1, 2, 0.5, 0.5)))
	require.InDeltaSlice(t, []float64{1, 0, 0.1, 0.9}, flat(a.H), 1e-15)
	require.True(t, a.Started())
	b, _ := NewScoreAverage(y, torch.Float64, 0.8)
	roundTrip(t, a, b)
	require.Error(t, a.Update([]int{5}, mat(1, 2, 0, 0)))
}

func TestExpectedNegatives(t *testing.T) {
	y := torch.FromSlice([]int8{1, 0, 0, 0, 0, 1, 0, 0}, 4, 2)
	counts, err := ExpectedPositiveCounts(y, 1.6)
	require.NoError(t, err)
	require.Equal(t, []int{2, 2}, counts)
	counts, err = ExpectedPositiveCounts(y, 100)
	require.NoError(t, err)
	require.Equal(t, []int{4, 4}, counts, "no more than images")
	h := mat(4, 2, 0.9, 0.1, 0.5, 0.2, 0.5, 0.3, 0.6, 0.2)
	m, err := ExpectedNegatives(h, y, []int{2, 1})
	require.NoError(t, err)
	require.Equal(t, []float64{0, 1, 1, 1, 1, 0, 0, 1}, flat(m))
	m, err = ExpectedNegatives(h, y, []int{0, 4})
	require.NoError(t, err)
	require.Equal(t, []float64{0, 0, 1, 0, 1, 0, 1, 0}, flat(m), "never an observed positive")
}

func TestQueue(t *testing.T) {
	for _, code := range []bool{false, true} {
		q, err := NewQueue(4, 3, torch.Float64, code)
		require.NoError(t, err)
		x := torch.Ones(torch.S(3, 2, 3), torch.Float64, torch.RequiresGrad)
		c, err := q.Push(x, torch.FromSlice([]int64{1, 2, 3}, 3))
		require.NoError(t, err)
		require.Equal(t, []int{3, 2, 3}, c.Features.Shape())
		y := torch.Full(torch.S(2, 2, 3), 2., torch.Float64).SetRequiresGrad(true)
		c, err = q.Push(y, torch.FromSlice([]int64{4, 5}, 2))
		require.NoError(t, err)
		c.Features.Sum().Backward()
		require.Equal(t, 12., y.Grad().Sum().Item(), "the batch's vectors get gradients")
		require.Nil(t, x.Grad(), "older ones do not")
		want := []float64{5, 2, 3, 4}
		if code {
			want = []float64{4, 5, 3}
		}
		require.Equal(t, want, flat(c.Labels))
		require.Equal(t, 2, c.Current.Sum().ItemInt())
		p, _ := NewQueue(4, 3, torch.Float64, code)
		roundTrip(t, q, p)
		_, err = q.Push(torch.Zeros(torch.S(6, 2, 3), torch.Float64), torch.FromSlice([]int64{1, 2, 3, 4, 5, 6}, 6))
		if code {
			require.ErrorContains(t, err, "a push of 6 pairs into a queue of 4")
		} else {
			require.NoError(t, err)
			require.ElementsMatch(t, []float64{3, 4, 5, 6}, flat(q.Labels))
		}
	}
	_, err := NewQueue(0, 1, torch.Float64, false)
	require.Error(t, err)
}

// A queue that takes its pairs by a mask has the slots, the pointer, the contrast and the gradients of one that takes
// the pairs themselves, also where a batch has none or more than fit.
func TestMarkedQueue(t *testing.T) {
	const k, batch, classes, width = 7, 3, 4, 2
	g := torch.NewGenerator(5)
	pairs, err := NewQueue(k, width, torch.Float64, false)
	require.NoError(t, err)
	marks, err := NewQueue(k, width, torch.Float64, false)
	require.NoError(t, err)
	norm := func(t *torch.Tensor) *torch.Tensor { return t.Div(t.Square().SumDim([]int{2}, true).Sqrt()) }
	for step, share := range []float64{0, 0.2, 0.3, 0.9, 0, 0.1, 1, 0.3, 0.2} {
		marked := torch.Rand(torch.S(batch, classes), torch.Float64, g).LtScalar(share)
		weak, strong := norm(torch.Randn(torch.S(batch, classes, width), torch.Float64,
			g)), norm(torch.Randn(torch.S(batch, classes, width), torch.Float64, g))
		var values, grads [2][]float64
		for i, push := range []func(w, s *torch.Tensor) (*loss.Contrast, error){
			func(w, s *torch.Tensor) (*loss.Contrast, error) {
				x, ids, err := ValidPairs(marked.ToDType(torch.Float64), marked.ToDType(torch.Float64).ZerosLike(), w, s, false)
				require.NoError(t, err)
				return pairs.Push(x, ids)
			},
			func(w, s *torch.Tensor) (*loss.Contrast, error) { return marks.pushMarked(marked, w, s) },
		} {
			w, s := weak.Clone().SetRequiresGrad(true), strong.Clone().SetRequiresGrad(true)
			c, err := push(w, s)
			require.NoError(t, err)
			if i == 1 {
				require.Equal(t, []int{k, 2, width}, c.Features.Shape())
			}
			v := loss.SupervisedContrast(c.Features, c.Labels, 0.3)
			v.Backward()
			values[i] = []float64{v.Item()}
			for _, x := range []*torch.Tensor{w, s} {
				if x.Grad() == nil {
					grads[i] = append(grads[i], make([]float64, x.Numel())...)
				} else {
					grads[i] = append(grads[i], flat(x.Grad())...)
				}
			}
			fused, err := loss.Lookup("lac")
			require.NoError(t, err)
			for _, form := range []loss.Values{nil, {"form": 1}} {
				for _, impl := range []loss.Impl{loss.Composed, loss.Fused} {
					l, err := fused.Make("", form, loss.Options{Impl: impl})
					require.NoError(t, err)
					z := mat(batch, classes, make([]float64, batch*classes)...)
					v, err := l.Value(loss.Batch{Logits: z, Strong: z, Observed: z, Contrast: c})
					require.NoError(t, err)
					values[i] = append(values[i], v.Item())
				}
			}
		}
		require.InDeltaSlice(t, values[0], values[1], 1e-12, "step %d", step)
		require.InDeltaSlice(t, grads[0], grads[1], 1e-12, "step %d", step)
		require.Equal(t, pairs.State().Numbers, marks.State().Numbers, "step %d", step)
		require.Equal(t, flat(pairs.Features), flat(marks.Features), "step %d", step)
		require.Equal(t, flat(pairs.Labels), flat(marks.Labels), "step %d", step)
		if step == 4 { // a checkpoint
			again, err := NewQueue(k, width, torch.Float64, false)
			require.NoError(t, err)
			require.NoError(t, again.LoadState(marks.State()))
			marks = again
		}
	}
}

func TestValidPairs(t *testing.T) {
	w := torch.Arange(0., 12., 1., torch.Float64).Reshape(2, 3, 2)
	hard, obs := mat(2, 3, 0, 1, 0, 0, 0, 0), mat(2, 3, 0, 0, 0, 1, 0, 0)
	x, l, err := ValidPairs(hard, obs, w, w.Neg(), true)
	require.NoError(t, err)
	require.Equal(t, []float64{2, 1}, flat(l))
	require.Equal(t, []float64{2, 3, -2, -3, 6, 7, -6, -7}, flat(x))
	for _, code := range []bool{false, true} {
		x, l, err = ValidPairs(hard, obs.ZerosLike(), w, w.Neg(), code)
		require.NoError(t, err)
		want := []float64{2}
		if code {
			want = []float64{2, 2}
		}
		require.Equal(t, want, flat(l))
		require.Equal(t, []int{len(want), 2, 2}, x.Shape())
	}
	_, _, err = ValidPairs(hard, obs, w.Select(0, 0), w, false)
	require.Error(t, err)
}

// A constructor inside a scope makes an estimator that outlives it.
func TestLifetime(t *testing.T) {
	torchtest.NoLeaks(t)
	torch.Scope(func(*torch.Arena) {
		var a *APL
		var r *Role
		torch.Scope(func(*torch.Arena) {
			y := torch.Zeros(torch.S(4, 3), torch.Int8)
			var err error
			a, err = NewAPL(y, torch.Float32, APLConfig{Theta: 0.9, Epochs: 3, Warmup: 1})
			require.NoError(t, err)
			r, err = NewRole(y, torch.Float32, nil)
			require.NoError(t, err)
		})
		for range 10 {
			_, err := a.Update(torch.Rand(torch.S(4, 3)))
			require.NoError(t, err)
			_, err = r.Lookup([]int{1, 2})
			require.NoError(t, err)
		}
		a.Labels.Free()
		r.U.Free()
	})
}

func TestMovingPoint(t *testing.T) {
	line := loss.Points{
		Start: loss.Point{W: 0, B: -2, Mu: 0.5, Sigma: 2}, End: loss.Point{W: 10, B: -8, Mu: 0.8, Sigma: 0.5}, Epochs: 8,
	}
	s, err := NewMovingPoint(line)
	require.NoError(t, err)
	s.Step(5)
	require.NoError(t, s.Train(torch.Float64))
	p := s.Point()
	require.Equal(t, []float64{p.W, p.B, p.Mu, p.Sigma}, flat(s.Parameter))
	var b loss.Batch
	s.Fill(&b)
	require.Equal(t, 5, b.Epoch)
	require.True(t, b.Trainable.RequiresGrad())
	r, _ := NewMovingPoint(line)
	require.Error(t, r.LoadState(s.State()), "its parameters are numbers")
	require.NoError(t, r.Train(torch.Float64))
	roundTrip(t, s, r)
	_, err = NewMovingPoint(loss.Points{})
	require.Error(t, err)
}

func TestVLPLTies(t *testing.T) {
	pl, s, err := VLPL(mat(1, 4, 0.2, 0.2, 0.2, 0.2), 0.01, 0.2, 0.5)
	require.NoError(t, err)
	require.Equal(t, []float64{-1, -1, 1, 1}, flat(pl), "lower classes first; -1 wins")
	require.InDelta(t, 0.25, s.Select(1, 0).Item(), 1e-15)
	_, _, err = VLPL(mat(1, 1, 1), 0, 0.1, 0)
	require.Error(t, err)
}

func TestDAMPRefuses(t *testing.T) {
	g, y := mat(1, 2, 0.1, 0.2), mat(1, 2, 1, 0)
	_, err := DAMP(g, mat(1, 2, 0, 0), y, DAMPConfig{Tau: 1})
	require.ErrorContains(t, err, "patches [R, 1, 2]")
	_, err = DAMP(g, mat(1, 2, 0, 0).Unsqueeze(0), y, DAMPConfig{})
	require.ErrorContains(t, err, "τ > 0")
}

func TestHeatMaps(t *testing.T) {
	y := torch.FromSlice([]int8{1, 0}, 1, 2)
	h, err := NewHeatMaps(y, 4, 0.8)
	require.NoError(t, err)
	got, err := h.Lookup([]int{0}, []Crop{Whole}, 4)
	require.NoError(t, err)
	require.Equal(t, append(repeat(1, 16), repeat(0, 16)...), flat(got))

	// The upper left quarter, mirrored: only its cells change, and they land mirrored.
	quarter := Crop{Height: 0.5, Width: 0.5, Flip: true}
	scores := torch.FromSlice([]float64{0, 1, 0, 1, 1, 0, 1, 0}, 1, 2, 2, 2)
	require.NoError(t, h.Update([]int{0}, []Crop{quarter}, scores))
	m := flat(h.Maps)
	require.Equal(t, []float64{255, 204, 255, 255}, m[:4])
	require.Equal(t, []float64{0, 51, 0, 0}, m[16:20])
	require.Equal(t, repeat(0, 8), m[24:32])
	seen, err := h.Lookup([]int{0}, []Crop{quarter}, 2)
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{0.8, 1, 0.8, 1, 0.2, 0, 0.2, 0}, flat(seen), 1e-6)
	k, _ := NewHeatMaps(y, 4, 0.8)
	roundTrip(t, h, k)
	require.Error(t, h.Update([]int{0}, []Crop{{Height: 2, Width: 1}}, scores))
	require.Error(t, h.Update([]int{0}, []Crop{Whole}, scores.AddScalar(1)))
}

// Bilinear resizing is PyTorch's with align_corners off.
func TestHeatMapsResize(t *testing.T) {
	h, err := NewHeatMaps(torch.FromSlice([]int8{0}, 1, 1), 6, 0)
	require.NoError(t, err)
	p := torch.FromSlice([]float64{0, 0.2, 0.4, 0.6, 0.8, 1, 0.1, 0.3, 0.5}, 1, 1, 3, 3)
	require.NoError(t, h.Update([]int{0}, []Crop{Whole}, p))
	want := flat(p.UpsampleBilinear2d([]int{6, 6}, false).MulScalar(255).Round())
	require.InDeltaSlice(t, want, flat(h.Maps), 1) // halves round either way
	got, err := h.Lookup([]int{0}, []Crop{Whole}, 4)
	require.NoError(t, err)
	require.InDeltaSlice(t, flat(h.Maps.ToDType(torch.Float64).DivScalar(255).UpsampleBilinear2d([]int{4, 4}, false)), flat(got), 1e-6)
}

func repeat(v float64, n int) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = v
	}
	return s
}
