package backbone_test

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// filled makes the state dict of a list of keys, so that a file of another library's names can be made without its model.
func filled(shapes map[string][]int) nn.StateDict {
	sd := nn.StateDict{}
	for k, shape := range shapes {
		offset, scale := 0.0, 0.5
		switch {
		case len(shape) == 1 && strings.HasSuffix(k, ".weight"):
			offset, scale = 1, 1
		case len(shape) > 1 && strings.HasSuffix(k, "weight"):
			scale = byFanIn(k, shape)
		}
		sd[k] = det(k, offset, scale, shape...).ToDType(torch.Float32)
	}
	return sd
}

// weightsOnly is the fill's scale where tokens and position tables keep theirs.
func weightsOnly(key string, shape []int) float64 {
	if !strings.HasSuffix(key, "weight") {
		return 0.5
	}
	return byFanIn(key, shape)
}

// TestGoldenModern compares ConvNeXt, from timm's and torchvision's keys, and ViT with golden_backbones.json.
func TestGoldenModern(t *testing.T) {
	var file struct {
		Models []struct {
			goldenModel
			EvalFeatures struct {
				Map        *summary `json:"map"`
				PooledNorm *summary `json:"pooled_norm"`
				Tokens     *summary `json:"tokens"`
			} `json:"eval_features"`
		} `json:"models"`
		KeyLists map[string]keyList `json:"key_lists_of_full_models"`
	}
	golden(t, "golden_backbones.json", &file)
	checked := 0
	for _, g := range file.Models {
		if !strings.Contains(g.Name, "convnext") && !strings.Contains(g.Name, "vit") {
			continue
		}
		checked++
		for precision, d := range precisions {
			t.Run(g.Name+"/"+precision, func(t *testing.T) {
				tol := 1e-8
				if d == torch.Float32 {
					tol = 5e-4
				}
				var m backbone.Model
				batch := 2
				if strings.Contains(g.Name, "vit") {
					batch = 1
					m = backbone.NewViT(backbone.ViTConfig{ImageSize: 64, PatchSize: 16, Dim: 768, Depth: 12, NumHeads: 12}, 10, nn.NoInit())
				} else {
					var err error
					m, err = backbone.New("convnext_tiny", 10, nn.NoInit())
					require.NoError(t, err)
				}
				if strings.HasPrefix(g.Name, "timm/") {
					g.Keys.check(t, m)
				}
				_, err := backbone.Load(m, filled(g.Keys.Shapes))
				require.NoError(t, err)
				nn.ToDType(m, d)
				nn.SetTraining(m, false)
				x := det("input:"+g.Name, 0, 4, batch, 3, 64, 64).ToDType(torch.Float32).ToDType(d)
				torch.Inference(func() {
					torch.Scope(func(*torch.Arena) {
						g.EvalLogits.Summary.check(t, m.Forward(x), tol, g.AbsMax, "logits")
						if s := g.EvalFeatures.Map; s != nil {
							s.check(t, m.FeatureMap(x).Contiguous(), tol, 0, "feature map")
						}
						if s := g.EvalFeatures.PooledNorm; s != nil {
							s.check(t, m.Features(x), tol, 0, "features")
						}
						if s := g.EvalFeatures.Tokens; s != nil {
							s.check(t, m.(*backbone.ViT).Tokens(x), tol, 0, "tokens")
						}
					})
				})
			})
		}
	}
	require.Equal(t, 3, checked)
	for key, name := range map[string]string{"timm/convnext_xlarge": "convnext_xlarge", "timm/vit_base_patch16_224": "vit_base_patch16"} {
		m, err := backbone.New(name, 1000, nn.NoInit())
		require.NoError(t, err)
		file.KeyLists[key].check(t, m)
	}
}

type modern struct {
	Map    summary            `json:"map"`
	Pooled summary            `json:"pooled"`
	Logits summary            `json:"logits"`
	Loss   float64            `json:"loss"`
	Norms  map[string]float64 `json:"gradient_norm_per_group"`
}

