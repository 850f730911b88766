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

// savedFloat32 is a model's folder with its one file of float32 weights, and the inputs and outputs that belong to it.
func savedFloat32(t *testing.T) (dir, path string, expected nn.StateDict) {
	t.Helper()
	from := filepath.Join(testroot.Testdata("clip", "variants"), "oc_nonsquare")
	expected, _, err := nn.LoadSafetensors(filepath.Join(from, "expected.safetensors"))
	require.NoError(t, err)
	c, _, err := Load(from, LoadOptions{})
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, Save(dir, c, torch.Float32))
	files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	return dir, files[0], expected
}

// A float32 model lies in its file: the weights are those that reading gives, what is written to them stays in memory,
// and Close lets go of the file.
func TestMappedWeights(t *testing.T) {
	dir, path, expected := savedFloat32(t)
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

// A model whose mapped file was written to or cut short in place says so and does not touch it; one whose file was
// replaced by a rename goes on. What others may write is read instead of mapped.
func TestMappedWeightsThatChange(t *testing.T) {
	dir, path, expected := savedFloat32(t)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	encode := func(m *Model) error {
		_, err := m.EncodeImage(t.Context(), expected["pixel_values"])
		return err
	}
	for name, harm := range map[string]func() error{
		"cut":     func() error { return os.Truncate(path, 1000) },
		"written": func() error { return os.WriteFile(path, append([]byte("x"), whole[1:]...), 0o644) },
	} {
		require.NoError(t, os.WriteFile(path+".new", whole, 0o644))
		require.NoError(t, os.Rename(path+".new", path))
		m, err := Open(dir, Options{})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path+".new", whole, 0o644))
		require.NoError(t, os.Rename(path+".new", path))
		require.NoError(t, encode(m), "%s: a rename replaces the name, not the file", name)
		m.Close()

		m, err = Open(dir, Options{})
		require.NoError(t, err)
		require.NoError(t, harm())
		require.ErrorIs(t, encode(m), ErrChanged, name)
		m.Close()
	}
	require.NoError(t, os.WriteFile(path, whole, 0o644))
	require.NoError(t, os.Chmod(path, 0o666))
	m, err := Open(dir, Options{})
	require.NoError(t, err)
	defer m.Close()
	require.NoError(t, os.Truncate(path, 1000))
	require.NoError(t, encode(m), "it was read")
}
