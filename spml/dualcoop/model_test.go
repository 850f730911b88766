package dualcoop_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/clip/tokenizer"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/dualcoop"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/torchtest"
)

var _ backbone.Model = (*dualcoop.Model)(nil)

func builtin(t *testing.T, classes []string, c dualcoop.Config) *dualcoop.Model {
	m, l, err := clip.Builtin()
	require.NoError(t, err)
	tok := l.Tokenizer
	if tok == nil {
		tok = tokenizer.Default()
	}
	c.Generator = torch.NewGenerator(3)
	d, err := dualcoop.New(m, tok, classes, c)
	require.NoError(t, err)
	return d
}

// The regions of a ModifiedResNet are v_proj and then c_proj of the map that enters its attention pool, which transformers and OpenAI's code wrote down.
func TestRegionsOfResNet(t *testing.T) {
	dir := testroot.Shared(t, "data", "clip_tiny", "openai_rn")
	m, _, err := clip.Load(dir, clip.LoadOptions{})
	require.NoError(t, err)
	want, _, err := nn.LoadSafetensors(filepath.Join(dir, "expected.safetensors"))
	require.NoError(t, err)
	torch.NoGrad(func() {
		torch.Scope(func(*torch.Arena) {
			got := clip.Regions(m.Visual, want["pixel_values"])
			p := m.Visual.(*clip.ModifiedResNet).AttnPool
			f64 := func(x *torch.Tensor) *torch.Tensor { return x.ToDType(torch.Float64) }
			tokens := f64(want["patch_tokens"])
			s := tokens.Shape()
			places := f64(p.PositionalEmbedding)
			require.Equal(t, 1+s[2]*s[3], places.Size(0), "the fixture's own size: no resizing")
			for b := range s[0] {
				for l := range 1 + s[2]*s[3] {
					var x *torch.Tensor // [F]
					if l == 0 {
						x = tokens.Select(0, b).Flatten(1, 2).MeanDim([]int{1}, false)
					} else {
						x = tokens.Select(0, b).Flatten(1, 2).Select(1, l-1)
					}
					x = x.Add(places.Select(0, l))
					v := f64(p.VProj.Weight).Matmul(x).Add(f64(p.VProj.Bias))
					y := f64(p.CProj.Weight).Matmul(v).Add(f64(p.CProj.Bias))
					torchtest.AllClose(t, f64(got.Select(0, b).Select(1, l)), y, 1e-4, 1e-5)
				}
			}
		})
	})
}

// The first region of a ViT is its embedding.
func TestRegionsOfViT(t *testing.T) {
	dir := testroot.Shared(t, "data", "clip_tiny", "openai_vit")
	m, _, err := clip.Load(dir, clip.LoadOptions{})
	require.NoError(t, err)
	want, _, err := nn.LoadSafetensors(filepath.Join(dir, "expected.safetensors"))
	require.NoError(t, err)
	torch.NoGrad(func() {
		r := clip.Regions(m.Visual, want["pixel_values"])
		require.Equal(t, want["patch_tokens"].Size(1), r.Size(2))
		torchtest.AllClose(t, r.Select(2, 0), want["image_features"], 1e-4, 1e-5)
	})
}

// Embedded tokens give what ids give.
func TestForwardTokens(t *testing.T) {
	m, _, err := clip.Builtin()
	require.NoError(t, err)
	torch.NoGrad(func() {
		b := tokenizer.Default().Batch([]string{"a red ring", "a photo of a striped star."}, 20)
		ids := make([]int64, len(b.IDs))
		for i, x := range b.IDs {
			ids[i] = int64(x)
		}
		x := torch.FromSlice(ids, 2, 20)
		torchtest.AllClose(t, m.ForwardTokens(m.TokenEmbedding.Forward(x), x.Argmax(-1, false)), m.ForwardText(x), 1e-6, 1e-7)
	})
}

