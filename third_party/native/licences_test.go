package native

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

var licenceName = regexp.MustCompile(`(?i)^(licen[sc]e|notice|copying|patents|third_party_licenses)`)

// moduleText joins the licence files of a module's folder.
func moduleText(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if !licenceName.MatchString(e.Name()) {
			continue
		}
		require.NoError(t, filepath.WalkDir(filepath.Join(dir, e.Name()), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			rel, _ := filepath.Rel(dir, path)
			fmt.Fprintf(&b, "== %s ==\n\n%s\n", rel, bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
			return err
		}))
	}
	require.NotZero(t, b.Len(), "%s has no licence", dir)
	return b.Bytes()
}

// TestModuleLicences: the embedded texts are those of the modules that the commands link, in the module cache;
// LICENCES_UPDATE=1 writes them.
func TestModuleLicences(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", "./cmd/...", "./examples/...")
	cmd.Dir = testroot.Module()
	out, err := cmd.Output()
	require.NoError(t, err)
	lines := slices.Compact(slices.Sorted(strings.Lines(string(out))))
	folder := filepath.Join(testroot.Module(), "third_party", "native", "licences")
	want := map[string]bool{}
	for _, line := range lines {
		module, dir, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		text := moduleText(t, dir)
		want[moduleFile(module)] = true
		if os.Getenv("LICENCES_UPDATE") != "" {
			writeFile(t, filepath.Join(folder, moduleFile(module)), string(text), 0o644)
			continue
		}
		have, err := licenceTexts.ReadFile("licences/" + moduleFile(module))
		require.NoError(t, err, "run LICENCES_UPDATE=1 go test -run TestModuleLicences ./third_party/native")
		require.Equal(t, string(text), string(have), module)
	}
	require.Greater(t, len(want), 10)
	entries, err := os.ReadDir(filepath.Join(folder, "modules"))
	require.NoError(t, err)
	for _, e := range entries {
		require.True(t, want["modules/"+e.Name()], "nothing links the module of %s any more", e.Name())
	}
}

// TestFinishBundle: a file that nobody knows a licence for, or whose licence is not there, is an error.
func TestFinishBundle(t *testing.T) {
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	fill := func(names ...string) (string, string) {
		dir := t.TempDir()
		program := filepath.Join(dir, "spml")
		writeFile(t, program, string(self), 0o755)
		for _, n := range names {
			writeFile(t, filepath.Join(dir, n), n, 0o644)
		}
		return dir, program
	}
	dir, program := fill("lib/libgospml-cpu.so", "lib/cxx/libstdc++.so.6", "lib/libturbojpeg.so.0", "libtorch/torch/lib/libtorch_cpu.so", "model/model.safetensors", "Dockerfile")
	_, err = FinishBundle(dir, program)
	require.NoError(t, err)
	var d spdxDocument
	b, err := os.ReadFile(filepath.Join(dir, spdxFile))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &d))
	require.Equal(t, "SPDX-2.3", d.Version)
	for _, f := range d.Files {
		sums, err := checksums(filepath.Join(dir, f.Name))
		require.NoError(t, err)
		require.Equal(t, sums, f.Checksums)
		require.NotEmpty(t, f.Concluded, f.Name)
	}

	dir, program = fill()
	writeFile(t, program, "a script", 0o755)
	_, err = FinishBundle(dir, program)
	require.ErrorContains(t, err, "what it is made of")

	dir, program = fill("lib/libmystery.so")
	_, err = FinishBundle(dir, program)
	require.ErrorContains(t, err, "lib/libmystery.so in the bundle has no licence")
	dir, program = fill("libtorch/nvidia/cu13/lib/libcudart.so.13")
	_, err = FinishBundle(dir, program)
	require.ErrorContains(t, err, "no licence of libcudart.so.13")
}
