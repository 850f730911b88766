package native

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Bundle says what WriteBundle wrote.
type Bundle struct {
	Dir   string
	Files int
	Bytes int64
	GLIBC string // the oldest glibc that opens every file, such as "2.34", where the system has a libstdc++ of GCC 11 or later
}

// runtimeLibraries are what a system without a compiler or libjpeg-turbo lacks, and their folders in a bundle; glibc
// itself is never copied, because two of them in one process do not work.
var runtimeLibraries = map[string]string{"libgcc_s.so.1": cxxFolder, "libstdc++.so.6": cxxFolder, "libturbojpeg.so.0": "lib"}

// WriteBundle copies a program and every library that it opens at run time to a folder from which the program runs on
// any Linux of this architecture that has a new enough glibc: no root, no Python, no RPATH, no cache folder. The folder
// must not exist. Its layout is what FindTorch and FindLib look for beside the executable:
//
//	spml              the program
//	lib/              our libraries, libturbojpeg
//	lib/cxx/          libstdc++, libgcc_s, for systems that have none or older ones
//	libtorch/         the CPU part of libtorch and its licences
//
// The libraries must be open in this process: where the system's come from is read from the process's own memory map.
func WriteBundle(dir, program string) (*Bundle, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("%s exists already; name a new folder: %w", dir, fs.ErrExist)
		}
		return nil, err
	}
	b, err := fillBundle(dir, program)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir)) // made by us a moment ago
	}
	return b, nil
}

func fillBundle(dir, program string) (*Bundle, error) {
	files := map[string]string{filepath.Base(program): program}
	t, err := FindTorch()
	if err != nil {
		return nil, err
	}
	for _, from := range t.Preload() {
		to := filepath.Join("libtorch", "torch", "lib", filepath.Base(from))
		if filepath.Base(filepath.Dir(filepath.Dir(from))) == "cu13" {
			to = filepath.Join("libtorch", "nvidia", "cu13", "lib", filepath.Base(from))
		}
		if runtimeLibraries[filepath.Base(from)] == "" {
			files[to] = from
		}
	}
	if v := filepath.Join(t.Dir, "version.py"); exists(v) {
		files[filepath.Join("libtorch", "torch", "version.py")] = v
	}
	root := filepath.Dir(t.Dir)
	var licences []string
	for _, name := range []string{"torch", "nvidia_cuda_runtime", "nvidia_cuda_cupti"} { // a Python installation has many others
		found, err := filepath.Glob(filepath.Join(root, name+"-*.dist-info", "licenses"))
		if err != nil {
			return nil, err
		}
		licences = append(licences, found...)
	}
	for _, l := range licences {
		err := filepath.WalkDir(l, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			to, err := filepath.Rel(root, path)
			files[filepath.Join("libtorch", to)] = path
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for _, name := range Libraries() {
		path, err := FindLib(name)
		if err != nil {
			return nil, err
		}
		files[filepath.Join("lib", name)] = path
	}
	opened, err := openedLibraries()
	if err != nil {
		return nil, err
	}
	for name, folder := range runtimeLibraries {
		path := opened[name]
		if path == "" {
			return nil, fmt.Errorf("%w: %s is not open in this process; run `%s`", ErrNotFound, name, SetupCommand)
		}
		files[filepath.Join(folder, name)] = path
	}
	b := &Bundle{Dir: dir}
	var glibc []int
	for to, from := range files {
		n, err := copyFile(from, filepath.Join(dir, to))
		if err != nil {
			return nil, fmt.Errorf("copying %s into the bundle: %w", from, err)
		}
		b.Files, b.Bytes = b.Files+1, b.Bytes+n
		if filepath.Dir(to) == cxxFolder { // copied from this system, for others that lack them; often newer than all else
			continue
		}
		if v, err := wantsGLIBC(from); err == nil && slices.Compare(v, glibc) > 0 {
			glibc = v
		}
	}
	if len(glibc) > 0 {
		b.GLIBC = strings.Trim(strings.ReplaceAll(fmt.Sprint(glibc), " ", "."), "[]")
	}
	return b, nil
}

// copyFile copies contents and the permission to execute. The kernel shares the blocks where the file system can.
func copyFile(from, to string) (int64, error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return 0, err
	}
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return 0, err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644|st.Mode().Perm()&0o111)
	if err != nil {
		return 0, err
	}
	n, err := out.ReadFrom(in)
	return n, errors.Join(err, out.Close())
}

// openedLibraries maps the names of the shared libraries that are mapped into this process to their files: a link such
// as libstdc++.so.6 appears there under its target's name, so each file is asked for the name by which others need it.
func openedLibraries() (map[string]string, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string]string{}
	seen := map[string]bool{}
	s := bufio.NewScanner(f)
	for s.Scan() {
		_, path, ok := strings.Cut(s.Text(), "/")
		if path = "/" + path; !ok || seen[path] || !strings.Contains(filepath.Base(path), ".so") {
			continue
		}
		seen[path] = true
		e, err := elf.Open(path)
		if err != nil {
			continue // a mapped file that is no library
		}
		if name, err := e.DynString(elf.DT_SONAME); err == nil && len(name) > 0 {
			out[name[0]] = path
		}
		e.Close()
	}
	return out, s.Err()
}

// wantsGLIBC is the newest version of glibc's symbols that an ELF file imports, as numbers.
func wantsGLIBC(path string) ([]int, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return nil, err
	}
	var newest []int
	for _, s := range symbols {
		if v := versionOf(s.Version, "GLIBC_"); slices.Compare(v, newest) > 0 {
			newest = v
		}
	}
	return newest, nil
}

// versionOf gives the numbers of a symbol's version such as GLIBC_2.34 behind a prefix; nil where it has another
// prefix, or no numbers (GLIBC_PRIVATE).
func versionOf(text, prefix string) []int {
	text, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return nil
	}
	var v []int
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		v = append(v, n)
	}
	return v
}
