package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gospml/gospml/third_party/native"
)

// result counts tests and subtests of a version.
type result struct {
	passed, skipped int
	failed          []string // "package test"
	names           []string // tests that passed
}

func tryVersion(ctx context.Context, w io.Writer, version string) (*result, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "gospml-compat-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	over, err := overlay(root, work, version)
	if err != nil {
		return nil, err
	}
	cache, err := native.CacheDir()
	if err != nil {
		return nil, err
	}
	env := environment(os.Environ(), filepath.Join(cache, "compat"))
	spml := filepath.Join(work, "spml")
	build := command(ctx, root, env, "go", "build", "-overlay", over, "-o", spml, "./cmd/spml")
	build.Stdout, build.Stderr = w, w
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("building spml: %w", err)
	}
	// Outside the checkout, whose build folder belongs to the module's own version.
	setup := command(ctx, work, env, spml, "setup")
	setup.Stdout, setup.Stderr = w, w
	if err := setup.Run(); err != nil {
		return nil, fmt.Errorf("spml setup: %w", err)
	}
	r := &result{}
	for _, s := range suite {
		if err := r.test(command(ctx, root, env, "go", "test", "-overlay", over, "-json", "-count=1", "-timeout=20m", "-run", s.run, s.pkg), w); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// overlay writes the go command's overlay: the same sources with the version and the lock of another libtorch.
func overlay(root, work, version string) (string, error) {
	find := filepath.Join(root, "third_party/native/find.go")
	text, err := os.ReadFile(find)
	if err != nil {
		return "", err
	}
	line := fmt.Sprintf("const TorchVersion = %q", native.TorchVersion)
	if strings.Count(string(text), line) != 1 {
		return "", fmt.Errorf("%s has no line %s", find, line)
	}
	changed := filepath.Join(work, "find.go")
	other := strings.Replace(string(text), line, fmt.Sprintf("const TorchVersion = %q", version), 1)
	if err := os.WriteFile(changed, []byte(other), 0o600); err != nil {
		return "", err
	}
	replace := map[string]string{
		find: changed,
		filepath.Join(root, "third_party/native/libtorch.lock"): filepath.Join(root, folder, "libtorch-"+version+".lock"),
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(work, "overlay.json")
	return path, os.WriteFile(path, b, 0o600)
}

// environment is that of the caller without what names another libtorch.
func environment(env []string, cache string) []string {
	var out []string
	for _, e := range env {
		switch name, _, _ := strings.Cut(e, "="); name {
		case "LIBTORCH", "GOSPML_LIB", "GOSPML_CACHE":
		default:
			out = append(out, e)
		}
	}
	return append(out, "GOSPML_CACHE="+cache)
}

func command(ctx context.Context, dir string, env []string, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, env
	return cmd
}

// test runs `go test -json`, counts, and passes on what a failed test printed.
func (r *result) test(cmd *exec.Cmd, w io.Writer) error {
	cmd.Stderr = w
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	output := map[string]string{}
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct{ Action, Package, Test, Output string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(w, lines.Text())
			continue
		}
		name := strings.TrimSpace(strings.TrimPrefix(e.Package, "github.com/gospml/gospml/") + " " + e.Test)
		switch e.Action {
		case "output", "build-output":
			output[name] += e.Output
		case "pass":
			if e.Test != "" {
				r.passed++
				r.names = append(r.names, e.Test)
			}
			delete(output, name)
		case "skip":
			if e.Test != "" {
				r.skipped++
				fmt.Fprintf(w, "skipped: %s\n", name)
			}
		case "fail", "build-fail":
			r.failed = append(r.failed, name)
			fmt.Fprint(w, output[name])
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil && len(r.failed) == 0 {
		return fmt.Errorf("go test: %w", err)
	}
	return nil
}
