package golden

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
)

func check(t *testing.T, path string, dtype torch.DType) *Report {
	t.Helper()
	return checkForm(t, path, Options{DType: dtype})
}

func checkForm(t *testing.T, path string, o Options) *Report {
	t.Helper()
	f, err := Open(path)
	require.NoError(t, err)
	var r Report
	require.NoError(t, f.Kind.Check(f, o, &r))
	return &r
}

func TestLosses(t *testing.T) {
	for _, o := range []Options{{DType: torch.Float64, Fused: false}, {DType: torch.Float32, Fused: false}, {DType: torch.Float64, Fused: true}, {DType: torch.Float32, Fused: true}} {
		r := checkForm(t, testroot.Testdata("loss", "golden_losses.json"), o)
		require.True(t, r.OK(), "%+v: %v", o, append(r.Failures, r.Unknown...))
		n := 0
		for _, p := range r.Passed {
			n += p
		}
		require.Equal(t, 433, n)
	}
}

// Other shapes and hyper-parameters, from the formulas by PyTorch (testdata/loss/random_cases.py).
func TestRandomCases(t *testing.T) {
	for _, fused := range []bool{false, true} {
		r := checkForm(t, testroot.Testdata("loss", "random_cases.json"), Options{DType: torch.Float64, Fused: fused})
		require.True(t, r.OK(), "%v", append(r.Failures, r.Unknown...))
		require.Len(t, r.Order, 12)
	}
}

// Newer methods, formulas and two training runs, in every form.
func TestFrontier(t *testing.T) {
	for _, o := range []Options{{DType: torch.Float64}, {DType: torch.Float32}, {DType: torch.Float64, Fused: true},
		{DType: torch.Float32, Fused: true}} {
		r := checkForm(t, testroot.Testdata("loss", "golden_frontier.json"), o)
		require.True(t, r.OK(), "%+v: %v", o, append(r.Failures, r.Unknown...))
		require.Equal(t, map[string]int{
			"ignore_mask": 11, "ignore_loss": 15, "boostlu_forward": 8, "boostlu_loss": 9, "known_negatives": 8,
			"group_regulariser": 3, "crisp_prior": 4, "crisp_risk": 3,
			"scpnet_relation": 3, "scpnet_gcn": 2, "scpnet_splc": 3, "scpnet_consistency": 9, "scpnet_step": 1,
			"hspnet_split": 1, "hspnet_gcn": 1,
			"scob_loss": 2, "scob_infonce": 3, "scob_correlation": 1, "scob_mask": 1, "dualcoop": 2, "trajectories": 4,
		}, r.Passed)
	}
}

// A step of a run that is off by little is seen, and so is a run that nothing here replays.
func TestFrontierFails(t *testing.T) {
	top := read(t, testroot.Testdata("loss", "golden_frontier.json"))
	all := top["trajectories"].([]any)
	steps := all[0].(map[string]any)["float64"].(map[string]any)["steps"].([]any)
	last := steps[len(steps)-1].(map[string]any)
	last["gap_threshold"] = last["gap_threshold"].(float64) + 1e-8
	other := map[string]any{"id": "crisp/x"}
	top["cases"], top["trajectories"] = []any{}, append(all, other)
	r := check(t, write(t, top), torch.Float64)
	require.Equal(t, []string{"crisp/x"}, r.Unknown)
	require.Len(t, r.Failures, 1)
	require.Contains(t, r.Failures[0], "gap_threshold")
}

func TestTrajectories(t *testing.T) {
	files, err := filepath.Glob(testroot.Testdata("loss", "trajectories", "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 15)
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			for _, fused := range []bool{false, true} {
				r := checkForm(t, f, Options{DType: torch.Float64, Fused: fused})
				require.True(t, r.OK(), "fused %v: %v", fused, append(r.Failures, r.Unknown...))
				require.Equal(t, 1, r.Passed["float64.loss_per_step"])
				require.Equal(t, 1, r.Passed["float64.epochs"])
				require.Equal(t, 1, r.Passed["float32.final_params"])
			}
		})
	}
}

func TestPseudoLabels(t *testing.T) {
	r := check(t, testroot.Testdata("loss", "golden_pseudo.json"), torch.Float64)
	require.True(t, r.OK(), "%v", append(r.Failures, r.Unknown...))
	require.Equal(t, map[string]int{"apl": 2, "damp": 4, "gcn": 2, "schedule": 2, "vlpl": 3}, r.Passed)
}

// write puts an object into a file of its own.
func write(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "file.json")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

func read(t *testing.T, path string) map[string]any {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var top map[string]any
	require.NoError(t, json.Unmarshal(b, &top))
	return top
}

