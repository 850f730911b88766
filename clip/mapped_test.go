package clip

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// A float32 model lies in its file: the weights are those that reading gives, what is written to them stays in memory, and Close lets go of the file.
func TestMappedWeights(t *testing.T) {
	from := filepath.Join(testroot.Testdata("clip", "variants"), "oc_nonsquare")
	expected, _, err := nn.LoadSafetensors(filepath.Join(from, "expected.safetensors"))
	require.NoError(t, err)
	c, _, err := Load(from, LoadOptions{})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, Save(dir, c, torch.Float32))
	files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	path := files[0]
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	inMemory := func() bool {
		b, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		return strings.Contains(string(b), path)
	}
	read, err := Open(dir, Options{Load: LoadOptions{Copy: true}})
	require.NoError(t, err)
	require.False(t, inMemory())
	mapped, err := Open(dir, Options{})
	require.NoError(t, err)
	require.True(t, inMemory())
	a, b := nn.StateDictOf(read.clip), nn.StateDictOf(mapped.clip)
	require.Equal(t, a.Keys(), b.Keys())
	for k, x := range a {
		require.True(t, x.Equal(b[k]), k)
	}
	for _, m := range []*Model{read, mapped} {
		y, err := m.EncodeImage(t.Context(), expected["pixel_values"])
		require.NoError(t, err)
		require.InDelta(t, 0, y.Sub(expected["image_features"]).Abs().Max().Item(), 1e-4)
	}
	torch.NoGrad(func() { b["visual.proj"].Fill_(7) })
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, string(before) == string(after), "the file has changed")
	read.Close()
	mapped.Close()
	a, b = nil, nil
	collect()
	require.False(t, inMemory(), "the file is still mapped")
}
