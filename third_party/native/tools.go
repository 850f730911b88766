package native

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// tools are the programs that a build uses.
type tools struct {
	cmake     string
	generator string // CMake's name for Ninja or make
}

// findTools looks for everything that building needs, so that what is missing is said before anything is downloaded,
// in one sentence with one command. As root it installs libturbojpeg's header itself.
func findTools(ctx context.Context, w io.Writer) (*tools, error) {
	t := &tools{generator: "Ninja"}
	var missing, packages []string
	need := func(what, pkg string) {
		missing, packages = append(missing, what), append(packages, pkg)
	}
	var err error
	if t.cmake, err = lookPath("cmake"); err != nil {
		need("cmake", "cmake")
	}
	cxx := compiler()
	if cxx == "" {
		need("a C++ compiler", "g++")
	}
	if _, err := lookPath("ninja"); err != nil {
		t.generator = "Unix Makefiles"
		if _, err := lookPath("make"); err != nil {
			need("ninja", "ninja-build")
		} else {
			fmt.Fprintln(w, "ninja is not installed: building with make, whose rebuilds are slower")
		}
	}
	if cxx != "" && !hasTurboJPEG(ctx, cxx) {
		if len(missing) == 0 && os.Geteuid() == 0 && haveApt() {
			if err := aptInstall(w, "libturbojpeg0-dev"); err != nil {
				return nil, err
			}
		} else {
			need("libturbojpeg with its header", "libturbojpeg0-dev")
		}
	}
	if len(missing) > 0 {
		verb := "is"
		if len(missing) > 1 {
			verb = "are"
		}
		return nil, fmt.Errorf("building needs %s, which %s not installed: run `%s`", strings.Join(missing, " and "), verb, aptCommand(packages...))
	}
	return t, nil
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
