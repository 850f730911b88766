package backbone_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// towers is testdata/nn/towers.json.
type towers struct {
	Cases []struct {
		Name     string
		Shapes   map[string][]int
		Image    int
		Tokens   summary
		Features summary
	}
	Models map[string]struct {
		Shapes       map[string][]int
		Depth, Heads int
		Act          string
		Mean         float64
	} `json:"models_of_timm"`
}

// small is a tower of the golden.
func small(pool bool) *backbone.ViT {
	return backbone.NewViT(backbone.ViTConfig{ImageSize: 56, PatchSize: 14, Dim: 48, Depth: 2, NumHeads: 3,
		LayerScale: !pool, Pool: pool}, 5)
}

// older are the names of attention in files of Hugging Face's before transformers 5.
var older = strings.NewReplacer("attention.q_proj", "attention.attention.query", "attention.k_proj",
	"attention.attention.key",
	"attention.v_proj", "attention.attention.value", "attention.o_proj", "attention.output.dense")

// pictures are the golden's images as a backbone takes them: SigLIP's in [-1, 1] become ImageNet's normalisation.
func pictures(name string, size int, pool bool) *torch.Tensor {
	x := det("input:"+name, 0, 4, 2, 3, size, size)
	if !pool {
		return x
	}
	mean, std := make([]float64, 3), make([]float64, 3)
	for i := range mean {
		mean[i], std[i] = float64(pixel.ImageNetMean[i]), float64(pixel.ImageNetStd[i])
	}
	return x.MulScalar(0.5).AddScalar(0.5).Sub(torch.FromSlice(mean, 3, 1, 1)).Div(torch.FromSlice(std, 3, 1, 1))
}

// TestTowers compares DINOv2 and SigLIP with timm and Hugging Face, loaded from their files' keys.
func TestTowers(t *testing.T) {
	var file towers
	golden(t, "towers.json", &file)
	require.Len(t, file.Cases, 6)
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			pool := strings.Contains(c.Name, "siglip")
			m := small(pool)
			sd := filled(c.Shapes)
			if c.Name == "hf_siglip" { // as in a file with both towers
				both := nn.StateDict{"logit_scale": torch.Zeros(torch.S(1)), "text_model.head.bias": torch.Zeros(torch.S(3))}
				for k, x := range sd {
					both["vision_model."+strings.TrimPrefix(k, "vision_model.")] = x
				}
				sd = both
			}
			l, err := backbone.Load(m, sd)
			require.NoError(t, err)
			require.True(t, l.Bare)
			require.Contains(t, l.String(), "the file has no classifier")
			if c.Name == "hf_dino" { // the names of the published files, before transformers 5
				published := nn.StateDict{}
				for k, x := range sd {
					published["dinov2."+older.Replace(k)] = x
				}
				require.Contains(t, published, "dinov2.encoder.layer.0.attention.attention.query.weight")
				m = small(pool)
				_, err := backbone.Load(m, published)
				require.NoError(t, err)
			}
			nn.ToDType(m, torch.Float64)
			nn.SetTraining(m, false)
			x := pictures(c.Name, c.Image, pool)
			c.Tokens.check(t, m.Tokens(x), 1e-7, 0, "tokens")
			c.Features.check(t, m.Features(x), 1e-7, 0, "features")
			require.Equal(t, []int{2, 48, c.Image / 14, c.Image / 14}, m.FeatureMap(x).Shape())
			require.Equal(t, []int{2, 5}, m.Forward(x).Shape())
		})
	}
	for timm, want := range file.Models {
		m, err := backbone.New(backbone.OfTimm(timm), 3, nn.NoInit(), nn.Device(torch.Device{Type: torch.DeviceMeta}))
		require.NoError(t, err, timm)
		own := nn.StateDictOf(m)
		for k, shape := range want.Shapes {
			require.NotNil(t, own[k], "%s %s", timm, k)
			require.Equal(t, shape, own[k].Shape(), "%s %s", timm, k)
		}
		v := m.(*backbone.ViT)
		require.Len(t, v.Blocks, want.Depth)
		require.Equal(t, want.Heads, v.Blocks[0].Attn.NumHeads)
	}
}

// TestPositionsOfAnySize loads weights whose position table is not the model's, and gives other files their errors.
func TestPositionsOfAnySize(t *testing.T) {
	wide := func(size int) *backbone.ViT {
		return backbone.NewViT(backbone.ViTConfig{ImageSize: size, PatchSize: 16, Dim: 48, Depth: 1, NumHeads: 3}, 4)
	}
	made, m := wide(96), wide(224)
	sd := nn.StateDictOf(made)
	_, err := backbone.Load(m, sd)
	require.NoError(t, err)
	require.Equal(t, []int{1, 37, 48}, m.Position.Shape())
	require.True(t, m.Position.RequiresGrad())
	x := torch.Randn(torch.S(1, 3, 96, 96), torch.Float32, nil)
	require.Equal(t, torch.ToSlice[float32](made.Forward(x)), torch.ToSlice[float32](m.Forward(x)))
	require.Equal(t, []int{1, 4}, m.Forward(torch.Randn(torch.S(1, 3, 224, 224), torch.Float32, nil)).Shape())
	sd["pos_embed"] = torch.Zeros(torch.S(1, 30, 48)) // no square
	_, err = backbone.Load(wide(224), sd)
	require.ErrorContains(t, err, "pos_embed")
}