// TestModern compares SqueezeNet's features, torchvision's ViT by its own keys, a resized position table and a training step of ConvNeXt and
// ViT with torchvision and timm (testdata/nn/modern.py).
func TestModern(t *testing.T) {
	var file map[string]modern
	golden(t, "modern.json", &file)
	input := func(name string, shape ...int) *torch.Tensor {
		return det("input:"+name, 0, 4, shape...).ToDType(torch.Float32).ToDType(torch.Float64)
	}
	prepare := func(m backbone.Model) {
		fill(m, torch.Float32, weightsOnly)
		nn.ToDType(m, torch.Float64)
	}
	for _, name := range []string{"squeezenet1_0", "squeezenet1_1"} {
		m, err := backbone.New(name, 10)
		require.NoError(t, err)
		prepare(m)
		nn.SetTraining(m, false)
		x := input(name, 2, 3, 64, 64)
		g := file[name]
		g.Map.check(t, m.FeatureMap(x), 1e-8, 0, name)
		g.Pooled.check(t, m.Features(x), 1e-8, 0, name)
	}

	small := func(size int) *backbone.ViT {
		return backbone.NewViT(backbone.ViTConfig{ImageSize: size, PatchSize: 16, Dim: 48, Depth: 2, NumHeads: 3}, 10)
	}
	v := small(64)
	sd := nn.StateDict{}
	for k, x := range nn.StateDictOf(v) { // torchvision's names, by which the values were made
		name := torchvisionKey(k)
		sd[name] = filled(map[string][]int{name: x.Shape()})[name]
	}
	_, err := backbone.Load(v, sd)
	require.NoError(t, err)
	nn.ToDType(v, torch.Float64)
	file["torchvision_vit"].Logits.check(t, v.Forward(input("torchvision_vit", 2, 3, 64, 64)), 1e-8, 0, "torchvision's ViT")

	v = backbone.NewViT(backbone.ViTConfig{ImageSize: 224, PatchSize: 16, Dim: 192, Depth: 2, NumHeads: 3}, 10)
	prepare(v)
	file["vit_resized"].Logits.check(t, v.Forward(input("vit_resized", 1, 3, 96, 80)), 1e-7, 0, "resized positions")

	for name, m := range map[string]backbone.Model{"vit_step": small(64), "convnext_step": backbone.NewConvNeXt([4]int{1, 2, 1, 1}, [4]int{8, 16, 32, 64}, 10)} {
		prepare(m)
		g := file[name]
		y := m.Forward(input(name, 2, 3, 64, 64))
		g.Logits.check(t, y, 1e-8, 0, name)
		loss := y.Mul(det("input:"+name+":grad", 0, 2, 2, 10).ToDType(torch.Float32).ToDType(torch.Float64)).Mean()
		require.InDelta(t, g.Loss, loss.Item(), 1e-8*g.Logits.AbsMax)
		loss.Backward()
		norms := map[string]float64{}
		for k, p := range nn.NamedParameters(m) {
			norms[topGroup(k)] += p.Grad().Square().Sum().Item()
		}
		require.Len(t, norms, len(g.Norms))
		for k, n := range g.Norms {
			require.InEpsilon(t, n, math.Sqrt(norms[k]), 1e-6, "%s: gradient of %s", name, k)
		}
	}
}

// torchvisionKey is timm's key of a ViT as torchvision has it.
func torchvisionKey(k string) string {
	for _, r := range [][2]string{
		{`^cls_token$`, "class_token"}, {`^patch_embed\.proj`, "conv_proj"}, {`^pos_embed$`, "encoder.pos_embedding"}, {`^norm\.`, "encoder.ln."}, {`^head\.`, "heads.head."},
		{`^blocks\.(\d+)\.norm`, "encoder.layers.encoder_layer_$1.ln_"}, {`^blocks\.(\d+)\.attn\.qkv\.`, "encoder.layers.encoder_layer_$1.self_attention.in_proj_"},
		{`^blocks\.(\d+)\.attn\.proj`, "encoder.layers.encoder_layer_$1.self_attention.out_proj"}, {`^blocks\.(\d+)\.mlp\.fc1`, "encoder.layers.encoder_layer_$1.mlp.0"},
		{`^blocks\.(\d+)\.mlp\.fc2`, "encoder.layers.encoder_layer_$1.mlp.3"},
	} {
		re := regexp.MustCompile(r[0])
		if re.MatchString(k) {
			return re.ReplaceAllString(k, r[1])
		}
	}
	return k
}

// TestSqueezeNetFile loads torchvision's file: its classifier, a convolution, is left out and the photos' features are sensible.
func TestSqueezeNetFile(t *testing.T) {
	m, l, err := backbone.NewFromFile("squeezenet1_0", testroot.Shared(t, "data", "weights", "squeezenet1_0.safetensors"), 5)
	require.NoError(t, err)
	require.True(t, l.HeadSkipped)
	require.Contains(t, l.String(), "the file's classifier, a convolution, was left out")
	require.Equal(t, []int{5, 512}, m.Head().Weight.Shape())
}

// TestResNetSavesMemory: checkpointed blocks give the same gradients, frozen stages none, and frozen statistics stay.
func TestResNetSavesMemory(t *testing.T) {
	torch.ManualSeed(2)
	m := backbone.NewResNet(backbone.BasicBlocks, [4]int{1, 1, 1, 1}, 3)
	nn.ConstantBatchNorm(m)
	require.NoError(t, backbone.FreezeAt(m, 2))
	mean := m.Layer1[0].(*backbone.BasicBlock).BN1.RunningMean.Clone()
	x := torch.Randn(torch.S(2, 3, 64, 64))
	gradients := func(on bool) map[string][]float32 {
		m.Checkpointing = on
		out := map[string][]float32{}
		torch.Scope(func(*torch.Arena) {
			for _, p := range nn.NamedParameters(m) {
				p.SetGrad(nil)
			}
			m.Forward(x).Square().Sum().Backward()
			for key, p := range nn.NamedParameters(m) {
				if g := p.Grad(); g != nil {
					out[key] = torch.ToSlice[float32](g)
				}
			}
		})
		return out
	}
	plain := gradients(false)
	require.Equal(t, plain, gradients(true))
	require.NotContains(t, plain, "conv1.weight")
	require.NotContains(t, plain, "layer1.0.conv1.weight")
	require.Contains(t, plain, "layer2.0.conv1.weight")
	require.NotContains(t, plain, "layer2.0.bn1.weight")
	require.True(t, m.Layer1[0].(*backbone.BasicBlock).BN1.RunningMean.Equal(mean))
	fresh := backbone.NewResNet(backbone.BasicBlocks, [4]int{1, 1, 1, 1}, 3)
	require.NoError(t, backbone.FreezeAt(fresh, 1))
	require.True(t, fresh.BN1.Frozen)
	require.ErrorContains(t, backbone.FreezeAt(m, 6), "a ResNet has 5")
	require.ErrorContains(t, backbone.FreezeAt(backbone.NewSmallCNN(2), 1), "stages of a ResNet")
}
