package clip

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

func open(t testing.TB, name string, o Options) (*Model, expected) {
	t.Helper()
	c, l, e := fixture(t, name)
	m, err := newModel(c, l, o)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m, e
}

func (e expected) files(t testing.TB) (files [][]byte) {
	for _, p := range e.Photos {
		b, err := os.ReadFile(testroot.Shared(t, "data", filepath.FromSlash(p)))
		require.NoError(t, err)
		files = append(files, b)
	}
	return files
}

func TestModel(t *testing.T) {
	ctx := t.Context()
	for _, dtype := range []torch.DType{torch.Float32, torch.BFloat16, torch.Float16} {
		for _, plain := range []bool{false, true} {
			m, e := open(t, "open_clip_safetensors", Options{DType: dtype, Plain: plain, Batch: 2})
			image, err := m.EncodeFiles(ctx, e.files(t))
			require.NoError(t, err)
			text, err := m.EncodeText(ctx, e.Texts)
			require.NoError(t, err)
			require.Equal(t, torch.Float32, text.DType())
			if dtype == torch.Float32 {
				near(t, "image", e.StateDict["image_features"], image, 1e-4, 1e-5)
				near(t, "text", e.StateDict["text_features"], text, 1e-4, 1e-5)
			}
			require.Greater(t, cosine(e.StateDict["image_features"], image), 0.9995, "%v", dtype)
			require.Greater(t, cosine(e.StateDict["text_features"], text), 0.999, "%v", dtype)
		}
	}
}

func TestModelOtherSize(t *testing.T) {
	m, e := open(t, "open_clip_safetensors", Options{ImageSize: [2]int{48, 48}})
	image, err := m.EncodeFiles(t.Context(), e.files(t))
	require.NoError(t, err)
	near(t, "image", e.StateDict["interp_48x48_image_features"], image, 1e-4, 1e-5)
	m, _ = open(t, "open_clip_safetensors", Options{ImageSize: [2]int{24, 40}})
	x, err := m.Prepare(t.Context(), e.files(t))
	require.NoError(t, err)
	require.Equal(t, []int{3, 3, 24, 40}, x.Shape())
	_, err = m.EncodeImage(t.Context(), x)
	require.NoError(t, err)
}

// A grid of the same number of places: open_clip leaves the table as it is, Hugging Face resizes it.
func TestPositionsOfAnotherShape(t *testing.T) {
	table := torch.Randn(torch.S(17, 3))
	v := Vision{ImageSize: [2]int{4, 4}, PatchSize: 1, Positions: PositionsOpenCLIP}
	require.Same(t, table, ResizePositions(table, v, 2, 8))
	v.Positions = PositionsHuggingFace
	other := ResizePositions(table, v, 2, 8)
	require.Equal(t, table.Shape(), other.Shape())
	require.False(t, table.Equal(other))
}

func TestZeroShot(t *testing.T) {
	ctx := t.Context()
	m, e := open(t, "hf_gelu_fp32", Options{})
	z, err := m.ZeroShot(ctx, e.Texts, []string{"{}"})
	require.NoError(t, err)
	s, err := z.Files(ctx, e.files(t))
	require.NoError(t, err)
	want := torch.ToSlice[float32](e.StateDict["image_features_normalised"].Matmul(e.StateDict["text_features_normalised"].T()))
	p := torch.ToSlice[float32](e.StateDict["logits_per_image"].Softmax(-1))
	for i := range want {
		require.InDelta(t, want[i], s.Cosines[i], 1e-5)
		require.InDelta(t, p[i], s.Probabilities[i], 1e-4)
	}
	a, err := m.ClassFeatures(ctx, []string{"dog", "cat"}, []string{"a {}", "the {}"})
	require.NoError(t, err)
	b, err := m.ClassFeatures(ctx, []string{"dog", "cat"}, []string{"a {}", "the {}"})
	require.NoError(t, err)
	require.Same(t, a, b, "kept")
	x, err := m.EncodeText(ctx, []string{"a dog", "the dog"})
	require.NoError(t, err)
	near(t, "mean of prompts", Normalize(Normalize(x).MeanDim([]int{0}, false)), a.Select(0, 0), 0, 1e-6)
	_, err = m.ClassFeatures(ctx, []string{"dog"}, []string{"no hole"})
	require.ErrorContains(t, err, "{}")
	_, err = m.ZeroShot(ctx, nil, nil)
	require.Error(t, err)
}

