package golden

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
)

func TestClipSections(t *testing.T) {
	top := read(t, testroot.Shared(t, "spec", "golden_models.json"))
	for name := range top {
		if name != "tokenizer" && name != "clip" {
			delete(top, name)
		}
	}
	for _, d := range []torch.DType{torch.Float64, torch.Float32} {
		r := check(t, write(t, top), d)
		require.True(t, r.OK(), "%v: %v", d, append(r.Failures, r.Unknown...))
		require.Equal(t, map[string]int{"clip.modified_resnet": 1, "clip.pos_interp": 1, "clip.text": 1, "clip.vit": 1, "clip.zero_shot": 1, "tokenizer": 72}, r.Passed)
	}
	top["clip"].(map[string]any)["vit"].(map[string]any)["embedding_gelu"].([]any)[0].([]any)[3] = 0.33
	top["tokenizer"].(map[string]any)["cases"].([]any)[0].(map[string]any)["ids"].([]any)[7] = 49408.
	require.Len(t, check(t, write(t, top), torch.Float32).Failures, 2)
}
