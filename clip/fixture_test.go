package clip

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// tiny lists the fixtures by what Load is given.
var tiny = []string{
	"hf_gelu_fp32", "hf_quickgelu_fp16", "hf_sharded_fp16", "hf_quickgelu_fp16/model.safetensors", "hf_sharded_fp16/model.safetensors.index.json",
	"open_clip_safetensors", "open_clip_safetensors/open_clip_model.safetensors", "open_clip_bin", "open_clip_bin/open_clip_pytorch_model.bin", "open_clip_bin/open_clip_config.json",
	"openai_vit/model.pt", "openai_vit/state_dict.pt", "openai_vit", "openai_rn/model.pt", "openai_rn/state_dict.pt", "openai_rn",
}

type expected struct {
	nn.StateDict
	Photos []string `json:"photos"`
	Texts  []string `json:"texts"`
}

// fixture loads a tiny model and what another library computed with it.
func fixture(t testing.TB, name string) (*CLIP, *Loaded, expected) {
	t.Helper()
	path := testroot.Shared(t, "data", "clip_tiny", filepath.FromSlash(name))
	m, l, err := Load(path, LoadOptions{})
	require.NoError(t, err)
	dir := path
	if st, err := os.Stat(path); err == nil && !st.IsDir() {
		dir = filepath.Dir(path)
	}
	var e expected
	b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &e))
	e.StateDict, _, err = nn.LoadSafetensors(filepath.Join(dir, "expected.safetensors"))
	require.NoError(t, err)
	return m, l, e
}

// near compares as spec/README.md says: |got - want| <= atol + rtol·|want|.
func near(t testing.TB, what string, want, got *torch.Tensor, rtol, atol float64) {
	t.Helper()
	require.Equal(t, want.Shape(), got.Shape(), what)
	w, g := torch.ToSlice[float64](want), torch.ToSlice[float64](got)
	worst := 0.0
	for i := range w {
		d := math.Abs(w[i] - g[i])
		worst = max(worst, d-rtol*math.Abs(w[i])-atol)
		if !(d <= atol+rtol*math.Abs(w[i])) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, g[i], w[i])
		}
	}
}

// outputs are all tensors of expected.safetensors that m computes from the inputs in it.
func (e expected) outputs(m *CLIP) map[string]*torch.Tensor {
	out := map[string]*torch.Tensor{}
	d := m.Visual.Details(e.StateDict["pixel_values"], Want{Tokens: true})
	out["image_features"], out["patch_tokens"] = d.Embeddings, d.Tokens
	out["text_features"] = m.ForwardText(e.StateDict["input_ids"])
	if ids := e.StateDict["input_ids_hf"]; ids != nil {
		out["text_features_hf_ids"] = m.ForwardText(ids)
	}
	out["image_features_normalised"] = Normalize(out["image_features"])
	out["text_features_normalised"] = Normalize(out["text_features"])
	out["logits_per_image"] = m.Logits(out["image_features_normalised"], out["text_features_normalised"])
	for name, x := range e.StateDict {
		if p, ok := strings.CutSuffix(name, "_pixel_values"); ok {
			d := m.Visual.Details(x, Want{Tokens: true})
			out[p+"_image_features"], out[p+"_patch_tokens"] = d.Embeddings, d.Tokens
			if v, ok := m.Visual.(*ViT); ok {
				rows, columns := v.grid(x)
				out[p+"_positional_embedding"] = ResizePositions(v.PositionalEmbedding, v.cfg, rows, columns)
			}
		}
	}
	return out
}

func TestFixtures(t *testing.T) {
	for _, name := range tiny {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			m, l, e := fixture(t, name)
			t.Log(l)
			torch.Scope(func(*torch.Arena) {
				torch.NoGrad(func() {
					out := e.outputs(m)
					seen := 0
					for key, want := range e.StateDict {
						got := out[key]
						if got == nil {
							require.True(t, strings.HasPrefix(key, "pixel_values") || strings.HasPrefix(key, "input_ids") || strings.HasSuffix(key, "_pixel_values") || strings.HasSuffix(key, "_bf16"), key)
							continue
						}
						near(t, key, want, got, 1e-4, 1e-5)
						seen++
					}
					require.GreaterOrEqual(t, seen, 6)
					// The short way, which reads one token of the last block, gives the same.
					near(t, "short way", e.StateDict["image_features"], m.Visual.Forward(e.StateDict["pixel_values"]), 1e-4, 1e-5)
				})
			})
		})
	}
}