func TestTextLengths(t *testing.T) {
	ctx := t.Context()
	m, _ := open(t, "hf_quickgelu_fp16", Options{Batch: 3})
	texts := []string{"a", "a photo of a very long and winding road through the hills", "dog", "", "two words", "a photo of a dog.", "x"}
	all, err := m.EncodeText(ctx, texts)
	require.NoError(t, err)
	for i, s := range texts { // each alone, at full length: what follows the end is not read, and the order is kept
		ids, _, err := m.Tokenize([]string{s})
		require.NoError(t, err)
		var y *torch.Tensor
		torch.NoGrad(func() { y = m.clip.ForwardText(ids) })
		near(t, s, y.Select(0, 0), all.Select(0, i), 1e-5, 1e-6)
	}
}

func TestModelErrors(t *testing.T) {
	ctx := t.Context()
	m, _ := open(t, "openai_vit", Options{})
	_, err := m.EncodeText(ctx, []string{"a dog"})
	require.ErrorContains(t, err, "vocabulary has 1024 tokens")
	_, err = m.EncodeIDs(ctx, torch.FromSlice([]int64{1, 1024}, 1, 2))
	require.ErrorContains(t, err, "row 0 has the token id 1024")
	_, err = m.EncodeIDs(ctx, torch.Zeros(torch.S(1, 78), torch.Int64))
	require.ErrorContains(t, err, "L from 1 to 77")
	_, err = m.EncodeImage(ctx, torch.Zeros(torch.S(1, 1, 32, 32)))
	require.ErrorContains(t, err, "want pictures")
	_, err = m.EncodeFiles(ctx, [][]byte{[]byte("x")})
	var p *PictureError
	require.ErrorAs(t, err, &p)
	_, err = NewModel(m.clip, Options{DType: torch.Int64})
	require.ErrorContains(t, err, "int64")
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	_, err = m.EncodeImage(stopped, torch.Zeros(torch.S(1, 3, 32, 32)))
	require.ErrorIs(t, err, context.Canceled)
	empty, err := m.EncodeFiles(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, []int{0, 32}, empty.Shape())
	m.Close()
	_, err = m.EncodeImage(ctx, torch.Zeros(torch.S(1, 3, 32, 32)))
	require.ErrorContains(t, err, "closed")
}

// Sixteen goroutines over one set of weights give the numbers of one, and leave nothing behind.
func TestModelConcurrent(t *testing.T) {
	ctx := t.Context()
	m, e := open(t, "open_clip_safetensors", Options{DType: torch.BFloat16})
	x := e.StateDict["pixel_values"]
	want, err := m.EncodeImage(ctx, x)
	require.NoError(t, err)
	_, err = m.ClassFeatures(ctx, []string{"dog"}, nil)
	require.NoError(t, err)
	collect()
	before := torch.Live()
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 25 {
				y, err := m.EncodeImage(ctx, x)
				if err != nil || cosine(want, y) < 0.9999 {
					t.Error(g, i, err)
					return
				}
				y.Free()
				if z, err := m.EncodeText(ctx, []string{fmt.Sprint("a dog ", i%5)}); err != nil {
					t.Error(err)
				} else {
					z.Free()
				}
			}
		})
	}
	wg.Wait()
	collect()
	require.LessOrEqual(t, torch.Live(), before+8)
}

func TestSaveKeepsEverything(t *testing.T) {
	m, _, e := fixture(t, "open_clip_bin")
	dir := t.TempDir()
	require.NoError(t, Save(dir, m, torch.Float16)) // the fixture's numbers are exact in float16
	for _, path := range []string{dir, filepath.Join(dir, "model.safetensors")} {
		again, l, err := Load(path, LoadOptions{})
		require.NoError(t, err)
		require.Equal(t, m.Config, again.Config)
		require.Equal(t, "this module's own form", l.Kind)
		near(t, "image", e.StateDict["image_features"], again.Visual.Forward(e.StateDict["pixel_values"]), 1e-4, 1e-5)
	}
	require.NoError(t, m.Freeze(torch.Float32))
	require.ErrorIs(t, Save(dir, m, 0), errFrozen)
}

