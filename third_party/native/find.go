package native

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/gospml/gospml"
)

// TorchVersion is the libtorch that this module is built and tested with.
const TorchVersion = "2.11.0"

// SetupCommand is what error sentences tell people to run: the command itself where it is the program that is running,
// else what works in every module that requires this one. (-mod=mod because the go.sum of a service has no sums for
// what only the command imports.)
var SetupCommand = setupCommand(os.Args[0], debug.ReadBuildInfo)

func setupCommand(program string, buildInfo func() (*debug.BuildInfo, bool)) string {
	const command = modulePath + "/cmd/spml"
	goRun := strings.Contains(program, "go-build") // a temporary file that is gone when the sentence is read
	if info, ok := buildInfo(); ok && info.Path == command && !goRun {
		return program + " setup"
	}
	return "go run -mod=mod " + command + " setup"
}

// ErrNotFound is wrapped by every error that says that a native library is absent.
var ErrNotFound = errors.New("native library not found")

// CacheDir is the per-user folder for libtorch and the built libraries: $GOSPML_CACHE, else the user's cache folder +
// /gospml.
func CacheDir() (string, error) {
	if d := os.Getenv("GOSPML_CACHE"); d != "" {
		return filepath.Abs(d)
	}
	d, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder: %w; set GOSPML_CACHE", err)
	}
	return filepath.Join(d, "gospml"), nil
}

// BuildKey names the libraries built from exactly the embedded C++ sources for TorchVersion, and with GOSPML_NATIVE=1
// for this processor: 16 hex digits.
var BuildKey = sync.OnceValue(func() string {
	h := sha256.New()
	fmt.Fprintln(h, TorchVersion)
	if s := nativeSet(); s != "" {
		fmt.Fprintln(h, s)
	}
	_ = eachSource(gospml.Sources, func(path string, b []byte) error {
		fmt.Fprintf(h, "%s %d\n", path, len(b))
		h.Write(b)
		return nil
	})
	return hex.EncodeToString(h.Sum(nil))[:16]
})

// LibDir is the folder that `spml setup` installs the built libraries into.
func LibDir() (string, error) {
	c, err := CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(c, "lib", BuildKey()), nil
}

// FindLib returns the absolute path of one of our libraries, for instance "libgospml-cpu.so". Search order:
// $GOSPML_LIB, the folder of the executable and its lib/, then LibDir. A library that is not what a set-up installed is
// an error ([ErrDamaged]).
func FindLib(name string) (string, error) {
	var dirs []string
	var noCache error
	if d := os.Getenv("GOSPML_LIB"); d != "" {
		// An explicit folder is the only one looked at: a typing error must not fall back to another build.
		dirs = []string{d}
	} else {
		if exe, err := programDir(); err == nil {
			dirs = append(dirs, exe, filepath.Join(exe, "lib"))
		}
		if d, err := LibDir(); err == nil {
			dirs = append(dirs, d)
		} else {
			noCache = err // a bundle needs none
		}
	}
	for _, d := range dirs {
		p := filepath.Join(d, name)
		if st, err := os.Stat(p); err == nil && !st.IsDir() {
			if err := readSums(d).check(d, name, false); err != nil {
				return "", err
			}
			noteUse(d)
			return filepath.Abs(p)
		}
	}
	if noCache != nil {
		return "", noCache
	}
	return "", fmt.Errorf("%w: %s is not in %s; run `%s`", ErrNotFound, name, strings.Join(dirs, ", "), SetupCommand)
}

// noteUse makes the time of a folder of built libraries that of its last use, to the hour: set-ups of other sources
// leave it. Where the folder cannot be written nothing is noted.
func noteUse(dir string) {
	now := time.Now()
	if st, err := os.Stat(dir); err == nil && now.Sub(st.ModTime()) > time.Hour {
		_ = os.Chtimes(dir, now, now)
	}
}

// programDir is the folder of the running program. A bare root has no /proc, which os.Executable asks; there the
// program's first argument says it, when it is a path.
func programDir() (string, error) {
	exe, err := os.Executable()
	if err != nil && strings.ContainsRune(os.Args[0], filepath.Separator) {
		exe, err = filepath.Abs(os.Args[0])
	}
	if err != nil {
		return "", err
	}
	exe, err = filepath.EvalSymlinks(exe)
	return filepath.Dir(exe), err
}

// FindTurboJPEG returns libturbojpeg.so.0: beside our libraries if it is there, else the bare name for the system's
// loader.
func FindTurboJPEG() string {
	if p, err := FindLib("libturbojpeg.so.0"); err == nil {
		return p
	}
	return "libturbojpeg.so.0"
}
