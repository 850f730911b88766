package decoder

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/torchtest"
)

func small(t *testing.T, c Config) *Decoder {
	t.Helper()
	torch.ManualSeed(3)
	c.InFeatures, c.Classes, c.NumHeads, c.FeedForward, c.Projection = 8, 5, 2, 16, 4
	d, err := New(c)
	require.NoError(t, err)
	return d
}

// The forward pass, its gradients and training steps are compared with the released code by cmd/golden.
func TestShapes(t *testing.T) {
	torchtest.NoLeaks(t)
	d := small(t, Config{Dim: 12})
	torch.Scope(func(*torch.Arena) {
		x := torch.Randn(torch.S(3, 8, 4, 2))
		out := d.Forward(x, Want{Embeddings: true, Attention: true})
		require.Equal(t, []int{3, 5}, out.Logits.Shape())
		require.Equal(t, []int{3, 5, 12}, out.Labelwise.Shape())
		require.Equal(t, []int{3, 5, 4}, out.Z.Shape())
		require.Equal(t, []int{3, 5, 8}, out.Attention.Shape())
		norms := torch.ToSlice[float32](out.Z.Square().SumDim([]int{-1}, false).Flatten(0, -1))
		for _, n := range norms {
			require.InDelta(t, 1, n, 1e-5)
		}
		nn.SetTraining(d, false)
		with, without := d.Forward(x, Want{Attention: true}), d.Forward(x, Want{})
		torchtest.AllClose(t, with.Logits, without.Logits, 1e-5, 1e-6)
		for _, s := range torch.ToSlice[float32](with.Attention.SumDim([]int{-1}, false).Flatten(0, -1)) {
			require.InDelta(t, 1, s, 1e-5)
		}
		require.Nil(t, without.Z)
		require.Nil(t, without.Attention)
	})
}

func TestDropoutOnlyInTraining(t *testing.T) {
	d := small(t, Config{Dropout: 0.5})
	torch.Scope(func(*torch.Arena) {
		x := torch.Randn(torch.S(2, 8, 3, 3))
		first, second := d.Forward(x, Want{}).Logits, d.Forward(x, Want{}).Logits
		require.NotEqual(t, torch.ToSlice[float32](first.Flatten(0, -1)), torch.ToSlice[float32](second.Flatten(0, -1)))
		nn.SetTraining(d, false)
		first, second = d.Forward(x, Want{}).Logits, d.Forward(x, Want{}).Logits
		require.Equal(t, torch.ToSlice[float32](first.Flatten(0, -1)), torch.ToSlice[float32](second.Flatten(0, -1)))
	})
}

// Every parameter takes part, and classes do not see each other: the queries have no self-attention.
func TestGradients(t *testing.T) {
	d := small(t, Config{Dropout: None, DType: torch.Float64})
	torch.Scope(func(*torch.Arena) {
		x := torch.Randn(torch.S(2, 8, 3, 3), torch.Float64)
		out := d.Forward(x, Want{Embeddings: true})
		out.Logits.Select(1, 2).Sum().Add(out.Z.Select(1, 2).Select(1, 0).Sum()).Backward()
		for key, p := range nn.NamedParameters(d) {
			require.NotNil(t, p.Grad(), key)
		}
		rows := torch.ToSlice[float64](d.QueryEmbed.Weight.Grad().Abs().SumDim([]int{1}, false))
		for class, g := range rows {
			if class == 2 {
				require.Positive(t, g)
			} else {
				require.Zero(t, g)
			}
		}
	})
}

func TestReleasedSize(t *testing.T) {
	d, err := New(Config{InFeatures: 2048, Classes: 80})
	require.NoError(t, err)
	require.Equal(t, 151_078_912, nn.CountParameters(&d.Encoder))
	require.Equal(t, 163_920, nn.CountParameters(d.FC))
	require.Equal(t, 4_458_624, nn.CountParameters(d.Proj))
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []Config{
		{}, {InFeatures: 8}, {Classes: 2}, {InFeatures: 6, Classes: 2}, {InFeatures: 8, Classes: 2, NumHeads: 3}, {InFeatures: 8, Classes: 2, Dropout: 1},
		{InFeatures: 8, Classes: 2, DecoderLayers: None}, {InFeatures: 8, Classes: 2, FeedForward: -3},
	} {
		_, err := New(c)
		require.ErrorContains(t, err, "decoder:", "%+v", c)
	}
	_, err := NewML(MLConfig{InFeatures: 4, Classes: 3, Groups: 4})
	require.ErrorContains(t, err, "ML-Decoder wants")
	_, err = SinePosition(6, 2, 2, torch.Float32)
	require.ErrorContains(t, err, "multiple of 4")
	_, err = CAM(torch.Zeros(torch.S(1, 3, 2, 2)), torch.Zeros(torch.S(4, 2)))
	require.ErrorContains(t, err, "weights [C, K]")
	d := small(t, Config{})
	require.Error(t, torch.Try(func() { d.Forward(torch.Zeros(torch.S(1, 7, 2, 2)), Want{}) }))
}

func TestMLDecoder(t *testing.T) {
	d, err := NewML(MLConfig{InFeatures: 6, Classes: 7, Groups: 3, Dim: 8, NumHeads: 2, FeedForward: 16})
	require.NoError(t, err)
	torch.Scope(func(*torch.Arena) {
		y := d.Forward(torch.Randn(torch.S(2, 6, 3, 3)))
		require.Equal(t, []int{2, 7}, y.Shape())
		y.Sum().Backward()
		require.False(t, d.QueryEmbed.Weight.RequiresGrad())
		for key, p := range nn.NamedParameters(d) {
			require.NotNil(t, p.Grad(), key)
		}
		require.Contains(t, nn.StateDictOf(d), "query_embed.weight")
	})
}

// Checkpointing changes no bit of values and gradients, dropout included.
func TestCheckpointing(t *testing.T) {
	torchtest.NoLeaks(t)
	d := small(t, Config{Dropout: 0.3})
	x := torch.Randn(torch.S(2, 8, 3, 3), torch.RequiresGrad)
	run := func(on bool) (out map[string][]float32) {
		d.Checkpointing = on
		torch.Scope(func(*torch.Arena) {
			for _, p := range append(nn.Parameters(d), x) {
				p.SetGrad(nil)
			}
			torch.ManualSeed(9)
			y := d.Forward(x, Want{Embeddings: true})
			y.Logits.Square().Sum().Add(y.Z.Select(1, 1).Sum()).Backward()
			out = map[string][]float32{"logits": torch.ToSlice[float32](y.Logits.Detach()), "input": torch.ToSlice[float32](x.Grad())}
			for key, p := range nn.NamedParameters(d) {
				out[key] = torch.ToSlice[float32](p.Grad())
			}
		})
		return out
	}
	require.Equal(t, run(false), run(true))
}
