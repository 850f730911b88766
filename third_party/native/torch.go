package native

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Torch is a libtorch on this machine.
type Torch struct {
	Dir    string // holds lib/ and, for building, include/
	Source string // "LIBTORCH", "bundle", "cache" or "python"
}

// FindTorch returns the first libtorch of the search order $LIBTORCH, the folder beside the executable (a bundle), the
// per-user cache. It does not start Python; `spml setup` records a Python installation that it accepted in the cache.
func FindTorch() (*Torch, error) {
	if os.Getenv("LIBTORCH") != "" {
		t, err := torchFromEnv()
		if err == nil {
			err = t.check()
		}
		return t, err
	}
	if dir, err := programDir(); err == nil {
		if d := filepath.Join(dir, "libtorch", "torch"); hasTorch(d) {
			t := &Torch{Dir: d, Source: "bundle"}
			return t, t.check()
		}
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	if t := torchFromCache(cache); t != nil {
		return t, t.check()
	}
	return nil, fmt.Errorf("%w: libtorch %s is not on this machine; run `%s`", ErrNotFound, TorchVersion, SetupCommand)
}

// check refuses libraries that are not what a set-up installed, by size and time (the hash where the time is another),
// and those that are cut.
func (t *Torch) check() error {
	if t.Source == "cache" {
		if wrong := checkFolder(filepath.Dir(t.Dir), false); len(wrong) > 0 {
			return wrong[0]
		}
	}
	for _, path := range t.Preload() {
		if err := whole(path); err != nil {
			return err
		}
	}
	return nil
}

// torchFromEnv is the libtorch that $LIBTORCH names: the only one looked at when it is set.
func torchFromEnv() (*Torch, error) {
	d := os.Getenv("LIBTORCH")
	if !hasTorch(d) {
		return nil, fmt.Errorf("%w: LIBTORCH=%s has no lib/libtorch_cpu.so; unset LIBTORCH and run `%s`", ErrNotFound, d, SetupCommand)
	}
	d, err := filepath.Abs(d)
	return &Torch{Dir: d, Source: "LIBTORCH"}, err
}

// torchFromCache returns what a set-up left in the cache folder: the fetched files, or the path of a Python
// installation.
func torchFromCache(cache string) *Torch {
	if d := filepath.Join(cache, "libtorch-"+TorchVersion, "torch"); hasTorch(d) {
		return &Torch{Dir: d, Source: "cache"}
	}
	return recordedPython(cache)
}

// recordedPython returns the torch of the Python installation that a set-up accepted, if it still is what it was.
func recordedPython(cache string) *Torch {
	b, err := os.ReadFile(pythonPointer(cache))
	if err != nil {
		return nil
	}
	t := &Torch{Dir: strings.TrimSpace(string(b)), Source: "python"}
	if !hasTorch(t.Dir) || !t.supported() {
		return nil
	}
	return t
}

// pythonPointer is the file that holds the path of the torch package of an accepted Python installation.
func pythonPointer(cache string) string {
	return filepath.Join(cache, "libtorch-"+TorchVersion+".python")
}

func hasTorch(dir string) bool {
	st, err := os.Stat(filepath.Join(dir, "lib", "libtorch_cpu.so"))
	return err == nil && !st.IsDir()
}

// Preload lists the libraries to open, by absolute path and in this order, before ours.
func (t *Torch) Preload() []string {
	var out []string
	if t.Source == "bundle" {
		out = cxxRuntime(filepath.Join(t.Dir, "..", "..", cxxFolder), systemFolders)
	}
	return append(out, t.find(
		"torch/lib/libgomp.so.1",
		"nvidia/*/lib/libcudart.so.*", "nvidia/*/lib/libcupti.so.*", // nvidia/cu13 for CUDA 13, a folder for each library before
		"torch/lib/libc10.so", "torch/lib/libtorch_cpu.so",
	)...)
}

// find returns the first match of each pattern that has one. "torch/" stands for t.Dir, whatever its name, "nvidia/"
// for the folder beside it.
func (t *Torch) find(patterns ...string) []string {
	var out []string
	for _, p := range patterns {
		root, rest := filepath.Dir(filepath.Clean(t.Dir)), p
		if inside, ok := strings.CutPrefix(p, "torch/"); ok {
			root, rest = t.Dir, inside
		}
		if found, _ := fs.Glob(os.DirFS(root), rest); len(found) > 0 {
			out = append(out, filepath.Join(root, found[0]))
		}
	}
	return out
}

var (
	pyVersion     = regexp.MustCompile(`(?m)^__version__ = '([^']+)'`)
	headerVersion = regexp.MustCompile(`(?m)^#define TORCH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)`)
)

// Version reads the version with its build, such as "2.11.0+cu130", from the files beside the library: version.py of a
// wheel, build-version of a libtorch archive, else the header. It is "" where there is none of them; the library itself
// is asked when it is loaded.
func (t *Torch) Version() string {
	if b, err := os.ReadFile(filepath.Join(t.Dir, "version.py")); err == nil {
		if m := pyVersion.FindSubmatch(b); m != nil {
			return string(m[1])
		}
	}
	if b, err := os.ReadFile(filepath.Join(t.Dir, "build-version")); err == nil {
		return strings.TrimSpace(string(b))
	}
	b, err := os.ReadFile(filepath.Join(t.Dir, "include", "torch", "headeronly", "version.h"))
	if err != nil {
		return ""
	}
	var parts []string
	for _, m := range headerVersion.FindAllSubmatch(b, -1) {
		parts = append(parts, string(m[1]))
	}
	return strings.Join(parts, ".")
}

// supported reports whether the version is TorchVersion, of any build.
func (t *Torch) supported() bool {
	v, _, _ := strings.Cut(t.Version(), "+")
	return v == TorchVersion
}

// headers reports whether programs can be compiled against it.
func (t *Torch) headers() bool {
	_, err := os.Stat(filepath.Join(t.Dir, "include", "torch", "csrc", "api", "include", "torch", "torch.h"))
	return err == nil
}

// PreloadGPU lists the libraries of the CUDA part to open after Preload's: NVIDIA's by absolute path, as the wheels lay
// them out, those that others need first, then libtorch's.
func (t *Torch) PreloadGPU() []string {
	var patterns []string
	for _, name := range []string{
		"libnvJitLink", "libcublasLt", "libcublas", "libcusparse", "libcusparseLt", "libcusolver", "libcufft", "libcurand", "libcufile", "libnvrtc", "libcudnn", "libnccl",
		"libnvshmem_host",
	} {
		patterns = append(patterns, "nvidia/*/lib/"+name+".so.*")
	}
	return t.find(append(patterns, "torch/lib/libc10_cuda.so", "torch/lib/libtorch_nvshmem.so", "torch/lib/libtorch_cuda.so")...)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// HasGPU reports whether the CUDA part of libtorch is there.
func (t *Torch) HasGPU() bool { return t.hasGPU() }

// hasGPU reports whether the CUDA part of libtorch is there.
func (t *Torch) hasGPU() bool {
	_, err := os.Stat(filepath.Join(t.Dir, "lib", "libtorch_cuda.so"))
	return err == nil
}
