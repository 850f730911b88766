package command

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

type clipExpected struct {
	Photos, Texts []string
	tensors       nn.StateDict
}

func clipFixture(t *testing.T, name string) (dir string, e clipExpected) {
	t.Helper()
	dir = testroot.Shared(t, "data", "clip_tiny", name)
	b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &e))
	for i, p := range e.Photos {
		e.Photos[i] = testroot.Shared(t, "data", filepath.FromSlash(p))
	}
	e.tensors, _, err = nn.LoadSafetensors(filepath.Join(dir, "expected.safetensors"))
	require.NoError(t, err)
	return dir, e
}

// agree compares a written file with a fixture: every tensor of the file has to be there.
func (e clipExpected) agree(t *testing.T, path string, atol float64) (names []string) {
	t.Helper()
	got, _, err := nn.LoadSafetensors(path)
	require.NoError(t, err)
	for _, k := range got.Keys() {
		want := e.tensors[k]
		require.NotNil(t, want, k)
		require.Equal(t, want.Shape(), got[k].Shape(), k)
		w, g := torch.ToSlice[float64](want), torch.ToSlice[float64](got[k])
		for i := range w {
			require.LessOrEqual(t, math.Abs(w[i]-g[i]), atol+1e-4*math.Abs(w[i]), "%s[%d]", k, i)
		}
	}
	return got.Keys()
}

func TestClipEncode(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.safetensors")
	dir, e := clipFixture(t, "hf_quickgelu_fp16")
	texts := filepath.Join(t.TempDir(), "texts.json")
	b, err := json.Marshal(e.Texts)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(texts, b, 0o600))
	args := []string{"clip", "encode", "--model", dir, "--texts", texts, "--out", out, "--images"}
	code, stdout, stderr := spml(t, nil, append(args, strings.Join(e.Photos, ","), "--with", "patch_tokens,pixel_values,input_ids")...)
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "taken for a Hugging Face checkpoint")
	require.Contains(t, stderr, "1 of 6 texts were longer")
	require.Contains(t, stdout, "logits_per_image")
	require.Len(t, e.agree(t, out, 1e-5), 8)

	code, _, stderr = spml(t, nil, append(args, strings.Join(e.Photos, ","), "--dtype", "bf16")...)
	require.Zero(t, code, stderr)
	got, _, err := nn.LoadSafetensors(out)
	require.NoError(t, err)
	require.Equal(t, torch.Float32, got["image_features"].DType())
	cos := got["image_features_normalised"].Mul(e.tensors["image_features_normalised"]).SumDim([]int{-1}, false)
	require.Greater(t, cos.Min().Item(), 0.999)
	require.Less(t, cos.Min().Item(), 1-1e-7, "it did compute in bfloat16")

	inputs := filepath.Join(testroot.Shared(t, "data", "clip_tiny", "openai_rn"), "expected.safetensors")
	dir, e = clipFixture(t, "openai_rn")
	code, _, stderr = spml(t, nil, "clip", "encode", "--model", filepath.Join(dir, "model.pt"), "--inputs", inputs, "--patch-tokens", "--out", out)
	require.Zero(t, code, stderr)
	require.Len(t, e.agree(t, out, 1e-5), 6)
}

// A run that was interrupted goes on, unless something that matters has changed.
func TestClipEncodeResumes(t *testing.T) {
	dir, e := clipFixture(t, "open_clip_safetensors")
	out := filepath.Join(t.TempDir(), "out.safetensors")
	args := []string{"clip", "encode", "--model", dir, "--images", strings.Join(e.Photos, ","), "--out", out}
	broken := filepath.Join(t.TempDir(), "broken.jpg")
	require.NoError(t, os.WriteFile(broken, []byte("no picture"), 0o600))
	code, _, stderr := spml(t, nil, append(args, broken)...)
	require.Equal(t, exitData, code)
	require.Contains(t, stderr, broken)
	require.NoFileExists(t, out)

	code, _, stderr = spml(t, nil, args...)
	require.Zero(t, code, stderr)
	require.NotContains(t, stderr, "going on")
	e.agree(t, out, 1e-5)
	require.NoFileExists(t, out+partial)
}

