package native

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Options of [Setup].
type Options struct {
	GPU   bool // for use on a GPU: also fetch the CUDA part of libtorch, and CUDA as below
	CUDA  bool // also fetch a CUDA compiler and build the CUDA libraries; needs no GPU
	Force bool // fetch and build again even when everything is there
	Jobs  int  // compilers at once; 0: one per processor, fewer where memory is short
	Quiet bool // print nothing; errors are returned as always
}

// Result is what a set-up ended with.
type Result struct {
	Torch   *Torch
	LibDir  string   // folder of our libraries
	Libs    []string // their absolute paths
	Fetched bool     // something was downloaded
	Built   bool     // something was compiled
}

// Setup makes everything ready that the packages of this module load: it takes libtorch from LIBTORCH, the cache, an
// importable Python torch of the supported version, or else downloads it; and builds the C++ libraries of exactly this
// program's sources. What is already there is left alone. It prints to w what it takes and does, with sizes and
// progress.
//
// Set-ups of several processes wait for each other while one downloads, and while one builds the same sources. When ctx
// ends, the programs it started are killed and nothing half-done is left in use. Errors are one sentence that names the
// next command.
func Setup(ctx context.Context, w io.Writer, o Options) (*Result, error) {
	l, err := embeddedLock()
	if err != nil {
		return nil, err
	}
	return setup(ctx, w, o, l)
}

func setup(ctx context.Context, w io.Writer, o Options, l *lock) (*Result, error) {
	if o.Quiet {
		w = io.Discard
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("cache folder: %w; set GOSPML_CACHE to a folder that you may write", err)
	}
	if err := checkNative(); err != nil {
		return nil, err
	}
	res := &Result{}
	if res.LibDir, err = LibDir(); err != nil {
		return nil, err
	}
	o.CUDA = (o.CUDA || o.GPU) && len(CUDALibraries()) > 0
	want := Libraries()
	if o.CUDA {
		want = append(want, CUDALibraries()...)
	}
	t, err := prepare(ctx, w, o, l, cache, want, res)
	if err != nil {
		return nil, err
	}
	if t != nil {
		checkout, err := usableCheckout(w)
		if err != nil {
			return nil, err
		}
		b := builder{tools: t, torch: res.Torch, checkout: checkout, jobs: o.Jobs, fresh: o.Force, libraries: want}
		if o.CUDA {
			b.nvcc = filepath.Join(cache, l.Dirs[setNVCC], nvccPath)
		}
		if res.Built, err = b.build(ctx, w, res.LibDir); err != nil {
			return nil, err
		}
	}
	if err := noteSums(res.LibDir, want, res.Built); err != nil {
		return nil, fmt.Errorf("noting the hashes of the libraries: %w", err)
	}
	for _, name := range want {
		res.Libs = append(res.Libs, filepath.Join(res.LibDir, name))
	}
	fmt.Fprintf(w, "libraries: %s\n", res.LibDir)
	if d := os.Getenv("GOSPML_LIB"); d != "" && d != res.LibDir {
		fmt.Fprintf(w, "note: GOSPML_LIB=%s is set, so programs take the libraries there instead\n", d)
	}
	return res, nil
}

// prepare fetches what is missing, while no other set-up does, and returns the tools where there is something to build.
func prepare(ctx context.Context, w io.Writer, o Options, l *lock, cache string, want []string, res *Result) (t *tools, err error) {
	unlock, err := lockFile(ctx, w, filepath.Join(cache, "setup.lock"))
	if err != nil {
		return nil, fmt.Errorf("cache folder: %w; set GOSPML_CACHE to a folder that you may write", err)
	}
	defer unlock()
	if err := removeUnfinished(cache); err != nil {
		return nil, fmt.Errorf("cleaning up after an earlier set-up: %w", err)
	}
	if err := mendCache(w, l, cache, res.LibDir); err != nil {
		return nil, fmt.Errorf("mending the cache folder: %w", err)
	}
	// What is missing for the build is said before half a gigabyte is downloaded.
	if o.Force || !installed(res.LibDir, want) {
		if t, err = findTools(ctx, w, l, cache); err != nil {
			return nil, err
		}
	}
	if res.Torch, res.Fetched, err = getTorch(ctx, w, l, cache, o); err != nil {
		return nil, err
	}
	if err := l.noteSums(cache, res.Fetched); err != nil {
		return nil, fmt.Errorf("noting the hashes of libtorch: %w", err)
	}
	return t, nil
}

