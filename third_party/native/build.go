package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	keptBuilds     = 8              // newest folders below lib/ that a set-up leaves
	usedBuilds     = 24 * time.Hour // and those that a program used so recently
	bytesPerJob    = 1e9            // memory that one compiler needs for a file that includes libtorch's headers
	buildLog       = "setup.log"
	failedLog      = "setup-failed.log" // in the cache folder
	buildLockFile  = "setup.lock"
	cmakeCacheFile = "CMakeCache.txt"
)

// installed reports whether every one of the libraries is in dir.
func installed(dir string, libraries []string) bool {
	for _, name := range libraries {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Size() == 0 {
			return false
		}
	}
	return true
}

// builder is what a build needs to know.
type builder struct {
	tools     *tools
	torch     *Torch
	checkout  string // "" = the embedded sources
	nvcc      string // the CUDA compiler; "" = no CUDA libraries
	libraries []string
	jobs      int
	fresh     bool
}

// build compiles the libraries and installs them into lib. Inside a checkout with the same sources it builds in
// <checkout>/build, where a rebuild compiles only what changed; else beside lib, from the embedded sources. It waits
// for a set-up that builds the same, and takes what that one has built.
func (b *builder) build(ctx context.Context, w io.Writer, lib string) (built bool, err error) {
	if err := os.MkdirAll(filepath.Dir(lib), 0o755); err != nil {
		return false, err
	}
	unlockKey, err := lockFile(ctx, w, lib+".lock")
	if err != nil {
		return false, err
	}
	defer unlockKey()
	if !b.fresh && installed(lib, b.libraries) {
		return false, nil
	}
	src, dir := b.checkout, filepath.Join(b.checkout, "build")
	if src == "" {
		work := lib + tempMark + "build"
		if err := os.RemoveAll(work); err != nil { // of a killed set-up
			return false, err
		}
		defer os.RemoveAll(work)
		src, dir = filepath.Join(work, "src"), filepath.Join(work, "build")
		if err := extractSources(src); err != nil {
			return false, err
		}
	}
	return true, b.buildIn(ctx, w, src, dir, lib)
}

// buildIn builds the sources of a folder in another, which nobody else uses meanwhile.
func (b *builder) buildIn(ctx context.Context, w io.Writer, src, dir, lib string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	unlock, err := lockFile(ctx, w, filepath.Join(dir, buildLockFile))
	if err != nil {
		return err
	}
	defer unlock()
	if err := resetBuild(dir, src, b.tools.generator, b.fresh); err != nil {
		return err
	}
	if err := b.runCMake(ctx, w, src, dir); err != nil {
		return err
	}
	if err := installLibs(ctx, filepath.Join(dir, "lib"), lib, b.libraries); err != nil {
		return fmt.Errorf("installing the libraries: %w", err)
	}
	return pruneBuilds(filepath.Dir(lib))
}

// runCMake configures and builds; the programs' output goes to a log beside the objects.
func (b *builder) runCMake(ctx context.Context, w io.Writer, src, dir string) error {
	log, err := createLog(filepath.Join(dir, buildLog))
	if err != nil {
		return err
	}
	defer log.Close()
	t, jobs := b.tools, b.jobs
	if jobs <= 0 {
		jobs = defaultJobs()
	}
	// Sources in groups are half the compilers' work in all, but an edit of one then compiles its group.
	grouped := "ON"
	if os.Getenv("GOSPML_SINGLE") == "1" {
		grouped = "OFF"
	}
	start, cpu := time.Now(), time.Duration(0)
	sets := strings.Join(kernelSets(), ";")
	note := ""
	if nativeSet() != "" {
		note = fmt.Sprintf(", losses for %s alone because of GOSPML_NATIVE=1", sets)
	}
	fmt.Fprintf(w, "building %s in %s (%s, %d jobs%s)\n", strings.Join(b.libraries, ", "), dir, t.generator, jobs, note)
	configure := []string{"-S", src, "-B", dir, "-G", t.generator, "-DCMAKE_MAKE_PROGRAM=" + t.maker, "-DCMAKE_BUILD_TYPE=Release",
		"-DGOSPML_TORCH=" + b.torch.Dir, "-DGOSPML_NVCC=" + b.nvcc, "-DGOSPML_GROUPED=" + grouped, "-DGOSPML_SETS=" + sets}
	for _, args := range [][]string{configure, {"--build", dir, "--parallel", fmt.Sprint(jobs)}} {
		cmd := command(context.Background(), dir, t.cmake, args...) // run stops it
		cmd.Stdout, cmd.Stderr = log, log
		if err := run(ctx, cmd); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("building: %w", ctx.Err())
			}
			return fmt.Errorf("building the native libraries failed: %s; all output is in %s", firstError(log.Name(), err), keepLog(log.Name()))
		}
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() // of everything that it waited for
	}
	fmt.Fprintf(w, "built in %.0f s, %.0f s of all processors' time\n", time.Since(start).Seconds(), cpu.Seconds())
	return nil
}