// A wrong number, a missing expectation, an unknown method and an unknown section are all seen.
func TestCheckFails(t *testing.T) {
	top := read(t, testroot.Testdata("loss", "golden_losses.json"))
	cases := top["cases"].([]any)[:6]
	at := func(i int) map[string]any { return cases[i].(map[string]any) }
	at(0)["expected"].(map[string]any)["loss"] = at(0)["expected"].(map[string]any)["loss"].(float64) + 1e-8
	delete(at(1), "expected")
	at(2)["method"] = "magic"
	at(3)["inputs"].(map[string]any)["obs"] = []any{[]any{1., 2.}, []any{1.}}
	at(4)["expected"].(map[string]any)["extra"] = 1.
	top["cases"], top["more"] = cases, []any{}
	r := check(t, write(t, top), torch.Float64)
	require.False(t, r.OK())
	require.Equal(t, []string{"more", "magic"}, r.Unknown)
	require.Len(t, r.Failures, 4)
	require.Contains(t, r.Failures[0], "difference 1e-08")
	require.Contains(t, r.Failures[1], "nothing is expected")
	require.Contains(t, r.Failures[2], "unequal length")
	require.Contains(t, r.Failures[3], "extra: not computed")
	require.Equal(t, 1, r.Passed["an"]+r.Passed["bce_full"])
	var out strings.Builder
	r.Print(&out)
	require.Contains(t, out.String(), "unknown section")
}

func TestTrajectoryFails(t *testing.T) {
	from := testroot.Testdata("loss", "trajectories")
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
	path := filepath.Join(dir, "EM.json")
	top := read(t, path)
	steps := top["float64"].(map[string]any)["loss_per_step"].([]any)
	steps[len(steps)-1] = steps[len(steps)-1].(float64) + 1e-8
	b, err := json.Marshal(top)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	r := check(t, path, torch.Float64)
	require.Len(t, r.Failures, 1)
	require.Contains(t, r.Failures[0], "loss_per_step")
}

// Without expected values, eval gives every output that the expectations name.
func TestEvalWithoutExpectations(t *testing.T) {
	top := read(t, testroot.Testdata("loss", "golden_losses.json"))
	want := map[string]any{}
	for _, c := range top["cases"].([]any) {
		m := c.(map[string]any)
		want[m["id"].(string)] = m["expected"]
		delete(m, "expected")
	}
	f, err := Open(write(t, top))
	require.NoError(t, err)
	n := 0
	require.NoError(t, f.Kind.Eval(f, Options{DType: torch.Float64}, func(id string, outputs any) error {
		n++
		_, err := json.Marshal(outputs)
		require.NoError(t, err)
		require.ElementsMatch(t, keys(want[id].(map[string]any)), keys(outputs.(map[string]any)), id)
		return nil
	}))
	require.Equal(t, 433, n)

	from := testroot.Testdata("loss", "trajectories")
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
	top = read(t, filepath.Join(dir, "ROLE.json"))
	block := top["float64"].(map[string]any)
	delete(top, "float64")
	delete(top, "float32")
	b, err := json.Marshal(top)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ROLE.json"), b, 0o600))
	f, err = Open(filepath.Join(dir, "ROLE.json"))
	require.NoError(t, err)
	got, err := Trace(f, Options{DType: torch.Float32})
	require.NoError(t, err)
	require.Equal(t, keys(block), keys(got))
}

func TestBFloat16(t *testing.T) {
	f, err := Open(testroot.Testdata("loss", "golden_losses.json"))
	require.NoError(t, err)
	require.NoError(t, f.Kind.Eval(f, Options{DType: torch.BFloat16}, func(string, any) error { return nil }))
}

// roundLogits rounds every number below a key that names logits to bfloat16, ties to even.
func roundLogits(v any, logits bool) any {
	switch x := v.(type) {
	case map[string]any:
		for k := range x {
			x[k] = roundLogits(x[k], logits || strings.Contains(k, "logits"))
		}
	case []any:
		for i := range x {
			x[i] = roundLogits(x[i], logits)
		}
	case float64:
		if logits {
			b := math.Float32bits(float32(x))
			return float64(math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff))
		}
	}
	return v
}

// Fused bfloat16 is compared with composed float64 on the rounded logits.
func TestFusedBFloat16(t *testing.T) {
	top := read(t, testroot.Testdata("loss", "golden_losses.json"))
	for _, c := range top["cases"].([]any) {
		c := c.(map[string]any)
		roundLogits(c["inputs"], false)
		delete(c, "expected")
	}
	f, err := Open(write(t, top))
	require.NoError(t, err)
	want := map[string]any{}
	require.NoError(t, f.Kind.Eval(f, Options{DType: torch.Float64}, func(id string, outputs any) error {
		want[id] = outputs
		return nil
	}))
	n := 0
	require.NoError(t, f.Kind.Eval(f, Options{DType: torch.BFloat16, Fused: true}, func(id string, outputs any) error {
		w := want[id].(map[string]any)
		if w["loss"] == nil || w["grad_logits"] == nil {
			return nil
		}
		n++
		for _, k := range []string{"loss", "grad_logits"} {
			err := Compare(w[k], outputs.(map[string]any)[k], func(string) Tolerance { return Tolerance{2e-3, 2e-2} })
			require.NoError(t, err, "%s %s", id, k)
		}
		return nil
	}))
	require.Greater(t, n, 300)
}

