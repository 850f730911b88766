package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// known maps tests that another version is expected to fail to the reason: the lines "package test<tab>reason" of all.known and of the version's own
// file. An entry stands for the subtests too.
func known(version string) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range []string{"all", "libtorch-" + version} {
		path := filepath.Join(folder, name+".known")
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && name != "all" {
			continue
		}
		if err != nil {
			return nil, err
		}
		for i, line := range strings.Split(string(text), "\n") {
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			test, reason, ok := strings.Cut(line, "\t")
			if !ok || reason == "" {
				return nil, fmt.Errorf("%s:%d: want a package, a test, a tab and the reason", path, i+1)
			}
			out[test] = reason
		}
	}
	return out, nil
}

// judge splits what failed into what was expected and what was not, and names the entries that did not fail. A test that failed by its subtests, and
// a package that failed by its tests, are neither.
func judge(failed []string, expected map[string]string) (asKnown, unexpected, stale []string) {
	used := map[string]bool{}
	for _, name := range failed {
		leaf := true
		for _, other := range failed {
			leaf = leaf && !strings.HasPrefix(other, name+"/") && !strings.HasPrefix(other, name+" ")
		}
		if !leaf {
			continue
		}
		entry := name
		for expected[entry] == "" && strings.Contains(entry, "/") && strings.LastIndex(entry, "/") > strings.Index(entry, " ") {
			entry = entry[:strings.LastIndex(entry, "/")]
		}
		if expected[entry] == "" {
			unexpected = append(unexpected, name)
			continue
		}
		used[entry] = true
		asKnown = append(asKnown, name+": "+expected[entry])
	}
	for entry := range expected {
		if !used[entry] {
			stale = append(stale, entry)
		}
	}
	return asKnown, unexpected, stale
}
