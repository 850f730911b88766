package golden

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
)

// TestFilesOfMetrics: metrics may be a file of their own; a wrong number is found in it.
func TestFilesOfMetrics(t *testing.T) {
	top := read(t, testroot.Testdata("models", "golden_models.json"))["metrics"].(map[string]any)
	r := check(t, write(t, top), torch.Float64)
	require.True(t, r.OK(), "%v", append(r.Failures, r.Unknown...))
	require.Equal(t, 1, r.Passed["matrix"])
	top["matrix"].(map[string]any)["map_percent"] = 66.0
	r = check(t, write(t, top), torch.Float64)
	require.Len(t, r.Failures, 1)
	require.Contains(t, r.Failures[0], "map_percent")
}

// TestNoObservedClass: -1 is a photo without an observed class, whose local threshold is the released code's, that of
// the first class; a class that is not there is an error.
func TestNoObservedClass(t *testing.T) {
	top := read(t, testroot.Shared(t, "spec", "golden_pseudo.json"))
	cases := top["damp"].([]any)
	seen := cases[0].(map[string]any)["observed_class"].([]any)
	require.Equal(t, 0.0, seen[0])
	seen[0] = -1.0
	file := map[string]any{"damp": cases}
	r := check(t, write(t, file), torch.Float64)
	require.True(t, r.OK(), "%v", r.Failures)
	seen[0] = -2.0
	r = check(t, write(t, file), torch.Float64)
	require.Len(t, r.Failures, 1)
	require.Contains(t, r.Failures[0], "class -2 of 8; -1 is none")
}

// TestOtherSizes: decoders of other depths and transformers of other image sizes are made as the file says.
func TestOtherSizes(t *testing.T) {
	eval := func(top map[string]any) map[string]any {
		f, err := Open(write(t, top))
		require.NoError(t, err)
		var out map[string]any
		require.NoError(t, f.Kind.Eval(f, Options{DType: torch.Float32}, func(_ string, outputs any) error {
			out = outputs.(map[string]any)
			return nil
		}))
		return out
	}
	top := read(t, testroot.Testdata("models", "golden_lac.json"))
	forward := top["forward"].([]any)[:1]
	forward[0].(map[string]any)["config"].(map[string]any)["decoder_layers"] = 3.0
	deepest := 0
	for key := range eval(map[string]any{"forward": forward})["parameter_shapes"].(map[string]any) {
		if strings.HasPrefix(key, "encoder.decoder.layers.2.") {
			deepest++
		}
		require.False(t, strings.HasPrefix(key, "encoder.decoder.layers.3."), key)
	}
	require.Positive(t, deepest)

	backbones := read(t, testroot.Shared(t, "spec", "golden_backbones.json"))
	model := map[string]any{"name": "timm/vit_tiny_patch16_96", "input": "det('input:x',[1, 3, 96, 96],scale 4)"}
	backbones["models"], backbones["key_lists_of_full_models"] = []any{model}, map[string]any{}
	table := eval(backbones)["state_dict"].(map[string]any)["shapes"].(map[string]any)["pos_embed"]
	require.Equal(t, []any{1.0, 37.0, 192.0}, table)
}
