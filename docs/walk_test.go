// Package docs holds no code but this test, which runs what the pages tell their readers to run.
package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

var shellBlock = regexp.MustCompile("(?s)\n```sh\n(.*?)\n```\n")

// TestPages runs every shell block of a page, one after the other in one folder, as a reader would.
func TestPages(t *testing.T) {
	data, spec := testroot.Shared(t, "data"), testroot.Shared(t, "spec")
	bin := t.TempDir()
	out, err := exec.Command("go", "build", "-o", bin, "../cmd/spml").CombinedOutput()
	require.NoError(t, err, string(out))
	absolute := func(path string) string {
		path, err := filepath.Abs(path)
		require.NoError(t, err)
		return path
	}
	for page, least := range map[string]int{"researchers.md": 4, "services.md": 4, "kernels.md": 2} {
		t.Run(page, func(t *testing.T) {
			t.Parallel() // each has a folder of its own
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			blocks := shellBlock.FindAllStringSubmatch(string(text), -1)
			require.GreaterOrEqual(t, len(blocks), least)
			script := "set -euo pipefail\n"
			for _, b := range blocks {
				for _, line := range strings.Split(b[1], "\n") {
					script += "echo '+' " + quote(line) + "\n" + line + "\n"
				}
			}
			cmd := exec.Command("bash", "-c", script)
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "PWD="+cmd.Dir, "DATA="+absolute(data), "SPEC="+absolute(spec), "GOSPML="+testroot.Module())
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", tail(string(out), 40))
		})
	}
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func tail(s string, lines int) string {
	all := strings.Split(s, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
