package label

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

func floats(t *torch.Tensor) []float64 {
	return torch.ToSlice[float64](t.ToDType(torch.Float64).Contiguous().Flatten(0, -1))
}

// Two steps by hand: the second has no positive, which leaves τ as it is.
func TestGaps(t *testing.T) {
	said := ""
	g, err := NewGaps(2, torch.Float64, torch.CPU, GapConfig{GapLambda: 0.5, AvgLambda: 0.75, Warmup: 1},
		func(s string) { said = s })
	require.NoError(t, err)
	step := func(epoch int, z, masked []float64, y []int8) *Step {
		s := &Step{Batch: &loss.Batch{Logits: torch.FromSlice(z, 2, 2), Observed: torch.FromSlice(y, 2, 2)},
			Masked: torch.FromSlice(masked, 2, 2), Epoch: epoch}
		require.NoError(t, g.Fill(s))
		return s
	}
	s := step(1, []float64{2, 3, -1, 1}, []float64{1, 0, 0, 1}, []int8{1, 0, 0, 1})
	tau, mu := g.Thresholds()
	require.Equal(t, []float64{0.25}, floats(tau), "half of the mean gap ½ of the positives")
	require.Equal(t, []float64{0.125, 0.5}, floats(mu))
	require.Equal(t, []float64{0, 1, 1, 0}, floats(s.Batch.Negative), "warm-up keeps all")
	s = step(2, []float64{4, 3, 1, -1}, []float64{0, 3, 1, 5}, []int8{0, 0, 0, -1})
	tau, mu = g.Thresholds()
	require.Equal(t, []float64{0.25}, floats(tau))
	require.Equal(t, []float64{0.71875, 0.625}, floats(mu))
	require.Equal(t, []float64{0, 1, 1, 0}, floats(s.Batch.Negative),
		"a known negative is never left out, nor is a small gap")
	require.NoError(t, g.End(2, nil))
	require.Equal(t, "epoch 2: 20.00 % of the unknown labels were left out of the negatives", said)

	state := g.State()
	again, err := NewGaps(2, torch.Float64, torch.CPU, GapConfig{GapLambda: 0.5, AvgLambda: 0.75, Debias: true,
		Keep: true}, nil)
	require.NoError(t, err)
	require.NoError(t, again.LoadState(state))
	tau, mu = again.Thresholds()
	require.InDelta(t, 0.5, tau.Item(), 1e-15, "the mean gap of the only update")
	require.InDelta(t, 0.71875/(1-0.75*0.75), floats(mu)[0], 1e-15)
	delete(state.Tensors, "mu")
	require.ErrorContains(t, again.LoadState(state), "mu")
	require.ErrorContains(t, again.Fill(&Step{Batch: s.Batch}), "masked view")
	_, err = NewGaps(2, torch.Float64, torch.CPU, GapConfig{GapLambda: 2}, nil)
	require.ErrorContains(t, err, "λ is 2")
}

// Rows without a positive, or with two, keep everything.
func TestPositiveMaskKeepsOthers(t *testing.T) {
	maps := torch.Randn(torch.S(3, 2, 2, 2), torch.Float64, nil)
	y := torch.FromSlice([]int8{0, 0, 1, 1, 0, -1}, 3, 2)
	for _, batch := range []bool{true, false} {
		m, n, err := PositiveMask{Threshold: 0.5, Batch: batch}.Keep(maps, y, 4, 6)
		require.NoError(t, err)
		require.Equal(t, []int{3, 1, 4, 6}, m.Shape())
		require.Equal(t, 72., m.Sum().Item())
		require.Zero(t, n.Abs().Sum().Item())
	}
	_, _, err := PositiveMask{}.Keep(maps, torch.Zeros(torch.S(3, 5), torch.Int8), 4, 6)
	require.ErrorContains(t, err, "class maps have shape")
}

