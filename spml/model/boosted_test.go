package model

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// With α = 1 the head is the linear one, from the same tensors; with more, positive positions count more; what
// explains
// is what is scored; and training may go without.
func TestBoosted(t *testing.T) {
	torch.ManualSeed(3)
	body, err := backbone.New("small_cnn", 4)
	require.NoError(t, err)
	nn.SetTraining(body, false)
	x := torch.Randn(torch.S(2, 3, 32, 32), torch.Float32, nil)
	want := torch.ToSlice[float32](body.Forward(x))
	keys := nn.StateDictOf(body).Keys()
	head := func(alpha float64, eval bool) backbone.Model {
		m, err := WithHead(body, HeadSpec{Head: HeadBoostLU, Boost: alpha, BoostEval: eval}, 4, nil)
		require.NoError(t, err)
		nn.SetTraining(m, false)
		return m
	}
	one := head(1, false)
	require.Equal(t, keys, nn.StateDictOf(one).Keys(), "the tensors of the body alone")
	require.InDeltaSlice(t, want, torch.ToSlice[float32](one.Forward(x)), 1e-5)
	require.Same(t, body.Head(), Linear(one))
	require.Nil(t, one.Head())
	require.False(t, MeanPooled(one))

	five := head(5, true)
	maps := torch.ToSlice[float32](decoder.Boost(torch.Linear(body.FeatureMap(x).Permute(0, 2, 3, 1), body.Head().Weight,
		body.Head().Bias).Permute(0, 3, 1, 2), 5).MeanDim([]int{2, 3}, false))
	got := torch.ToSlice[float32](five.Forward(x))
	require.InDeltaSlice(t, maps, got, 1e-5)
	require.False(t, slices.Equal(want, got))
	e, err := explain(five, x)
	require.NoError(t, err)
	require.InDeltaSlice(t, got, torch.ToSlice[float32](e.Logits), 1e-6)
	require.InDeltaSlice(t, got, torch.ToSlice[float32](e.Values.MeanDim([]int{2, 3}, false)), 1e-6)
	nn.SetTraining(five, true)
	nn.FreezeBatchNorm(five, true)
	require.InDeltaSlice(t, want, torch.ToSlice[float32](five.Forward(x)), 1e-5, "training goes without")

	vit, err := backbone.New("vit_small_patch16", 4, nn.NoInit(), nn.Device(torch.Device{Type: torch.DeviceMeta}))
	require.NoError(t, err)
	_, err = WithHead(vit, HeadSpec{Head: HeadBoostLU, Boost: 5}, 4, nil)
	require.ErrorContains(t, err, "mean of its feature map")
	_, err = WithHead(body, HeadSpec{Head: HeadBoostLU}, 4, nil)
	require.ErrorContains(t, err, "boost is 0")
}

// The latents of the label-wise head: sizes, deviations within their bounds, and what the classifier judges.
func TestEnhanced(t *testing.T) {
	torch.ManualSeed(4)
	for _, beta := range []bool{false, true} {
		body, err := backbone.New("small_cnn", 4)
		require.NoError(t, err)
		net, err := WithHead(body, HeadSpec{Head: HeadDecoder, Dim: 16, Projection: decoder.None, Latent: 6,
			LatentBeta: beta}, 4, nil)
		require.NoError(t, err)
		nn.SetTraining(net, false)
		h := net.(*enhanced)
		x := torch.Randn(torch.S(2, 3, 32, 32), torch.Float32, nil)
		f := h.Labelwise(x)
		l := h.Latent.Forward(f)
		require.Equal(t, []int{2, 4, 6}, l.Mean.Shape())
		require.Equal(t, []int{2, 4, 6}, l.Std.Shape())
		require.Positive(t, l.Std.Min().Item())
		require.Equal(t, beta, l.Alpha != nil)
		width := 6
		if beta {
			require.Equal(t, []int{2, 4}, l.Beta.Shape())
			require.Positive(t, l.Beta.Min().Item())
			width = 16
		}
		require.Equal(t, []int{1, 4, width}, h.Decoder.FC.W.Shape())
		require.Equal(t, torch.ToSlice[float32](h.Forward(x)), torch.ToSlice[float32](h.Logits(f, l.Mean)))
		body2, head := Split(net)
		require.Len(t, append(body2, head...), len(nn.Parameters(net)))
		e, err := explain(net, x)
		require.NoError(t, err)
		require.InDeltaSlice(t, torch.ToSlice[float32](net.Forward(x)), torch.ToSlice[float32](e.Logits), 1e-6)
	}
}
