package train

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHostileSettings: a file of settings is refused by one short sentence before it takes much memory, whatever it
// holds.
func TestHostileSettings(t *testing.T) {
	big := filepath.Join(t.TempDir(), "big.yaml")
	f, err := os.Create(big)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(300<<20))
	require.NoError(t, f.Close())
	files := map[string]string{big: "more than 262144 bytes", "/dev/zero": "more than 262144 bytes"}
	add := func(name, text, want string) {
		p := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
		files[p] = want
	}
	laughs := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		laughs += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
	}
	add("laughs.yaml", laughs, "excessive aliasing")
	add("deep.yaml", "params: "+strings.Repeat("[", 1<<17)+strings.Repeat("]", 1<<16), "max depth")
	add("indent.yaml", strings.Repeat("- ", 1<<17), "max depth")
	add("key.yaml", "? "+strings.Repeat("k", 1<<18-20)+"\n: 1\n", "there is no setting")
	add("twice.yaml", strings.Repeat("? "+strings.Repeat("k", 1<<16)+"\n: 1\n", 2), "already defined")
	add("value.yaml", "epochs: "+strings.Repeat("k", 1<<17)+"\n", "into int")
	add("keys.yaml", strings.Repeat("? ", 1<<17), "")
	add("rows.yaml", "params: ["+strings.Repeat("1,", 1<<17-100)+"]\n", "into map")
	for path, want := range files {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := LoadConfig(path)
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, want, path)
		require.Less(t, len(err.Error()), 2000, path)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(512<<20), path)
	}
}
