package safetensors

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/stretchr/testify/require"
)

// TestShardsAsHuggingFace reads what huggingface_hub wrote and writes it again: the same shards, byte for byte.
func TestShardsAsHuggingFace(t *testing.T) {
	dir := testroot.Testdata("safetensors", "sharded")
	s, err := OpenSharded(filepath.Join(dir, "model"+IndexSuffix))
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, 10, s.Len())
	require.Len(t, s.Shards(), 5)
	var tensors []Tensor
	for i, n := range []int64{10, 300, 20, 30, 25, 25, 50, 0, 7, 60} { // as make_sharded.py has them
		name := fmt.Sprintf("layer.%d.<w>&ü", 9-i)
		info, ok := s.Info(name)
		require.True(t, ok)
		require.Equal(t, []int64{n}, info.Shape)
		data, err := s.Bytes(name)
		require.NoError(t, err)
		into := make([]byte, n)
		require.NoError(t, s.ReadInto(name, into))
		require.Equal(t, data, into)
		tensors = append(tensors, Tensor{Name: name, Dtype: info.Dtype, Shape: info.Shape, Data: data})
	}
	out := t.TempDir()
	index, err := WriteSharded(out, "model", tensors, s.Metadata(), 75)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(out, "model"+IndexSuffix), index)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	ours, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Len(t, ours, len(files))
	for _, f := range files {
		want, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(out, f.Name()))
		require.NoError(t, err)
		if filepath.Ext(f.Name()) == ".json" { // in the order of the keys, as transformers has it
			require.JSONEq(t, string(want), string(got))
		} else {
			require.Equal(t, want, got, f.Name())
		}
	}
}

// TestShardedCLIP compares a model of transformers in two shards with its index.
func TestShardedCLIP(t *testing.T) {
	s, err := OpenSharded(testroot.Shared(t, "data", "clip_tiny", "hf_sharded_fp16", "model.safetensors.index.json"))
	require.NoError(t, err)
	defer s.Close()
	total := int64(0)
	for _, name := range s.Names() {
		info, ok := s.Info(name)
		require.True(t, ok)
		total += info.Size
	}
	require.EqualValues(t, 1065058, total, "the index's total_size")
	require.Equal(t, "pt", s.Metadata()["format"])
}

func TestWriteShardedOneFile(t *testing.T) {
	dir := t.TempDir()
	path, err := WriteSharded(dir, "model", []Tensor{{Name: "a", Dtype: U8, Shape: []int64{2}, Data: []byte{1, 2}}}, nil, 2)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "model.safetensors"), path)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
	path, err = WriteSharded(dir, "none", nil, nil, 2)
	require.NoError(t, err)
	f, err := Open(path)
	require.NoError(t, err)
	require.Zero(t, f.Len())
	require.NoError(t, f.Close())

	_, err = WriteSharded(dir, "model", nil, nil, 0)
	require.ErrorContains(t, err, "holds nothing")
	_, err = WriteSharded(dir, "../model", nil, nil, 1)
	require.ErrorContains(t, err, "is not a file's name")
	two := []Tensor{{Name: "a", Dtype: U8}, {Name: "a", Dtype: U8}}
	_, err = WriteSharded(dir, "bad", two, nil, 1)
	require.ErrorContains(t, err, "Data has 0")
	failing := []Tensor{
		{Name: "a", Dtype: U8, Shape: []int64{1}, Data: []byte{1}},
		{Name: "b", Dtype: U8, Shape: []int64{1}, Stream: func(io.Writer) error { return io.ErrClosedPipe }},
	}
	_, err = WriteSharded(dir, "half", failing, nil, 1)
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.NoFileExists(t, filepath.Join(dir, "half"+IndexSuffix))
}

// TestBadIndexes: each is refused with a reason that names the index.
func TestBadIndexes(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Write(filepath.Join(dir, "a.safetensors"), []Tensor{
		{Name: "x", Dtype: U8, Shape: []int64{1}, Data: []byte{1}}, {Name: "y", Dtype: U8, Shape: []int64{1}, Data: []byte{1}},
	}, nil))
	for want, text := range map[string]string{
		"ends early: is it truncated?":           `{"weight_map":{"x":"a.safetensors"`,
		"has no weight_map":                      `{"metadata":{"total_size":2}}`,
		"has no weight_map with tensors":         `{"weight_map":{}}`,
		"found [ where { is expected":            `[]`,
		"the shard of tensor \"x\" is no text":   `{"weight_map":{"x":1}}`,
		"weight_map occurs twice":                `{"weight_map":{"x":"a.safetensors"},"weight_map":{}}`,
		"tensor \"x\" occurs twice":              `{"weight_map":{"x":"a.safetensors","x":"a.safetensors"}}`,
		"something follows":                      `{"weight_map":{"x":"a.safetensors"}}{}`,
		"which is not a file's name":             `{"weight_map":{"x":"../a.safetensors"}}`,
		"\"/etc/passwd\", which is not a file's": `{"weight_map":{"x":"/etc/passwd"}}`,
		"\"..\", which is not a file's name":     `{"weight_map":{"x":".."}}`,
		"no such file":                           `{"weight_map":{"x":"b.safetensors"}}`,
		"holds tensor \"y\", which the index":    `{"weight_map":{"x":"a.safetensors"}}`,
		"lacks tensor \"z\", which the index":    `{"weight_map":{"x":"a.safetensors","y":"a.safetensors","z":"a.safetensors"}}`,
		"invalid character":                      `{"weight_map":{x}}`,
	} {
		path := filepath.Join(dir, "m"+IndexSuffix)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		s, err := OpenSharded(path)
		require.Nil(t, s)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, path)
	}
	_, err := OpenSharded(dir)
	require.ErrorContains(t, err, "not a regular file")
	path := filepath.Join(dir, "large"+IndexSuffix)
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte(" "), maxIndex+1), 0o600))
	_, err = OpenSharded(path)
	require.ErrorContains(t, err, "at most 16777216 are read")

	good := filepath.Join(dir, "m"+IndexSuffix)
	require.NoError(t, os.WriteFile(good, []byte(`{"weight_map":{"y":"a.safetensors","x":"a.safetensors"}}`), 0o600))
	s, err := OpenSharded(good)
	require.NoError(t, err)
	_, err = s.Bytes("z")
	require.ErrorContains(t, err, `has no tensor "z" among its 2`)
	require.True(t, slices.Contains(s.Names(), "x"))
	require.NoError(t, s.Close())
}
