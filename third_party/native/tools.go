package native

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// tools are the programs that a build uses.
type tools struct {
	cmake     string
	generator string // CMake's name for Ninja or make
	maker     string // ninja or make
}

// oldestCMake understands CMakeLists.txt.
var oldestCMake = []int{3, 18}

// need is a program or library that building lacks.
type need struct{ what, pkg string }

// findTools looks for everything that building needs. What is missing it installs as root with apt-get; else it fetches
// CMake and ninja, which come as wheels, into the cache, and names the rest in one sentence with one command, before
// anything large is downloaded. The caller holds setup.lock.
func findTools(ctx context.Context, w io.Writer, l *lock, cache string) (*tools, error) {
	t, missing := lookForTools(ctx, w, l, cache)
	if len(missing) > 0 && os.Geteuid() == 0 && haveApt() {
		var packages []string
		for _, m := range missing {
			packages = append(packages, m.pkg)
		}
		err := aptInstall(w, packages...)
		if t, missing = lookForTools(ctx, w, l, cache); err != nil && len(rest(missing)) > 0 {
			return nil, err
		}
	}
	if r := rest(missing); len(r) > 0 {
		var what, packages []string
		for _, m := range r {
			what, packages = append(what, m.what), append(packages, m.pkg)
		}
		verb := "is"
		if len(r) > 1 {
			verb = "are"
		}
		return nil, fmt.Errorf("building needs %s, which %s not installed: run `%s`", strings.Join(what, " and "), verb, aptCommand(packages...))
	}
	if len(missing) > 0 {
		if l.Dirs[setTools] == "" || runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
			return nil, fmt.Errorf("building needs CMake %d.%d or later and ninja: run `%s`", oldestCMake[0], oldestCMake[1], aptCommand("cmake", "ninja-build"))
		}
		if _, err := fetchSets(ctx, w, l, cache, []string{setTools}, false); err != nil {
			return nil, err
		}
		t, missing = lookForTools(ctx, w, l, cache)
		if len(missing) > 0 {
			return nil, fmt.Errorf("%s of %s does not run here: run `%s`", missing[0].what, filepath.Join(cache, l.Dirs[setTools]), aptCommand("cmake", "ninja-build"))
		}
	}
	return t, nil
}

// rest is what does not come as wheels.
func rest(missing []need) []need {
	return slices.DeleteFunc(slices.Clone(missing), func(n need) bool { return n.what == "cmake" || n.what == "ninja" })
}

// lookForTools returns what is there, on the PATH or else in the cache, and what is not.
func lookForTools(ctx context.Context, w io.Writer, l *lock, cache string) (*tools, []need) {
	t := &tools{generator: "Ninja"}
	var missing []need
	have := l.Dirs[setTools] != "" && l.complete(filepath.Join(cache, l.Dirs[setTools]), setTools)
	var err error
	if t.cmake, err = lookPath("cmake"); err != nil || !recentCMake(ctx, t.cmake) {
		t.cmake = l.program(cache, setTools, "cmake")
		if !have || !recentCMake(ctx, t.cmake) {
			missing = append(missing, need{"cmake", "cmake"})
		}
	}
	if t.maker, err = lookPath("ninja"); err != nil {
		if have {
			t.maker = l.program(cache, setTools, "ninja")
		} else if t.maker, err = lookPath("make"); err == nil {
			t.generator = "Unix Makefiles"
			fmt.Fprintln(w, "ninja is not installed: building with make, whose rebuilds are slower")
		} else {
			missing = append(missing, need{"ninja", "ninja-build"})
		}
	}
	cxx := compiler()
	if cxx == "" {
		missing = append(missing, need{"a C++ compiler", "g++"})
	}
	if cxx == "" || !hasTurboJPEG(ctx, cxx) {
		missing = append(missing, need{"libturbojpeg with its header", "libturbojpeg0-dev"})
	}
	return t, missing
}

// recentCMake reports whether a program is a CMake that understands our file.
func recentCMake(ctx context.Context, path string) bool {
	out, err := output(ctx, path, "--version")
	var major, minor int
	if _, serr := fmt.Sscanf(out, "cmake version %d.%d", &major, &minor); err != nil || serr != nil {
		return false
	}
	return slices.Compare([]int{major, minor}, oldestCMake) >= 0
}

// compiler returns the C++ compiler that CMake will take, or "".
func compiler() string {
	for _, c := range []string{os.Getenv("CXX"), "c++", "g++"} {
		if c == "" {
			continue
		}
		if p, err := lookPath(c); err == nil {
			return p
		}
	}
	return ""
}

// hasTurboJPEG compiles and links an empty program against libturbojpeg.
func hasTurboJPEG(ctx context.Context, cxx string) bool {
	dir, err := os.MkdirTemp("", "gospml-probe-")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	cmd := command(ctx, dir, cxx, "-x", "c++", "-include", "turbojpeg.h", "-", "-l:libturbojpeg.so.0", "-o", filepath.Join(dir, "probe"))
	cmd.Stdin = strings.NewReader("int main() {}\n")
	return cmd.Run() == nil
}

func haveApt() bool {
	_, err := lookPath("apt-get")
	return err == nil
}

// aptCommand is the command that installs Debian packages, as this user would type it.
func aptCommand(packages ...string) string {
	c := "apt-get install -y " + strings.Join(packages, " ")
	if os.Geteuid() != 0 {
		c = "sudo " + c
	}
	return c
}

// aptInstall installs packages, fetching the package lists first where that turns out to be needed. It is not stopped
// half-way: a killed dpkg leaves the system in disorder.
func aptInstall(w io.Writer, packages ...string) error {
	fmt.Fprintf(w, "installing %s with apt-get\n", strings.Join(packages, " "))
	apt := func(args ...string) (string, error) {
		cmd := command(context.Background(), string(filepath.Separator), "apt-get", append([]string{"-q"}, args...)...)
		cmd.Env = append(cmd.Env, "DEBIAN_FRONTEND=noninteractive")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	install := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	if _, err := apt(install...); err == nil {
		return nil
	}
	out, err := apt("update")
	if err == nil {
		if out, err = apt(install...); err == nil {
			return nil
		}
	}
	return fmt.Errorf("apt-get could not install %s (%s): run `%s` by hand, then setup again",
		strings.Join(packages, " "), aptError(out), aptCommand(packages...))
}

// aptError is apt-get's first "E:" line, which names the cause.
func aptError(out string) string {
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(line, "E: "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return lastError(out)
}