func TestLoadRefuses(t *testing.T) {
	m, _, _ := fixture(t, "open_clip_bin")
	sd := nn.StateDictOf(m)
	save := func(change func(nn.StateDict)) string {
		dir := t.TempDir()
		c := nn.StateDict{}
		for k, v := range sd {
			c[k] = v
		}
		change(c)
		require.NoError(t, nn.SaveSafetensors(filepath.Join(dir, "weights.bin"), c, nil)) // the name says nothing
		b, err := os.ReadFile(testroot.Shared(t, "data", "clip_tiny", "open_clip_bin", "open_clip_config.json"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), b, 0o600))
		return dir
	}
	for words, change := range map[string]func(nn.StateDict){
		"missing  visual.ln_post.bias": func(c nn.StateDict) { delete(c, "visual.ln_post.bias") },
		"unexpected  visual.extra":     func(c nn.StateDict) { c["visual.extra"] = torch.Zeros(torch.S(2)) },
		"module [24 20]  state dict":   func(c nn.StateDict) { c["visual.proj"] = torch.Zeros(torch.S(24, 21)) },
		"ls_1.gamma":                   func(c nn.StateDict) { c["visual.transformer.resblocks.0.ls_1.gamma"] = torch.Zeros(torch.S(2)) },
	} {
		_, _, err := Load(save(change), LoadOptions{})
		require.ErrorContains(t, err, words)
	}
	for _, prefix := range []string{"module.", "_orig_mod.", "_orig_mod.module.", "module._orig_mod."} {
		again, l, err := Load(save(func(c nn.StateDict) {
			for k, v := range sd {
				delete(c, k)
				c[prefix+k] = v
			}
		}), LoadOptions{})
		require.NoError(t, err)
		require.Contains(t, l.String(), prefix[:strings.Index(prefix, ".")+1])
		require.Equal(t, m.Config, again.Config)
	}
	_, l, err := Load(save(func(c nn.StateDict) {
		for k, v := range sd {
			if k != "logit_scale" && (len(k) < 7 || k[:7] != "visual.") {
				delete(c, k)
				c["text."+k] = v
			}
		}
		c["text.attn_mask"] = torch.Zeros(torch.S(77, 77))
		c["logit_bias"] = torch.Zeros(torch.S())
	}), LoadOptions{})
	require.NoError(t, err)
	require.Contains(t, l.String(), `"text."`)
	path := filepath.Join(t.TempDir(), "x.pt")
	require.NoError(t, os.WriteFile(path, []byte("hello"), 0o600))
	_, _, err = Load(path, LoadOptions{})
	require.ErrorIs(t, err, ErrFormat)
	_, _, err = Load(filepath.Join(t.TempDir(), "none"), LoadOptions{})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// collect lets the collector find what is unreachable and releases it.
func collect() {
	for range 3 {
		runtime.GC()
		time.Sleep(20 * time.Millisecond)
	}
}

// Class features belong to their prompts: other classes, templates, another order or number of them, names that hold any byte, written weights, another model and another type
// are other features.
func TestClassFeaturesOfOthers(t *testing.T) {
	c, _, _ := fixture(t, "hf_gelu_fp32")
	m, err := NewModel(c, Options{Plain: true})
	require.NoError(t, err)
	defer m.Close()
	narrow, err := Open(testroot.Shared(t, "data", "clip_tiny", "hf_gelu_fp32"), Options{DType: torch.BFloat16})
	require.NoError(t, err)
	defer narrow.Close()
	features := func(m *Model, classes, templates []string) *torch.Tensor {
		x, err := m.ClassFeatures(t.Context(), classes, templates)
		require.NoError(t, err)
		var prompts []string
		for _, c := range classes {
			for _, p := range templates {
				prompts = append(prompts, strings.ReplaceAll(p, "{}", c))
			}
		}
		each, err := m.EncodeText(t.Context(), prompts) // without any cache
		require.NoError(t, err)
		want := Normalize(Normalize(each).View(len(classes), len(templates), -1).MeanDim([]int{1}, false))
		near(t, fmt.Sprintf("%q %q", classes, templates), want, x, 1e-4, 1e-5)
		again, err := m.ClassFeatures(t.Context(), classes, templates)
		require.NoError(t, err)
		require.Same(t, x, again, "kept")
		return x
	}
	one, two, dots := []string{"{}"}, []string{"a {}", "the {}"}, []string{"{}", "{} {}"}
	for _, m := range []*Model{m, narrow} {
		features(m, []string{"dog", "cat"}, one)
		features(m, []string{"dog\x00cat"}, one)
		features(m, []string{"dog\" \"cat"}, one)
		features(m, []string{"cat", "dog"}, one)
		features(m, []string{"dog", "dog dog"}, one)
		features(m, []string{"dog"}, dots)
		features(m, []string{"dog", "cat"}, two)
		features(m, []string{"dog", "cat"}, []string{two[1], two[0]})
		features(m, []string{"dog", "cat"}, []string{"an {}", "the {}"})
	}
	before := torch.ToSlice[float32](features(m, []string{"dog", "cat"}, two))
	require.NotEqual(t, before, torch.ToSlice[float32](features(narrow, []string{"dog", "cat"}, two)))
	torch.NoGrad(func() { c.TokenEmbedding.Weight.MulScalar_(-1.5) })
	require.NotEqual(t, before, torch.ToSlice[float32](features(m, []string{"dog", "cat"}, two)), "the weights are others")
}
