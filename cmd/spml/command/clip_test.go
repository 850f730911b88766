package command

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/dist"
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

// Two processes that a launcher starts train the model of one; only the first writes.
func TestClipPretrainProcesses(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	store, err := dist.NewTCPStore("127.0.0.1", 0, true, 0, time.Minute)
	require.NoError(t, err)
	defer store.Close()
	dir := t.TempDir()
	run := func(out string, env ...string) (*exec.Cmd, *strings.Builder) {
		var said strings.Builder
		c := exec.Command(exe, "clip", "pretrain", "--out", filepath.Join(dir, out), "--steps", "3", "--batch", "12", "--pictures", "40", "--evaluate", "0", "--progress", "off")
		c.Env = append(append(os.Environ(), "GOSPML_TEST_COMMAND=1", "OMP_NUM_THREADS=1"), env...)
		c.Stdout, c.Stderr = &said, &said
		require.NoError(t, c.Start())
		return c, &said
	}
	one, said := run("one")
	require.NoError(t, one.Wait(), said)
	var ranks []*exec.Cmd
	var texts []*strings.Builder
	for r := range 2 {
		c, said := run("two", fmt.Sprint("RANK=", r), fmt.Sprint("LOCAL_RANK=", r), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", store.Port()), "TORCHELASTIC_USE_AGENT_STORE=True")
		ranks, texts = append(ranks, c), append(texts, said)
	}
	for r, c := range ranks {
		require.NoError(t, c.Wait(), texts[r].String())
	}
	require.Contains(t, texts[0].String(), "wrote ")
	require.Empty(t, texts[1].String())
	a, _, err := clip.Load(filepath.Join(dir, "one"), clip.LoadOptions{})
	require.NoError(t, err)
	b, _, err := clip.Load(filepath.Join(dir, "two"), clip.LoadOptions{})
	require.NoError(t, err)
	got := nn.StateDictOf(b)
	for k, w := range nn.StateDictOf(a) {
		if !w.DType().IsFloat() || strings.HasSuffix(k, "in_proj_bias") || strings.HasSuffix(k, "k_proj.bias") {
			continue
		}
		torch.NoGrad(func() { require.LessOrEqual(t, w.Sub(got[k]).Abs().Max().Item(), 5e-4*(1+w.Abs().Max().Item()), k) })
	}
}

// The rest of what encode takes: another image size, and going on where an interrupted run was, whose rows are not computed again.
func TestClipEncodeSizeAndJournal(t *testing.T) {
	dir, e := clipFixture(t, "open_clip_safetensors")
	out := filepath.Join(t.TempDir(), "out.safetensors")
	args := []string{"clip", "encode", "--model", dir, "--images", strings.Join(e.Photos, ","), "--out", out, "--batch", "1"}
	for _, size := range []string{"48", "48x36"} {
		code, _, stderr := spml(t, nil, append(args, "--image-size", size, "--with", "pixel_values")...)
		require.Zero(t, code, stderr)
		got, _, err := nn.LoadSafetensors(out)
		require.NoError(t, err)
		want := map[string][]int{"48": {len(e.Photos), 3, 48, 48}, "48x36": {len(e.Photos), 3, 48, 36}}[size]
		require.Equal(t, want, got["pixel_values"].Shape())
		require.NoError(t, os.Remove(out))
	}
	for _, bad := range []string{"0", "48x", "x48", "-3", "48x36x2", "big"} {
		code, _, stderr := spml(t, nil, append(args, "--image-size", bad)...)
		require.Equal(t, exitUsage, code, bad)
		require.Contains(t, stderr, bad)
	}
	// A picture that is damaged after the first ones ends the run; mended, it goes on.
	broken := filepath.Join(t.TempDir(), "late.jpg")
	require.NoError(t, os.WriteFile(broken, []byte("no picture"), 0o600))
	code, _, stderr := spml(t, nil, append(args, broken)...)
	require.Equal(t, exitData, code)
	require.Contains(t, stderr, broken)
	require.Contains(t, stderr, "late.jpg")
	b, err := os.ReadFile(e.Photos[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(broken, b, 0o600))
	code, _, stderr = spml(t, nil, append(args, broken)...)
	require.Zero(t, code, stderr)
	got, _, err := nn.LoadSafetensors(out)
	require.NoError(t, err)
	y := got["image_features"]
	n := len(e.Photos)
	require.Equal(t, n+1, y.Size(0))
	require.True(t, y.Slice(0, 0, 1, 1).Equal(y.Slice(0, n, n+1, 1)), "the last picture is the first")
}

// zeroshot draws a bar a label for people.
func TestClipZeroShotBars(t *testing.T) {
	dir, e := clipFixture(t, "open_clip_bin")
	code, stdout, stderr := spml(t, nil, "clip", "zeroshot", e.Photos[0], "--model", dir, "--labels", "dog,cat,traffic light")
	require.Zero(t, code, stderr)
	for _, name := range []string{"dog", "cat", "traffic light"} {
		require.Contains(t, stdout, name)
	}
	require.Contains(t, stdout, "█")
}

// Mistakes of the command line end before any work, name what was wrong and say what is wanted.
func TestClipRefusals(t *testing.T) {
	dir, _ := clipFixture(t, "open_clip_safetensors")
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	out := filepath.Join(folder, "out.safetensors")
	texts := write("texts.txt", "[a photo] of a dog\n")
	code, _, stderr := spml(t, nil, "clip", "encode", "--model", dir, "--texts", texts, "--device", "cpu", "--out", out)
	require.Zero(t, code, stderr)
	encode := func(args ...string) []string { return append([]string{"clip", "encode", "--model", dir}, args...) }
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{encode("--texts", write("cut.json", `["a dog", "a cat"`), "--out", out), exitUsage, []string{"cut.json", "no array of strings"}},
		{encode("--texts", write("numbers.json", `[1, 2]`), "--out", out), exitUsage, []string{"numbers.json", "no array of strings"}},
		{encode("--texts", texts, "--batch", "-1", "--out", out), exitUsage, []string{"--batch -1"}},
		{encode("--texts", texts, "--out", filepath.Join(folder, "absent", "out.safetensors")), exitIO, []string{"--out", "absent", "the folder is missing"}},
		{encode("--texts", texts, "--device", "gpu", "--out", out), exitUsage, []string{`--device "gpu"`, "auto, cpu, cuda"}},
		{encode("--texts", texts, "--device", "cuda:x", "--out", out), exitUsage, []string{"cuda:N"}},
		{encode("--texts", texts, "--device", "cpu:1", "--out", out), exitUsage, []string{`--device "cpu:1"`}},
		{[]string{"clip", "info", "openai/clip-vit-base-patch32"}, exitIO, []string{"openai/clip-vit-base-patch32", "nothing is fetched by name"}},
		{[]string{"clip", "info", filepath.Dir(dir)}, exitData, []string{"no file of weights", "open_clip_bin"}},
		{[]string{"clip", "zeroshot", texts, "--model", dir, "--labels", "dog", "--template", "a photo"}, exitUsage, []string{`"a photo"`, "no {}"}},
		{[]string{"clip", "zeroshot", texts, "--model", dir, "--labels", "dog"}, exitData, []string{"texts.txt", "unsupported image format"}},
		{[]string{"clip", "pretrain", "--out", folder, "--steps", "0"}, exitUsage, []string{"--steps 0"}},
		{[]string{"clip", "export", filepath.Join(filepath.Dir(dir), "openai_rn"), "--to", "hf", "--out", folder}, exitOther, []string{"ModifiedResNet", "--to open_clip"}},
	} {
		code, _, stderr := spml(t, nil, c.args...)
		require.Equal(t, c.code, code, "%v: %s", c.args, stderr)
		for _, s := range c.says {
			require.Contains(t, stderr, s)
		}
	}
	if cuda.DeviceCount() == 0 {
		code, _, stderr := spml(t, nil, encode("--texts", texts, "--device", "cuda", "--out", out)...)
		require.Equal(t, exitMissing, code)
		require.Contains(t, stderr, "--device cpu computes without")
	}
}
