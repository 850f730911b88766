package native

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Status says what a program would load now, for `spml doctor`.
type Status struct {
	CacheDir  string
	BuildKey  string
	Torch     *Torch // nil where TorchErr is set
	TorchErr  error
	Libs      []LibStatus
	TurboJPEG string // path of libturbojpeg.so.0, "" where it is absent
	NVCC      string // path of the fetched CUDA compiler, "" where it is absent
}

// LibStatus is one of our libraries.
type LibStatus struct {
	Name string
	Path string // "" where Err is set
	Err  error
}

// Describe looks for everything that programs load. It downloads and changes nothing.
func Describe() (*Status, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	s := &Status{CacheDir: cache, BuildKey: BuildKey(), TurboJPEG: turboJPEGPath()}
	s.Torch, s.TorchErr = FindTorch()
	for _, name := range Libraries() {
		path, err := FindLib(name)
		s.Libs = append(s.Libs, LibStatus{name, path, err})
	}
	if l, err := embeddedLock(); err == nil {
		if dir := filepath.Join(cache, l.Dirs[setNVCC]); l.complete(dir, setNVCC) {
			s.NVCC = filepath.Join(dir, nvccPath)
		}
	}
	return s, nil
}

// HasGPU reports whether the CUDA part of libtorch is there.
func (s *Status) HasGPU() bool { return s.Torch != nil && s.Torch.hasGPU() }

// turboJPEGPath returns where the system's loader would find libturbojpeg, by the folders that it commonly reads.
func turboJPEGPath() string {
	p := FindTurboJPEG()
	if filepath.IsAbs(p) {
		return p
	}
	dirs := append(filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")),
		"/usr/local/lib", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib", "/lib")
	for _, d := range dirs {
		if _, err := os.Stat(filepath.Join(d, p)); err == nil {
			return filepath.Join(d, p)
		}
	}
	return ldconfigPath(p)
}

// ldconfigPath asks the loader's own list.
func ldconfigPath(name string) string {
	out, err := exec.Command("/sbin/ldconfig", "-p").Output()
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			return f[len(f)-1]
		}
	}
	return ""
}
