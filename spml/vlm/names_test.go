package vlm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// TestCUBNames: CUB's attributes stand in prompts as the released programs have them, whichever way the data set's own
// names are written; others keep theirs.
func TestCUBNames(t *testing.T) {
	b, err := os.ReadFile(testroot.Shared(t, "spec", "golden_models.json"))
	require.NoError(t, err)
	var golden struct {
		Names struct {
			CUB []string `json:"cub_prompt_names"`
		} `json:"class_names"`
	}
	require.NoError(t, json.Unmarshal(b, &golden))
	require.Len(t, golden.Names.CUB, 312)
	require.Equal(t, golden.Names.CUB, CUBNames())

	official := make([]string, 312)
	for i := range official {
		official[i] = fmt.Sprintf("has_part_%d::value_(of_%d)", i, i)
	}
	s := &Settings{}
	names, err := s.names(official)
	require.NoError(t, err)
	require.Equal(t, "curved bill", names[0])
	require.Equal(t, []string{"a photo of a curved bill."}, s.prompts("a photo of a {name}.", names[:1]))
	official[7] = "blue wing"
	names, err = s.names(official)
	require.NoError(t, err)
	require.Equal(t, "has part 0::value (of 0)", names[0])
	names, err = s.names([]string{"traffic_light"})
	require.NoError(t, err)
	require.Equal(t, []string{"traffic light"}, names)
}

func TestReadNames(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "names.txt")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	names, err := ReadNames("cub")
	require.NoError(t, err)
	require.Len(t, names, 312)
	for _, text := range []string{"a disc\r\na square\n", "a disc\na square", `["a disc", "a square"]`} {
		names, err = ReadNames(write(text))
		require.NoError(t, err)
		require.Equal(t, []string{"a disc", "a square"}, names)
	}
	_, err = ReadNames(write(""))
	require.ErrorIs(t, err, ErrSettings)
	_, err = ReadNames(write(`["a", 1]`))
	require.ErrorContains(t, err, "no array of strings")
	_, err = ReadNames("birds")
	require.ErrorIs(t, err, os.ErrNotExist)
}
