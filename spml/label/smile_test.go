package label

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

func TestNearest(t *testing.T) {
	x := mat(4, 1, 0, 1, 3, 10)
	require.Equal(t, []float64{1, 2, 0, 2, 1, 0, 2, 1}, flat(nearest(x, 2)))
}

// The draw's derivatives: the mean of a Beta is a/(a+b), so the mean derivative over many draws is that of the mean.
func TestSampleBeta(t *testing.T) {
	torch.ManualSeed(1)
	const n = 100000
	for _, c := range [][2]float64{{0.7, 0.3}, {2, 3}, {5, 0.5}} {
		a := torch.Full(torch.S(n), c[0], torch.Float64).SetRequiresGrad(true)
		b := torch.Full(torch.S(n), c[1], torch.Float64).SetRequiresGrad(true)
		y := SampleBeta(a, b, nil)
		require.InDelta(t, c[0]/(c[0]+c[1]), y.Mean().Item(), 6e-3)
		y.Mean().Backward()
		s := c[0] + c[1]
		require.InDelta(t, c[1]/(s*s), a.Grad().Sum().Item(), 6e-3)
		require.InDelta(t, -c[0]/(s*s), b.Grad().Sum().Item(), 6e-3)
	}
}

// The logits of some rows and their gradients are those of the whole graph, computed with dense matrices as DGL defines
// the convolution: D_in^(-1/2)·Aᵀ·D_out^(-1/2)·X·W + b, A having a 1 from each row to its nearest.
func TestSMILEEncodesRowsAsTheWholeGraph(t *testing.T) {
	torch.ManualSeed(9)
	const n, f, classes, k = 40, 6, 5, 3
	x := torch.Randn([]int{n, f}, torch.Float64)
	s, err := NewSMILE(x, classes, k, 1, nil)
	require.NoError(t, err)
	a := torch.Zeros(torch.S(n, n), torch.Float64).ScatterValue(1, torch.FromSlice(s.near, n, k), 1)
	degrees := a.SumDim([]int{0}, false).Clamp(1, n).Sqrt().Unsqueeze(1)
	require.Equal(t, 1.0, degrees.Min().Item(), "a row that nobody points at")
	conv := func(l *nn.Linear, h *torch.Tensor) *torch.Tensor {
		return a.T().Matmul(h.DivScalar(math.Sqrt(k))).Div(degrees).Matmul(l.Weight.T()).Add(l.Bias)
	}
	dense := s.Head.Forward(conv(s.Conv2, conv(s.Conv1, x).Relu()))
	for _, rows := range [][]int{{0}, {7, 3, 39, 3}, {12, 13, 14, 15, 16, 17, 18, 19}} {
		v, err := s.Encode(rows)
		require.NoError(t, err)
		ids, err := index(rows, s.x)
		require.NoError(t, err)
		want := dense.IndexSelect(0, ids)
		require.InDeltaSlice(t, flat(want), flat(v), 1e-12)
		up := torch.Randn(v.Shape(), torch.Float64)
		ps := []*torch.Tensor{s.Conv1.Weight, s.Conv1.Bias, s.Conv2.Weight, s.Conv2.Bias, s.Head.Weight}
		got := torch.Grad([]*torch.Tensor{v}, ps, torch.WithGradient(up))
		for i, g := range torch.Grad([]*torch.Tensor{want}, ps, torch.WithGradient(up), torch.RetainGraph) {
			require.InDeltaSlice(t, flat(g), flat(got[i]), 1e-12)
		}
	}
	_, err = s.Encode([]int{n})
	require.Error(t, err)
}

// Two clusters with one observed class each: training the encoder makes the enhanced labels follow the clusters.
func TestSMILE(t *testing.T) {
	torch.ManualSeed(3)
	const n, classes = 24, 8 // the networks are as wide as there are classes
	x, y := make([]float32, n*2), make([]int8, n*classes)
	for i := range n {
		x[2*i], x[2*i+1] = float32(i%2)*4+float32(i)*0.01-2, float32(i%5)*0.02
		y[classes*i+i%2] = 1
	}
	s, err := NewSMILE(torch.FromSlice(x, n, 2), classes, 3, 1, nil)
	require.NoError(t, err)
	require.Len(t, s.Parameters(), 2+2+2+4+4)
	obs := torch.FromSlice(y, n, classes)
	l, err := loss.New("smile-encoder", "", loss.Values{"delta": 0.01}, loss.Options{LogEps: 1e-5})
	require.NoError(t, err)
	o := optim.NewAdam(s.Parameters(), optim.LR(0.02))
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	var first, last float64
	for step := range 150 {
		torch.Scope(func(*torch.Arena) {
			o.ZeroGrad()
			v, err := s.Encode(rows)
			require.NoError(t, err)
			r, err := s.Reconstruct(rows, v)
			require.NoError(t, err)
			require.Equal(t, []int{n, n}, r.ARec.Shape())
			require.Equal(t, float64(3*n), r.A.Sum().Item(), "every row has three neighbours")
			value, err := l.Value(loss.Batch{Logits: v, Observed: obs, Reconstruction: r})
			require.NoError(t, err)
			value.Backward()
			o.Step()
			if last = value.Item(); step == 0 {
				first = last
			}
		})
	}
	require.Less(t, last, first/2)
	v, err := s.Encode(rows)
	require.NoError(t, err)
	d, err := s.Enhanced(v)
	require.NoError(t, err)
	for i, p := range flat(d) {
		require.Equal(t, y[i] == 1, p > 0.5, "row %d class %d", i/classes, i%classes)
	}
	other, err := NewSMILE(torch.FromSlice(x, n, 2), classes, 3, 1, nil)
	require.NoError(t, err)
	roundTrip(t, s, other)
	_, err = NewSMILE(torch.FromSlice(x, n, 2), 2, n, 1, nil)
	require.Error(t, err)
}
