package clip

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// A ModifiedResNet whose norms are part of its convolutions gives open_clip's numbers.
func TestFoldedResNet(t *testing.T) {
	all, _, err := nn.LoadSafetensors(testroot.Testdata("clip", "gradients.safetensors"))
	require.NoError(t, err)
	c := Config{EmbedDim: 8, Preprocess: OpenAIPreprocess, Vision: &Vision{ImageSize: [2]int{64, 64}, Width: 4, Heads: 4, Stages: []int{1, 1, 1, 1}, Positions: PositionsAuto}}
	c.Text = &Text{ContextLength: 10, VocabSize: 40, Width: 12, Heads: 2, Layers: 2, MLP: 48, Act: QuickGELU, Eps: 1e-5}
	norms := func(m *CLIP) (n int) {
		for _, l := range nn.Modules(m) {
			if _, ok := l.(*nn.BatchNorm2d); ok {
				n++
			}
		}
		return n
	}
	for _, o := range []Options{{}, {Plain: true}, {DType: torch.BFloat16}, {DType: torch.Float16}} {
		m, err := New(c)
		require.NoError(t, err)
		sd := nn.StateDict{}
		for k := range nn.StateDictOf(m) {
			sd[k] = all["rn.param."+k]
			require.NotNil(t, sd[k], k)
		}
		_, err = nn.LoadStateDict(m, sd, true)
		require.NoError(t, err)
		nn.SetTraining(m, false)
		x := all["rn.pixel_values"]
		var want *torch.Tensor
		torch.NoGrad(func() { want = m.Visual.Forward(x) })
		before := norms(m)
		require.Greater(t, before, 10)
		model, err := NewModel(m, o)
		require.NoError(t, err)
		got, err := model.EncodeImage(t.Context(), x)
		require.NoError(t, err)
		if o.DType == 0 {
			near(t, "folded", want, got, 1e-4, 1e-5)
		}
		require.Greater(t, cosine(want, got), 0.999)
		if o.Plain {
			require.Equal(t, before, norms(m))
			require.NoError(t, Save(t.TempDir(), m, 0))
		} else {
			require.Zero(t, norms(m))
			require.ErrorIs(t, Save(t.TempDir(), m, 0), errFrozen)
		}
		model.Close()
	}
}