// Frozen towers in float32 and bfloat16, and bfloat16 weights alone.
func TestFixturesFrozen(t *testing.T) {
	for _, name := range tiny {
		if strings.Contains(name, "/") {
			continue
		}
		for _, dtype := range []torch.DType{torch.Float32, torch.BFloat16} {
			t.Run(name+"_"+dtype.String(), func(t *testing.T) {
				m, _, e := fixture(t, name)
				require.NoError(t, m.Freeze(dtype))
				torch.Scope(func(*torch.Arena) {
					torch.NoGrad(func() {
						x, ids := e.StateDict["pixel_values"].ToDType(dtype), e.StateDict["input_ids"]
						image, text := m.Visual.Forward(x), m.ForwardText(ids)
						d := m.Visual.Details(x, Want{Tokens: true, Attention: true})
						if dtype == torch.Float32 {
							near(t, "image", e.StateDict["image_features"], image, 1e-4, 1e-5)
							near(t, "text", e.StateDict["text_features"], text, 1e-4, 1e-5)
							near(t, "tokens", e.StateDict["patch_tokens"], d.Tokens, 1e-4, 5e-5) // oneDNN's swish
						}
						require.Greater(t, cosine(e.StateDict["image_features"], image), 0.999)
						require.Greater(t, cosine(e.StateDict["text_features"], text), 0.999)
						require.Greater(t, cosine(e.StateDict["image_features"], d.Embeddings), 0.999)
						for _, a := range d.Attention {
							near(t, "sums", torch.Ones(a.Shape()[:3]), a.SumDim([]int{-1}, false), 0, 0.02)
						}
					})
				})
			})
		}
	}
}

// cosine is the least one of the rows.
func cosine(a, b *torch.Tensor) float64 {
	return Normalize(a.ToDType(torch.Float32)).Mul(Normalize(b.ToDType(torch.Float32))).SumDim([]int{-1}, false).Min().Item()
}

// Preprocessing in the fixtures: the same levels as Pillow in each library's geometry, and torchvision's.
func TestFixturePictures(t *testing.T) {
	for _, name := range tiny {
		if strings.Contains(name, "/") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			m, _, e := fixture(t, name)
			var files [][]byte
			for _, p := range e.Photos {
				b, err := os.ReadFile(testroot.Shared(t, "data", filepath.FromSlash(p)))
				require.NoError(t, err)
				files = append(files, b)
			}
			for key, want := range e.StateDict {
				if key != "pixel_values" && !strings.HasSuffix(key, "_pixel_values") && key != "pixel_values_torchvision_backend" {
					continue
				}
				p := m.Config.Preprocess
				if strings.Contains(key, "torchvision") {
					p.Backend = Torchvision
				}
				pre, err := NewPreprocessor(p, want.Size(2), want.Size(3), 2, pixel.Options{})
				require.NoError(t, err)
				got, err := pre.Batch(t.Context(), files)
				require.NoError(t, err)
				near(t, key, want, got, 0, 1e-5)
			}
		})
	}
}

func TestFixtureTokens(t *testing.T) {
	for _, name := range []string{"hf_gelu_fp32", "hf_quickgelu_fp16", "hf_sharded_fp16", "open_clip_bin", "open_clip_safetensors"} {
		_, l, e := fixture(t, name)
		require.Len(t, e.Texts, 6)
		b := l.Tokenizer.Batch(e.Texts, 77)
		require.Equal(t, fmt.Sprint(torch.ToSlice[int32](e.StateDict["input_ids"])), fmt.Sprint(b.IDs), name)
	}
}

// Every archived tensor of OpenAI's files is accounted for; parameter counts are those of the published models.
func TestNamed(t *testing.T) {
	var want map[string]int
	b, err := os.ReadFile(testroot.Shared(t, "spec", "golden_models.json"))
	require.NoError(t, err)
	var top struct {
		Map struct {
			Parameters map[string]int `json:"parameters"`
		} `json:"clip_weight_map"`
	}
	require.NoError(t, json.Unmarshal(b, &top))
	want = top.Map.Parameters
	require.Len(t, want, 8)
	for name, n := range want {
		c, err := Named(name)
		require.NoError(t, err)
		m, err := build(c, false)
		require.NoError(t, err)
		require.Equal(t, n, nn.CountParameters(m), name)
		nn.Walk(m, func(e nn.Entry) { e.Tensor.Free() })
	}
	_, err = Named("ViT-B/17")
	require.ErrorContains(t, err, "ViT-B/16")
}
