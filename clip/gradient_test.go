package clip

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch/nn"
)

// Loss and all gradients equal open_clip's, the temperature's included (testdata/clip/make_gradients.py).
func TestGradients(t *testing.T) {
	all, _, err := nn.LoadSafetensors(testroot.Testdata("clip", "gradients.safetensors"))
	require.NoError(t, err)
	text := &Text{ContextLength: 10, VocabSize: 40, Width: 12, Heads: 2, Layers: 2, MLP: 48, Act: QuickGELU, Eps: 1e-5}
	gelu := *text
	gelu.Act = GELU
	for name, c := range map[string]Config{
		"vit":  {Text: text, Vision: &Vision{ImageSize: [2]int{24, 24}, PatchSize: 8, Width: 16, Layers: 2, Heads: 2, MLP: 64, Act: QuickGELU, Eps: 1e-5, Positions: PositionsAuto}},
		"gelu": {Text: &gelu, Vision: &Vision{ImageSize: [2]int{24, 24}, PatchSize: 8, Width: 16, Layers: 1, Heads: 1, MLP: 32, Act: GELU, Eps: 1e-5, Positions: PositionsAuto}},
		"rn":   {Text: text, Vision: &Vision{ImageSize: [2]int{64, 64}, Width: 4, Heads: 4, Stages: []int{1, 1, 1, 1}, Positions: PositionsAuto}},
	} {
		t.Run(name, func(t *testing.T) {
			c.EmbedDim, c.Preprocess = 8, OpenAIPreprocess
			m, err := New(c)
			require.NoError(t, err)
			part := func(kind string) nn.StateDict {
				sd := nn.StateDict{}
				for k, v := range all {
					if rest, ok := strings.CutPrefix(k, name+"."+kind+"."); ok {
						sd[rest] = v
					}
				}
				return sd
			}
			_, err = nn.LoadStateDict(m, part("param"), true)
			require.NoError(t, err)
			nn.SetTraining(m, false)
			loss := m.ContrastiveLoss(m.Visual.Forward(all[name+".pixel_values"]), m.ForwardText(all[name+".input_ids"]))
			near(t, "loss", all[name+".loss"], loss, 1e-5, 1e-6)
			loss.Backward()
			grads := part("grad")
			n := 0
			for k, p := range nn.NamedParameters(m) {
				want := grads[k]
				require.NotNil(t, want, k)
				scale := max(want.Abs().Max().Item(), 1e-2)
				near(t, k, want, p.Grad(), 1e-3, 1e-4*scale)
				n++
			}
			require.Len(t, grads, n)
		})
	}
}