// mendCache removes what is damaged, so that it is installed again, and names a cache that others may write.
func mendCache(w io.Writer, l *lock, cache, libDir string) error {
	folders := map[string][]string{libDir: append(Libraries(), CUDALibraries()...)}
	for set, dir := range l.Dirs {
		dir = filepath.Join(cache, dir)
		folders[dir] = append(folders[dir], slices.Collect(maps.Keys(l.files(set)))...)
	}
	dirs := slices.Sorted(maps.Keys(folders))
	for _, dir := range dirs {
		if err := removeDamaged(w, dir, folders[dir]); err != nil {
			return err
		}
	}
	for _, err := range checkOwners(cache, dirs) {
		fmt.Fprintf(w, "warning: %v\n", err)
	}
	return nil
}

// noteSums notes the hashes of the sets that are complete.
func (l *lock) noteSums(cache string, isNew bool) error {
	for _, set := range slices.Sorted(maps.Keys(l.Dirs)) {
		if dir := filepath.Join(cache, l.Dirs[set]); l.complete(dir, set) {
			if err := noteSums(dir, slices.Sorted(maps.Keys(l.files(set))), isNew); err != nil {
				return err
			}
		}
	}
	return nil
}

// getTorch goes through the search order and downloads where it ends. It prints what was taken.
func getTorch(ctx context.Context, w io.Writer, l *lock, cache string, o Options) (t *Torch, fetched bool, err error) {
	defer func() {
		if err == nil {
			fmt.Fprintf(w, "libtorch: %s (%s, from %s)\n", t.Dir, t.Version(), t.Source)
		}
	}()
	if os.Getenv("LIBTORCH") != "" {
		if t, err = torchFromEnv(); err == nil {
			err = checkTorch(t, o.GPU)
		}
		if err != nil {
			return nil, false, fmt.Errorf("%w: correct LIBTORCH, or unset it to have libtorch downloaded", err)
		}
	} else if !l.complete(filepath.Join(cache, l.Dirs[setCPU]), setCPU) {
		if t, err = installedPython(ctx, w, cache, o.GPU); err != nil {
			return nil, false, err
		}
	}
	var sets []string
	if t == nil {
		sets = append(sets, setCPU)
	}
	if o.GPU && t == nil {
		sets = append(sets, setGPU)
	}
	if o.GPU || o.CUDA {
		sets = append(sets, setNVCC)
	}
	if fetched, err = fetchSets(ctx, w, l, cache, sets, o.Force); err != nil {
		return nil, false, err
	}
	if t == nil {
		t = torchFromCache(cache)
	}
	return t, fetched, nil
}

// checkTorch says why a libtorch that somebody else installed cannot be used.
func checkTorch(t *Torch, gpu bool) error {
	switch {
	case !t.supported() && t.Version() != "":
		return fmt.Errorf("%s is libtorch %s, not %s", t.Dir, t.Version(), TorchVersion)
	case !t.headers():
		return fmt.Errorf("%s has no include folder, which building needs", t.Dir)
	case gpu && !t.hasGPU():
		return fmt.Errorf("%s has no lib/libtorch_cuda.so, which --gpu needs", t.Dir)
	}
	return nil
}

// findSpec prints the folder of the torch package without importing it, which would take seconds.
const findSpec = `import importlib.util as u
s = u.find_spec("torch")
print(next(iter(s.submodule_search_locations or []), "") if s else "")`

// installedPython returns the torch of a Python installation, if one can be used: the recorded one, else that of the
// python3 on the PATH, which it records for FindTorch.
func installedPython(ctx context.Context, w io.Writer, cache string, gpu bool) (*Torch, error) {
	if t := recordedPython(cache); t != nil && checkTorch(t, gpu) == nil {
		return t, nil
	}
	t := pythonTorch(ctx)
	if t == nil {
		return nil, nil
	}
	if err := checkTorch(t, gpu); err != nil {
		fmt.Fprintf(w, "Python's torch is not used: %v\n", err)
		return nil, nil
	}
	if err := os.WriteFile(pythonPointer(cache), []byte(t.Dir+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("recording Python's torch: %w", err)
	}
	return t, nil
}

// pythonTorch returns the torch that the python3 on the PATH would import.
func pythonTorch(ctx context.Context) *Torch {
	dir, err := output(ctx, "python3", "-c", findSpec)
	if err != nil || dir == "" || !hasTorch(dir) {
		return nil
	}
	return &Torch{Dir: dir, Source: "python"}
}

// usableCheckout returns the checkout around the working folder if this program was compiled in it and its C++ sources
// are those in this program, else "".
func usableCheckout(w io.Writer) (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	checkout := findCheckout(wd)
	if checkout == "" || checkout != builtFrom() {
		return "", nil
	}
	differs, err := differentSource(checkout)
	if err != nil {
		return "", err
	}
	if differs != "" {
		fmt.Fprintf(w, "%s in %s is not what this program was built with: building the program's own sources; "+
			"for the checkout's run `go run ./cmd/spml setup`\n", differs, checkout)
		return "", nil
	}
	return checkout, nil
}
