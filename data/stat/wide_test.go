package stat

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
)

// Of many classes only the most frequent ones are counted together: their square did not fit into memory.
func TestWideDataSet(t *testing.T) {
	const classes = 40_000
	path := filepath.Join(t.TempDir(), "labels.csv")
	var b strings.Builder
	b.WriteString("filename")
	for c := range classes {
		fmt.Fprintf(&b, ",c%d", c)
	}
	for row := range 2 {
		fmt.Fprintf(&b, "\n%d.jpg", row)
		for c := range classes {
			b.WriteString([]string{",1", ",0"}[row*c%2])
		}
	}
	require.NoError(t, os.WriteFile(path, []byte(b.String()+"\n"), 0o644))
	d, err := data.Open(path, data.Options{Missing: data.MissingKeep})
	require.NoError(t, err)
	defer d.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := Of(d)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20))
	require.Len(t, s.Together, MaxTogether)
	for k, c := range s.Together {
		require.Equal(t, 2*k, c, "the even classes have two positives, the odd ones one")
		require.Equal(t, 2, s.CoOccurrence[k][0])
	}
	require.Equal(t, 2, s.Distinct)
	require.Empty(t, Count(d).CoOccurrence)
	var svg strings.Builder
	require.NoError(t, SVG(&svg, s))
}