// Photos of one group in a batch give their mean; those without a group change nothing.
func TestGroups(t *testing.T) {
	y := torch.FromSlice([]int8{1, 0, 0, 1, 0, 0, 0, 0}, 4, 2)
	g, err := NewGroups(y, []int{0, 0, 1, -1}, torch.Float64, GroupConfig{Rate: 0.5, Start: 0.4}, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []float64{1, 1, 0.4, 0.4}, floats(g.Table()), "all photos of a group count")
	s := &Step{At: torch.FromSlice([]int64{0, 1, 3, 2}), Batch: &loss.Batch{Logits: torch.FromSlice([]float64{0, 0,
		math.Log(3), 0, 9, 9, 0, 0}, 4, 2)}}
	require.NoError(t, g.Fill(s))
	require.Equal(t, []float64{1, 1, 1, 1, -1, -1, 0.4, 0.4}, floats(s.Batch.Group))
	require.NoError(t, g.After(s))
	require.InDeltaSlice(t, []float64{0.5 + 0.25*(0.5+0.75), 0.75, 0.45, 0.45}, floats(g.Table()), 1e-15)
	require.NoError(t, g.Fill(s))
	require.Equal(t, -1., floats(s.Batch.Group)[4])
	require.ErrorContains(t, g.LoadState(State{}), `"q"`)
	drawn, err := NewGroups(y, []int{0, 1, 2, 3}, torch.Float64, GroupConfig{Start: -1}, nil, torch.NewGenerator(1))
	require.NoError(t, err)
	for _, q := range floats(drawn.Table())[1:3] {
		require.True(t, q >= 0.4 && q <= 0.6 && q != 0.5)
	}
}

// A class that separates by its score has its frequency; one that nobody shows has no estimate, and keeps an earlier
// one; known negatives count as absent.
func TestPriors(t *testing.T) {
	const n = 4000
	scores, observed := make([]float64, 3*n), make([]int8, 3*n)
	for i := range n {
		for c := range 2 {
			scores[3*i+c] = 0.1 + 0.00001*float64(i)
			if i%4 == 0 {
				scores[3*i+c] += 0.8
			}
			if i%8 == 0 {
				observed[3*i+c] = 1
			}
		}
		if i%2 == 1 {
			observed[3*i+1] = -1 // all of them without the class
		}
	}
	p, err := ClassPriors(scores, observed, 3, 0.01, 0.01)
	require.NoError(t, err)
	require.InDelta(t, 0.25, p[0].Prior, 1e-12)
	require.InDelta(t, 0.25, p[1].Prior, 1e-12)
	require.True(t, math.IsNaN(p[2].Prior))
	_, err = ClassPriors(scores[1:], observed, 3, 0.01, 0.01)
	require.Error(t, err)

	said := ""
	e, err := NewPriors(torch.FromSlice(observed, n, 3), PriorConfig{Delta: 0.01, Tau: 0.01, Warmup: 2, Every: 2},
		func(s string) { said = s })
	require.NoError(t, err)
	asked := 0
	pass := func() (*torch.Tensor, error) { asked++; return torch.FromSlice(scores, n, 3), nil }
	for epoch := 1; epoch <= 4; epoch++ {
		require.NoError(t, e.End(epoch, pass))
	}
	require.Equal(t, 2, asked, "after epochs 2 and 4")
	require.Contains(t, said, "0.50 labels a photo")
	again, err := NewPriors(torch.FromSlice(observed, n, 3), PriorConfig{Delta: 0.01, Tau: 0.01, Warmup: 1, Every: 1}, nil)
	require.NoError(t, err)
	require.NoError(t, again.LoadState(State{Tensors: map[string]*torch.Tensor{"prior": torch.FromSlice([]float32{0.9,
		0.9, 0.7}, 3)}}))
	require.NoError(t, again.End(1, pass))
	require.InDeltaSlice(t, []float64{0.25, 0.25, 0.7}, floats(again.Prior()), 1e-6)
}

// Frequencies that are given are not estimated.
func TestGivenPriors(t *testing.T) {
	y := torch.FromSlice([]int8{1, 0, 0, 1}, 2, 2)
	p, err := NewPriors(y, PriorConfig{Delta: 0.01, Tau: 0.01, Warmup: 1, Every: 1, Given: []float64{0.25, 0.75}}, nil)
	require.NoError(t, err)
	require.NoError(t, p.End(1, func() (*torch.Tensor, error) { panic("no scores are wanted") }))
	require.Equal(t, []float64{0.25, 0.75}, flat(p.Prior()))
	_, err = NewPriors(y, PriorConfig{Warmup: 1, Every: 1, Given: []float64{0.25}}, nil)
	require.ErrorContains(t, err, "1 given class priors for 2 classes")
}
