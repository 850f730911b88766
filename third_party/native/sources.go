package native

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gospml/gospml"
)

// modulePath is the module that a checkout's go.mod names.
const modulePath = "github.com/gospml/gospml"

// Libraries are the file names that building the embedded sources gives.
func Libraries() []string {
	var out []string
	for _, l := range []struct{ dir, name string }{
		{"torch/csrc", "libgospml-cpu.so"}, {"spml/csrc", "libgospml-ops-cpu.so"}, {"data/csrc", "libgospml-image.so"},
	} {
		if hasSources(l.dir) {
			out = append(out, l.name)
		}
	}
	return out
}

// CUDALibraries are the file names that a build with a CUDA compiler gives beside [Libraries].
func CUDALibraries() []string {
	var out []string
	if hasSources("cuda/csrc") {
		out = append(out, "libgospml-cuda.so")
	}
	if hasSources("spml/csrc/cuda") {
		out = append(out, "libgospml-ops-cuda.so")
	}
	return out
}

// hasSources reports whether CMake finds something to compile in an embedded folder.
func hasSources(dir string) bool {
	entries, err := gospml.Sources.ReadDir(dir)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return strings.HasSuffix(e.Name(), ".cpp") || strings.HasSuffix(e.Name(), ".cu") || strings.HasSuffix(e.Name(), ".c") && dir == "data/csrc"
	})
}

// findCheckout goes up from a folder to one whose go.mod is this module's; "" where there is none.
func findCheckout(from string) string {
	for d := from; ; d = filepath.Dir(d) {
		if b, err := os.ReadFile(filepath.Join(d, "go.mod")); err == nil {
			for line := range strings.Lines(string(b)) {
				if strings.TrimSpace(line) == "module "+modulePath {
					return d
				}
			}
			return ""
		}
		if d == filepath.Dir(d) {
			return ""
		}
	}
}

// differentSource returns the first C++ source that is not the same in the checkout and in this program; "" if all are.
func differentSource(checkout string) (string, error) {
	embedded := map[string]bool{}
	differs := ""
	err := eachSource(gospml.Sources, func(path string, want []byte) error {
		embedded[path] = true
		if differs != "" {
			return nil
		}
		if have, err := os.ReadFile(filepath.Join(checkout, path)); err != nil || !bytes.Equal(have, want) {
			differs = path
		}
		return nil
	})
	if err != nil || differs != "" {
		return differs, err
	}
	for path := range embedded {
		dir := filepath.Dir(path)
		entries, err := os.ReadDir(filepath.Join(checkout, dir))
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			name := filepath.ToSlash(filepath.Join(dir, e.Name()))
			if source := strings.HasSuffix(name, ".cpp") || strings.HasSuffix(name, ".cu") || strings.HasSuffix(name, ".c"); source && !embedded[name] {
				return name, nil
			}
		}
	}
	return "", nil
}

// eachSource visits the files that decide what a build gives, in the order of their names.
func eachSource(sources fs.FS, visit func(path string, content []byte) error) error {
	return fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".md") {
			return err
		}
		b, err := fs.ReadFile(sources, path)
		if err != nil {
			return err
		}
		return visit(path, b)
	})
}

// extractSources writes the embedded sources to a folder.
func extractSources(dir string) error {
	err := eachSource(gospml.Sources, func(path string, b []byte) error {
		to := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o644)
	})
	if err != nil {
		return fmt.Errorf("writing the C++ sources: %w", err)
	}
	return nil
}
