package native

import (
	"debug/elf"
	"path/filepath"
	"slices"
)

// cxxFolder is where a bundle keeps the C++ runtime of the system that wrote it. It wants that system's glibc, which is
// often newer than all else in the bundle, so it is taken only where the system has no libstdc++ that is new enough.
const cxxFolder = "lib/cxx"

// wantedCxx is the version that our libraries import, of GCC 11.
const wantedCxx = "GLIBCXX_3.4.29"

// systemFolders are where the loader of the usual distributions finds libstdc++.
var systemFolders = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}

// cxxRuntime lists the C++ runtime that a bundle opens: the first libstdc++ of the system if it is new enough, else the
// bundle's.
func cxxRuntime(own string, system []string) []string {
	const cxx = "libstdc++.so.6"
	for _, dir := range system {
		path := filepath.Join(dir, cxx)
		if !exists(path) {
			continue
		}
		if defines(path, wantedCxx) {
			return []string{path}
		}
		break
	}
	var out []string
	for _, name := range []string{"libgcc_s.so.1", cxx} {
		if p := filepath.Join(own, name); exists(p) {
			out = append(out, p)
		}
	}
	return out
}

// defines reports whether a library defines a version of symbols.
func defines(path, version string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	versions, err := f.DynamicVersions()
	return err == nil && slices.ContainsFunc(versions, func(v elf.DynamicVersion) bool { return v.Name == version })
}
