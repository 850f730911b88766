package golden

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
)

func TestMain(m *testing.M) {
	if err := torch.SetNumThreads(1); err != nil { // as the command does
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestBackbones(t *testing.T) {
	for _, d := range []torch.DType{torch.Float64, torch.Float32} {
		r := check(t, testroot.Testdata("nn", "golden_backbones.json"), d)
		require.True(t, r.OK(), "%v", append(r.Failures, r.Unknown...))
		require.Equal(t, map[string]int{"models": 6, "key_lists_of_full_models": 14}, r.Passed)
	}
}

// Other models, classes, image sizes and training steps, by PyTorch (testdata/nn/more_backbones.py).
func TestMoreBackbones(t *testing.T) {
	for _, d := range []torch.DType{torch.Float64, torch.Float32} {
		r := check(t, testroot.Testdata("nn", "more_backbones.json"), d)
		require.True(t, r.OK(), "%v", append(r.Failures, r.Unknown...))
		require.Equal(t, map[string]int{"models": 7, "key_lists_of_full_models": 5}, r.Passed)
	}
}

// resnet18 gives ResNet-18 of golden_backbones.json in a file of its own.
func resnet18(t *testing.T) (top, model map[string]any) {
	top = read(t, testroot.Testdata("nn", "golden_backbones.json"))
	top["models"] = top["models"].([]any)[:1]
	delete(top, "key_lists_of_full_models")
	return top, top["models"].([]any)[0].(map[string]any)
}

// Every number that is off by more than the file allows is seen.
func TestBackbonesBroken(t *testing.T) {
	top, _ := resnet18(t)
	require.True(t, check(t, write(t, top), torch.Float64).OK())
	for path, factor := range map[string]float64{
		"state_dict/shapes/fc.bias/0": 2, "eval_logits/row0_argsort_top5/2": 2, "eval_logits/summary/first/3": 1 + 1e-6, "eval_logits/per_row_sum/1": 1 + 1e-6,
		"eval_features/layer4_map/sumsq": 1 + 1e-6, "train/loss": 1 + 1e-5, "train/gradient_norm_per_group/layer2": 1 + 1e-5, "train/gradient_norm_total": 1 + 1e-5,
		"train/running_statistics/bn1.running_var/sumsq": 1 + 1e-6, "train/running_statistics/bn1.num_batches_tracked": 2, "train/eval_logits_after_statistics_update/abs_max": 1 + 1e-6,
	} {
		top, m := resnet18(t)
		parts := strings.Split(path, "/")
		var v any = m
		for _, p := range parts[:len(parts)-1] {
			v = v.(map[string]any)[p]
			if l, ok := v.([]any); ok {
				i := int(parts[len(parts)-1][0] - '0')
				l[i] = l[i].(float64) * factor
			}
		}
		if o, ok := v.(map[string]any); ok {
			last := parts[len(parts)-1]
			o[last] = o[last].(float64) * factor
		}
		r := check(t, write(t, top), torch.Float64)
		require.Len(t, r.Failures, 1, path)
		require.Contains(t, r.Failures[0], "/"+path)
	}
	top, m := resnet18(t)
	m["name"] = "torchvision/densenet121"
	r := check(t, write(t, top), torch.Float32)
	require.Len(t, r.Failures, 1)
	require.Contains(t, r.Failures[0], `no model is called "torchvision/densenet121"`)
	top["fill"] = "something else"
	f, err := Open(write(t, top))
	require.NoError(t, err)
	require.ErrorContains(t, f.Kind.Check(f, Options{DType: torch.Float32}, &Report{}), "fill: want a text like")
}

// Without expected values, eval gives all that a file may have.
func TestBackbonesEval(t *testing.T) {
	top, m := resnet18(t)
	train := m["train"].(map[string]any)
	top["models"] = []any{map[string]any{"name": m["name"], "input": m["input"], "train": map[string]any{"what": train["what"]}}}
	top["key_lists_of_full_models"] = map[string]any{"torchvision/resnet18_5": map[string]any{}}
	f, err := Open(write(t, top))
	require.NoError(t, err)
	got := map[string]map[string]any{}
	require.NoError(t, f.Kind.Eval(f, Options{DType: torch.Float32}, func(id string, outputs any) error {
		got[id] = outputs.(map[string]any)
		return nil
	}))
	require.Equal(t, 122.0, got["key_lists_of_full_models/torchvision/resnet18_5"]["entries"])
	out := got["models/0"]
	for _, k := range keys(m) {
		if k != "name" && k != "input" && k != "float32_max_abs_difference" {
			require.Contains(t, out, k)
		}
	}
	for _, k := range keys(train) {
		if k != "what" {
			require.Contains(t, out["train"], k)
		}
	}
}

// LAC's schedule and average, and small networks of golden_models.json.
func TestModelSchedules(t *testing.T) {
	top := read(t, testroot.Testdata("models", "golden_models.json"))
	lac, nets := map[string]any{}, map[string]any{}
	for k, v := range top["lac"].(map[string]any) {
		if k == "ema" || strings.HasPrefix(k, "one_cycle") {
			lac[k] = v
		}
	}
	for _, k := range []string{"convnext", "resnet_bottleneck_1111"} {
		nets[k] = top["backbones"].(map[string]any)[k]
	}
	file := map[string]any{"lac": lac, "backbones": nets}
	for _, d := range []torch.DType{torch.Float64, torch.Float32} {
		r := check(t, write(t, file), d)
		require.True(t, r.OK(), "%v", append(r.Failures, r.Unknown...))
		require.Equal(t, map[string]int{
			"lac.ema": 1, "lac.one_cycle_20": 1, "lac.one_cycle_voc_b32": 1, "lac.one_cycle_coco_b32": 1, "lac.one_cycle_pct03": 1,
			"backbones.convnext": 1, "backbones.resnet_bottleneck_1111": 1,
		}, r.Passed)
	}
	rates := lac["one_cycle_20"].(map[string]any)["lr"].([]any)
	rates[19] = rates[19].(float64) * 1.001 // the last and smallest
	average := lac["ema"].(map[string]any)["ema"].([]any)
	average[2] = average[2].(float64) + 1e-6
	r := check(t, write(t, file), torch.Float64)
	require.Len(t, r.Failures, 2)
	require.Contains(t, r.Failures[0], "lac.ema: /ema/2")
	require.Contains(t, r.Failures[1], "lac.one_cycle_20: /lr/19")
}
