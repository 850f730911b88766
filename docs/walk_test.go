// Package docs holds no code but this test, which runs what the pages tell their readers to run.
package docs

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

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
	pages := map[string]int{"../README.md": 2, "clip.md": 1, "researchers.md": 4, "services.md": 4, "kernels.md": 2}
	for page, least := range pages {
		t.Run(page, func(t *testing.T) {
			t.Parallel() // each has a folder of its own
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			folder := t.TempDir()
			if page == "../README.md" { // what stands in for a reader's photos and for published weights
				require.NoError(t, os.CopyFS(filepath.Join(folder, "photos"), os.DirFS("../testdata/pictures/photos")))
				const weights = "--weights mobilenet_v2.imagenet1k_v1"
				require.Contains(t, string(text), weights)
				text = bytes.ReplaceAll(text, []byte(weights), []byte("--weights $DATA/weights/mobilenet_v2.safetensors"))
			}
			blocks := shellBlock.FindAllStringSubmatch(string(text), -1)
			require.GreaterOrEqual(t, len(blocks), least)
			script := "set -euo pipefail\n"
			for _, b := range blocks {
				for _, line := range strings.Split(b[1], "\n") {
					script += "echo '+' " + quote(line) + "\n" + line + "\n"
				}
			}
			cmd := exec.Command("bash", "-c", script)
			cmd.Dir = folder
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

// TestREADMEIsShort: a start page is read to its end.
func TestREADMEIsShort(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	require.LessOrEqual(t, len(lines), 120)
	for i, l := range lines {
		require.LessOrEqual(t, utf8.RuneCountInString(l), 120, "line %d", i+1)
	}
}

// TestLinks: what pages link to is there.
func TestLinks(t *testing.T) {
	code := regexp.MustCompile("(?s)\n```.*?\n```\n|`[^`\n]*`")
	link := regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)|src="([^"]+)"`)
	for _, pattern := range []string{"../*.md", "*.md", "../results/*.md"} {
		pages, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, pages)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), "\n"), -1) {
				if to := m[1] + m[2]; !strings.Contains(to, "://") && !strings.HasPrefix(to, "mailto:") {
					_, err := os.Stat(filepath.Join(filepath.Dir(page), filepath.FromSlash(to)))
					require.NoError(t, err, page)
				}
			}
		}
	}
}

// TestChoosing: the table of methods is that of the results.
func TestChoosing(t *testing.T) {
	page, err := os.ReadFile("choosing.md")
	require.NoError(t, err)
	file, err := os.Open("../results/tuned_miml.csv")
	require.NoError(t, err)
	defer file.Close()
	all, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	value := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		return v
	}
	for _, r := range all[1:] {
		row := fmt.Sprintf("| %s | %.2f |", r[1], value(r[3]))
		if r[7] != "" {
			row += fmt.Sprintf(" %+.2f | %+.2f … %+.2f |", value(r[7]), value(r[8]), value(r[9]))
		}
		if !strings.HasPrefix(r[1], "bce") {
			require.Contains(t, string(page), "\n"+row)
		}
	}
}