func TestOpen(t *testing.T) {
	_, err := Open(write(t, map[string]any{"tokens": 1, "about": 2}))
	require.ErrorContains(t, err, "its sections are about, tokens")
	_, err = Open(filepath.Join(t.TempDir(), "none.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestModels(t *testing.T) {
	for _, d := range []torch.DType{torch.Float64, torch.Float32} {
		r := check(t, testroot.Testdata("models", "golden_models.json"), d)
		require.Empty(t, r.Failures)
		for section, n := range map[string]int{"vlpl": 5, "apl": 1, "gcn": 4, "damp": 11, "lac.forward": 1, "lac.plc": 2, "lac.queue": 1, "backbones.ml_decoder": 1, "backbones.cam": 1, "backbones.dualcoop_aggregation": 1} {
			require.Equal(t, n, r.Passed[section], section)
		}
	}
}

// The pixels, metrics and random numbers of the same file; photos come from the data root.
func TestPixelsAndMetrics(t *testing.T) {
	models := read(t, testroot.Testdata("pixel", "resize.json"))
	for name, from := range map[string]string{"metrics": "metric/golden.json", "confidence": "metric/golden.json", "random": "random/golden.json"} {
		models[name] = read(t, testroot.Testdata(strings.Split(from, "/")...))[name]
	}
	models["randaugment"] = read(t, testroot.Testdata("augment", "randaugment.json"))["randaugment"]
	models["lac"] = map[string]any{"cutout_448": read(t, testroot.Testdata("augment", "randaugment.json"))["cutout_448"]}
	r := check(t, write(t, models), torch.Float64)
	require.True(t, r.OK(), "%v", append(r.Failures, r.Unknown...))
	require.Equal(t, map[string]int{
		"resize.coefficients": 5, "resize.small": 5, "resize.large": 6, "resize.geometry": 11, "resize.clip_preprocess": 1, "jpeg.files": 5, "randaugment": 44,
		"lac.cutout_448": 4, "metrics.ap": 9, "metrics.matrix": 1, "metrics.pseudo_label_quality": 1, "metrics.wasserstein": 4, "confidence": 1, "random": 17,
	}, r.Passed)
	// A checksum that is off by one is seen.
	crc := models["randaugment"].(map[string]any)["results"].(map[string]any)["equalize"].(map[string]any)
	crc["crc32"] = crc["crc32"].(float64) + 1
	r = check(t, write(t, map[string]any{"randaugment": models["randaugment"]}), torch.Float64)
	require.Len(t, r.Failures, 1)
	require.Contains(t, r.Failures[0], "randaugment/results/equalize: /crc32")
}

func TestPreprocess(t *testing.T) {
	path := testroot.Shared(t, "spec", "golden_preprocess.json")
	t.Setenv("GOSPML_TESTDATA", filepath.Dir(filepath.Dir(path)))
	r := check(t, path, torch.Float64)
	require.True(t, r.OK(), "%v", append(r.Failures, r.Unknown...))
	require.Equal(t, 30, r.Passed["files"])
}

func TestSections(t *testing.T) {
	top := read(t, testroot.Testdata("models", "golden_models.json"))
	damp := top["damp"].(map[string]any)
	damp["cases"].([]any)[0].(map[string]any)["paper"].(map[string]any)["labels"].([]any)[1] = -1.0
	top["another"] = map[string]any{}
	r := check(t, write(t, map[string]any{"damp": damp, "another": top["another"]}), torch.Float64)
	require.Len(t, r.Failures, 1)
	require.Contains(t, r.Failures[0], "damp/cases/0: /paper/labels/1: want -1, got 1")
	require.Equal(t, []string{"another"}, r.Unknown)
	require.Equal(t, 10, r.Passed["damp"])
}

func TestLAC(t *testing.T) {
	for _, d := range []torch.DType{torch.Float64, torch.Float32} {
		r := check(t, testroot.Testdata("models", "golden_lac.json"), d)
		require.True(t, r.OK(), "%v", append(r.Failures, r.Unknown...))
		require.Equal(t, map[string]int{"forward": 2, "sine_position": 2, "supcon": 3, "stage1_steps": 1, "stage2_steps": 1, "single_valid_pair_in_release": 1}, r.Passed)
	}
}

// Another drawn configuration, by a transcription in PyTorch (testdata/models/make_lac.py 6).
func TestLACDrawn(t *testing.T) {
	r := check(t, testroot.Testdata("models", "golden_lac_drawn.json"), torch.Float64)
	require.True(t, r.OK(), "%v", append(r.Failures, r.Unknown...))
	require.Equal(t, map[string]int{"forward": 2, "supcon": 3, "stage1_steps": 1, "stage2_steps": 1}, r.Passed)
}
