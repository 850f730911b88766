package native

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// opsFlags compile a library of operators as ours are: against libtorch_cpu alone, with OpenMP, without which
// at::parallel_for is serial.
var opsFlags = []string{"-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fopenmp"}

// CompileOps compiles C++ sources that register operators (TORCH_LIBRARY) against the libtorch that programs use, and
// returns the path of the library for torch.LoadOps. sources maps file names to texts: files ending in .cpp, .cc or
// .cxx are compiled, others (headers) lie beside them.
//
// The library is kept in the cache folder under a hash of everything that decides what it is (sources, flags, compiler,
// libtorch), so that a second call only looks for it. Processes and goroutines that compile the same at once do so
// twice and agree on one file. The error holds the compiler's first error and where all its words are.
func CompileOps(ctx context.Context, name string, sources map[string][]byte, flags ...string) (string, error) {
	if !filepath.IsLocal(name) || strings.ContainsRune(name, '/') {
		return "", fmt.Errorf("compiling operators: %q is not a plain name", name)
	}
	t, err := FindTorch()
	if err != nil {
		return "", err
	}
	if !t.headers() {
		return "", fmt.Errorf("compiling operators: %s has no include folder; run `%s`", t.Dir, SetupCommand)
	}
	cxx := compiler()
	if cxx == "" {
		return "", fmt.Errorf("compiling operators needs a C++ compiler, which is not installed: run `%s`", aptCommand("g++"))
	}
	cxxVersion, err := output(ctx, cxx, "--version")
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", cxx, err)
	}
	all := append(append([]string{}, opsFlags...), flags...)
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q\n", name, cxxVersion, t.Version(), t.Dir, all)
	var compiled []string
	for _, file := range slices.Sorted(maps.Keys(sources)) {
		if !filepath.IsLocal(file) || strings.ContainsRune(file, '/') {
			return "", fmt.Errorf("compiling operators: %q is not a plain file name", file)
		}
		fmt.Fprintf(h, "%s %d\n", file, len(sources[file]))
		h.Write(sources[file])
		switch filepath.Ext(file) {
		case ".cpp", ".cc", ".cxx":
			compiled = append(compiled, file)
		}
	}
	if len(compiled) == 0 {
		return "", errors.New("compiling operators: there is no .cpp file among the sources")
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "ops")
	library := filepath.Join(dir, name+"-"+hex.EncodeToString(h.Sum(nil))[:16]+".so")
	if _, err := os.Stat(library); err == nil {
		return library, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cache folder: %w; set GOSPML_CACHE to a folder that you may write", err)
	}
	work, err := os.MkdirTemp(dir, name+tempMark)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	for file, text := range sources {
		if err := os.WriteFile(filepath.Join(work, file), text, 0o600); err != nil {
			return "", err
		}
	}
	return library, compileOps(ctx, cxx, t, work, library, compiled, all)
}

func compileOps(ctx context.Context, cxx string, t *Torch, work, library string, files, flags []string) error {
	log, err := createLog(filepath.Join(work, buildLog))
	if err != nil {
		return err
	}
	defer log.Close()
	include, lib := filepath.Join(t.Dir, "include"), filepath.Join(t.Dir, "lib")
	args := append(append([]string{}, flags...), "-isystem", include, "-isystem", filepath.Join(include, "torch", "csrc", "api", "include"))
	args = append(args, files...)
	// What libtorch_cpu itself needs (cupti, cudart) is opened by the loader, hence allow-shlib-undefined.
	args = append(args, "-o", "library.so", "-L"+lib, "-l:libtorch_cpu.so", "-l:libc10.so", "-l:libgomp.so.1", "-Wl,--no-undefined", "-Wl,--allow-shlib-undefined")
	cmd := command(context.Background(), work, cxx, args...) // run stops it
	cmd.Stdout, cmd.Stderr = log, log
	if err := run(ctx, cmd); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("compiling operators: %w", ctx.Err())
		}
		return fmt.Errorf("compiling operators failed: %s; all output is in %s", firstError(log.Name(), err), keepLog(log.Name()))
	}
	return os.Rename(filepath.Join(work, "library.so"), library)
}
