package safetensors

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/stretchr/testify/require"
)

// FuzzSafetensors: no input makes the reader panic or allocate more than its size and 1 MB; what is accepted says the same to
// encoding/json, and comes back equal after writing. The input is a whole file, or a header's text and the number of bytes behind it.
func FuzzSafetensors(f *testing.F) {
	paths, err := filepath.Glob(testroot.Testdata("safetensors", "*.safetensors"))
	require.NoError(f, err)
	for _, path := range paths {
		file, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(file, -1)
	}
	f.Add([]byte("{"+entry("a", "F32", "[2]", 0, 8)+`,"__metadata__":{"k":"v","\u00e9":"\ud83d\ude00"},`+entry("b", "F4", "[2,1]", 8, 9)+"}  "), 9)
	f.Add([]byte(`{"__metadata__":null}`), 0)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		if size >= 0 {
			data = withHeader(string(data), size%4096)
		}
		before := allocated()
		file, err := parseBytes(data)
		used := allocated() - before
		require.LessOrEqual(t, used, uint64(len(data)+1<<20))
		if err != nil {
			require.Nil(t, file)
			return
		}
		var oracle map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(data[8:file.start], &oracle))
		if text, ok := oracle["__metadata__"]; ok {
			var metadata map[string]string
			require.NoError(t, json.Unmarshal(text, &metadata))
			require.Equal(t, metadata, file.Metadata())
			delete(oracle, "__metadata__")
		}
		require.Equal(t, len(oracle), file.Len())
		for _, name := range file.Names() {
			info, ok := file.Info(name)
			require.True(t, ok)
			var want struct {
				Dtype   Dtype
				Shape   []int64
				Offsets [2]int64 `json:"data_offsets"`
			}
			require.NoError(t, json.Unmarshal(oracle[name], &want))
			require.Equal(t, want.Dtype, info.Dtype)
			require.Equal(t, want.Shape, info.Shape)
			require.Equal(t, file.start+want.Offsets[0], info.Offset)
			require.Equal(t, want.Offsets[1]-want.Offsets[0], info.Size)
		}

		tensors := readAll(t, file)
		var again bytes.Buffer
		require.NoError(t, Encode(&again, tensors, file.Metadata()))
		file, err = parseBytes(again.Bytes())
		require.NoError(t, err)
		require.ElementsMatch(t, tensors, readAll(t, file))
	})
}