func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, err := openJournal(path, "a", 2, 10)
	require.NoError(t, err)
	require.NoError(t, j.add([]float32{1, 2, 3, 4}))
	_, err = j.f.Write([]byte{1, 2, 3}) // a row that was cut off
	require.NoError(t, err)
	require.NoError(t, j.Close())
	j, err = openJournal(path, "a", 2, 10)
	require.NoError(t, err)
	require.Equal(t, []float32{1, 2, 3, 4}, j.rows)
	require.NoError(t, j.add([]float32{5, 6}))
	require.NoError(t, j.Close())
	j, err = openJournal(path, "a", 2, 2)
	require.NoError(t, err)
	require.Len(t, j.rows, 4)
	require.NoError(t, j.Close())
	j, err = openJournal(path, "b", 2, 10)
	require.NoError(t, err)
	require.Empty(t, j.rows)
	require.NoError(t, j.Close())
}

func TestClipTokenize(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	run := func(in string, args ...string) string {
		cmd := exec.Command(exe, append([]string{"clip", "tokenize"}, args...)...)
		cmd.Env = append(os.Environ(), "GOSPML_TEST_COMMAND=1")
		cmd.Stdin = strings.NewReader(in)
		b, err := cmd.Output()
		require.NoError(t, err)
		return string(b)
	}
	require.Equal(t, "[49406,320,1125,539,320,1929,269,49407]\n[49406,49407]\n[49406,15304,49407]\n", run("a photo of a dog.\n\ncafe\u0301"))
	require.Equal(t, "[49406,320,0,0]\n", strings.ReplaceAll(run("a\n", "--context", "4", "--pad"), ",49407,0", ",0,0"))
	require.Equal(t, "[49406,518,518,49407]\n", run(strings.Repeat("the ", 9), "--context", "4"))
	require.Len(t, strings.Split(run(strings.Repeat("the ", 100), "--context", "0"), ","), 102)
	require.Equal(t, "[49406,320,321,49407]\n", run(`"a\nb"`, "--json"))
	require.Empty(t, run(""))
}

func TestClipZeroShotAndInfo(t *testing.T) {
	dir, e := clipFixture(t, "open_clip_bin")
	code, stdout, stderr := spml(t, nil, "clip", "zeroshot", e.Photos[0], "--model", dir, "--labels", "dog,cat,traffic light", "--json")
	require.Zero(t, code, stderr)
	var r struct {
		Labels []struct {
			Name        string
			Probability float64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Len(t, r.Labels, 3)
	require.InDelta(t, 1, r.Labels[0].Probability+r.Labels[1].Probability+r.Labels[2].Probability, 1e-5)
	require.GreaterOrEqual(t, r.Labels[0].Probability, r.Labels[1].Probability)

	code, stdout, _ = spml(t, nil, "clip", "info", dir)
	require.Zero(t, code)
	require.Contains(t, stdout, "hidden 48, patches 12, quick_gelu, images 36×36")
	code, _, stderr = spml(t, nil, "clip", "info", t.TempDir())
	require.Equal(t, exitData, code)
	require.Contains(t, stderr, "there is no file of weights in it")
	code, _, _ = spml(t, nil, "clip", "encode", "--model", dir, "--out", "x")
	require.Equal(t, exitUsage, code)
}

func TestClipConverts(t *testing.T) {
	dir, e := clipFixture(t, "hf_gelu_fp32")
	inputs := filepath.Join(dir, "expected.safetensors")
	out := filepath.Join(t.TempDir(), "out.safetensors")
	model := dir
	for _, step := range [][]string{{"import"}, {"export", "--to", "open_clip"}, {"export", "--to", "hf"}} {
		to := t.TempDir()
		code, _, stderr := spml(t, nil, append(append([]string{"clip"}, step...), model, "--out", to)...)
		require.Zero(t, code, stderr)
		code, _, stderr = spml(t, nil, "clip", "encode", "--model", to, "--inputs", inputs, "--patch-tokens", "--out", out)
		require.Zero(t, code, stderr)
		require.Len(t, e.agree(t, out, 1e-5), 6, "%v", step)
		model = to // each step reads what the one before wrote
	}
	code, _, stderr := spml(t, nil, "clip", "export", testroot.Shared(t, "data", "clip_tiny", "openai_rn", "model.pt"), "--to", "hf", "--out", t.TempDir())
	require.Equal(t, exitOther, code)
	require.Contains(t, stderr, "no class for CLIP with a ModifiedResNet")
}