// createLog makes a new file; a link that lies at its place is removed, not followed.
func createLog(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

// keepLog saves the log of a failed build whose folder is removed, in the cache folder, and returns where it is.
func keepLog(path string) string {
	if !strings.Contains(path, tempMark) {
		return path
	}
	cache, err := CacheDir()
	if err != nil {
		return path
	}
	to := filepath.Join(cache, failedLog)
	if os.Rename(path, to) != nil { // replaces a link, and does not follow it
		return path
	}
	return to
}

var buildError = regexp.MustCompile(`(?m)^.*\b(?:error:|fatal error:|undefined reference|Killed signal).*$|^CMake Error.*(?:\n\s*\S.*)?`)

// firstError is the first line of the log that says what went wrong.
func firstError(path string, err error) string {
	b, rerr := os.ReadFile(path)
	if rerr != nil {
		return err.Error()
	}
	if m := buildError.Find(b); m != nil {
		return strings.Join(strings.Fields(string(m)), " ")
	}
	return lastError(string(b))
}

// defaultJobs is one compiler per processor, fewer where memory would not do.
func defaultJobs() int {
	n := runtime.NumCPU()
	if m := availableMemory(); m > 0 {
		n = min(n, int(m/bytesPerJob))
	}
	return max(n, 1)
}

// resetBuild removes what CMake remembers when it was made for another source folder or generator, which CMake refuses,
// or when everything is to be built anew.
func resetBuild(dir, src, generator string, fresh bool) error {
	b, err := os.ReadFile(filepath.Join(dir, cmakeCacheFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	cached := string(b)
	if !fresh && strings.Contains(cached, "\nCMAKE_HOME_DIRECTORY:INTERNAL="+src+"\n") &&
		strings.Contains(cached, "\nCMAKE_GENERATOR:INTERNAL="+generator+"\n") {
		return nil
	}
	for _, name := range []string{cmakeCacheFile, "CMakeFiles", "lib", "data", "build.ninja", "Makefile"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// installLibs copies the libraries to their place, without symbols that only a debugger reads, each by a rename: a
// program that has the old file open keeps it.
func installLibs(ctx context.Context, from, to string, libraries []string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := removeUnfinished(to); err != nil {
		return err
	}
	if err := forgetSums(to); err != nil { // of what is replaced
		return err
	}
	for _, name := range libraries {
		tmp := filepath.Join(to, name+tempMark+fmt.Sprint(os.Getpid()))
		defer os.Remove(tmp)
		strip := command(context.Background(), to, "strip", "--strip-unneeded", "-o", tmp, filepath.Join(from, name))
		if out, err := combinedOutput(ctx, strip); err != nil {
			return fmt.Errorf("strip %s: %w: %s", name, err, lastError(out))
		}
		if err := syncDisk(to); err != nil {
			return err
		}
		if err := os.Rename(tmp, filepath.Join(to, name)); err != nil {
			return err
		}
	}
	now := time.Now()
	return os.Chtimes(to, now, now)
}

func combinedOutput(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var b strings.Builder
	cmd.Stdout, cmd.Stderr = &b, &b
	err := run(ctx, cmd)
	return b.String(), err
}

// pruneBuilds removes folders of built libraries, with their lock files: neither the newest nor those in use.
func pruneBuilds(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	type buildDir struct {
		path string
		when time.Time
	}
	var builds []buildDir
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && !strings.Contains(e.Name(), tempMark) {
			builds = append(builds, buildDir{filepath.Join(dir, e.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(builds, func(a, b buildDir) int { return b.when.Compare(a.when) })
	for _, b := range builds[min(keptBuilds, len(builds)):] {
		if time.Since(b.when) < usedBuilds {
			continue
		}
		if err := errors.Join(os.RemoveAll(b.path), os.RemoveAll(b.path+".lock")); err != nil {
			return err
		}
	}
	return nil
}