// Gradients pass through the text tower to the contexts and nowhere else, and are those of differences.
func TestGradients(t *testing.T) {
	for _, perClass := range []bool{false, true} {
		d := builtin(t, []string{"red", "dotted_thing"}, dualcoop.Config{Context: 3, PerClass: perClass})
		torch.ManualSeed(5)
		x := torch.Randn(torch.S(2, 3, 64, 64))
		w := torch.Randn(torch.S(2, 2))
		value := func() *torch.Tensor { return d.Forward(x).Mul(w).Sum() }
		value().Backward()
		nn.Walk(d.CLIP, func(e nn.Entry) { require.Nil(t, e.Tensor.Grad(), e.Key) })
		for _, c := range []*torch.Tensor{d.CtxPos, d.CtxNeg} {
			g := torch.ToSlice[float32](c.Grad())
			base := torch.ToSlice[float32](c.Detach())
			checked := 0
			for i := 0; i < len(g); i += len(g) / 7 {
				at := func(h float32) float64 {
					v := append([]float32(nil), base...)
					v[i] += h
					var y float64
					torch.NoGrad(func() {
						c.Detach().Copy_(torch.FromSlice(v, c.Shape()...))
						y = value().Item()
					})
					return y
				}
				const h = 1e-3
				numeric := (at(h) - at(-h)) / (2 * h)
				at(0)
				require.InDelta(t, numeric, float64(g[i]), 2e-2*math.Max(1, math.Abs(numeric)), "entry %d", i)
				if g[i] != 0 {
					checked++
				}
			}
			require.GreaterOrEqual(t, checked, 5)
		}
	}
}

// The prompts differ between positive and negative, and fixing them changes no score.
func TestFix(t *testing.T) {
	d := builtin(t, []string{"red", "star", "ring"}, dualcoop.Config{Context: 4, ImageNet: true})
	torch.NoGrad(func() {
		x := torch.Randn(torch.S(2, 3, 64, 64))
		free := d.Forward(x)
		require.Equal(t, []int{2, 3}, free.Shape())
		d.Fix()
		require.Equal(t, torch.ToSlice[float32](free), torch.ToSlice[float32](d.Forward(x)))
		texts := d.Texts()
		require.Equal(t, []int{6, 64}, texts.Shape())
		logits, p, err := dualcoop.Aggregate(d.Regions(x), texts)
		require.NoError(t, err)
		torchtest.AllClose(t, logits.Select(1, 1).Sub(logits.Select(1, 0)).Sigmoid(), p, 1e-5, 1e-6)
		torchtest.AllClose(t, free.Sigmoid(), p, 1e-5, 1e-6)
		d.Loosen()
		require.Equal(t, []int{2, 64, 2, 2}, d.FeatureMap(x).Shape())
	})
}

func TestErrors(t *testing.T) {
	m, _, err := clip.Builtin()
	require.NoError(t, err)
	tok := tokenizer.Default()
	for want, f := range map[string]func() error{
		"0 classes": func() error { _, err := dualcoop.New(m, tok, nil, dualcoop.Config{Context: 2}); return err },
		"class 2 has no name": func() error {
			_, err := dualcoop.New(m, tok, []string{"a", "_"}, dualcoop.Config{Context: 2})
			return err
		},
		"leave no room for a name": func() error { _, err := dualcoop.New(m, tok, []string{"a"}, dualcoop.Config{Context: 75}); return err },
		"is too long for the 77": func() error {
			_, err := dualcoop.New(m, tok, []string{"a very long name of a class"}, dualcoop.Config{Context: 72})
			return err
		},
		"do not fit the model": func() error { _, err := dualcoop.Blank(m.Config, 3, 70, dualcoop.Config{Context: 16}); return err },
	} {
		require.ErrorContains(t, f(), want)
	}
	m.Visual = nil
	_, err = dualcoop.New(m, tok, []string{"a"}, dualcoop.Config{Context: 2})
	require.ErrorContains(t, err, "lacks one of them")
}
