package native

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Programs are started by absolute path, in a folder that the caller names, with a PATH of absolute folders: Python
// takes modules from the working folder, the preprocessor headers, and an empty or relative entry of PATH programs.
// Setup may run in a folder that somebody else filled.

// command is a program to start in dir.
func command(ctx context.Context, dir, program string, args ...string) *exec.Cmd {
	path, err := lookPath(program)
	if err != nil {
		path = filepath.Join(string(filepath.Separator), "nonexistent", filepath.Base(program))
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = dir, environment()
	if err != nil {
		cmd.Err = err
	}
	return cmd
}

// environment is the process's, with the absolute folders of PATH alone.
func environment() []string {
	var out []string
	for _, e := range os.Environ() {
		if rest, ok := strings.CutPrefix(e, "PATH="); ok {
			e = "PATH=" + strings.Join(absolute(rest), string(filepath.ListSeparator))
		}
		if name, ok := strings.CutPrefix(e, "CXX="); ok && strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
			if p, err := filepath.Abs(name); err == nil { // a person's own choice, of the folder that they are in
				e = "CXX=" + p
			}
		}
		out = append(out, e)
	}
	return out
}

// absolute returns the absolute folders of a list such as PATH.
func absolute(list string) []string {
	var out []string
	for _, d := range filepath.SplitList(list) {
		if filepath.IsAbs(d) {
			out = append(out, d)
		}
	}
	return out
}

// lookPath finds a program in the absolute folders of PATH. A name with a slash is a path.
func lookPath(program string) (string, error) {
	if strings.ContainsRune(program, filepath.Separator) {
		p, err := exec.LookPath(program)
		if err != nil {
			return "", err
		}
		return filepath.Abs(p)
	}
	for _, d := range absolute(os.Getenv("PATH")) {
		if p, err := exec.LookPath(filepath.Join(d, program)); err == nil {
			return p, nil
		}
	}
	return "", &exec.Error{Name: program, Err: exec.ErrNotFound}
}

// builtFrom is the checkout that this program was compiled in; "" where it was built with -trimpath or the checkout is
// gone. Only there a build folder is taken up again: CMake runs what its cache names, and a folder that merely looks
// like a checkout may have come with one.
var builtFrom = func() string {
	_, file, _, _ := runtime.Caller(0)
	if !filepath.IsAbs(file) {
		return ""
	}
	return findCheckout(filepath.Dir(file))
}
