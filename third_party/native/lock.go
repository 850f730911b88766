package native

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

//go:embed libtorch.lock
var lockText []byte

// The sets of files that can be fetched.
const (
	setCPU   = "cpu"
	setGPU   = "gpu"
	setNVCC  = "nvcc"
	setTools = "tools" // CMake and ninja, for machines without them

	nvccPath = "nvidia/cu13/bin/nvcc" // in the folder of the set
)

// lock is libtorch.lock: exactly which files make up each set, and the wheels that they come from.
type lock struct {
	Torch  string            `json:"torch"` // libtorch's version
	Dirs   map[string]string `json:"dirs"`  // set -> its folder below the cache folder
	Wheels []wheel           `json:"wheels"`
}

// wheel is one locked package file.
type wheel struct {
	Name    string          `json:"name"`
	Version string          `json:"version"`
	File    string          `json:"file"`
	SHA256  string          `json:"sha256"`
	Size    int64           `json:"size"` // of the wheel, in bytes
	Keep    map[string]keep `json:"keep"` // set -> the members that it needs
}

// keep says which members of a wheel are unpacked for one set.
type keep struct {
	Files    map[string]int64 `json:"files"` // name -> size in bytes; all must be there
	Trees    []string         `json:"trees"` // prefixes ending in "/"
	Unpacked int64            `json:"unpacked"`
}

// embeddedLock is the lock of this program.
var embeddedLock = sync.OnceValues(func() (*lock, error) { return parseLock(lockText) })

var hexSum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// parseLock reads a lock and refuses one that a fetch could not rely on.
func parseLock(text []byte) (*lock, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var l lock
	if err := d.Decode(&l); err != nil {
		return nil, fmt.Errorf("libtorch.lock: %w", err)
	}
	if l.Torch == "" || len(l.Dirs) == 0 || len(l.Wheels) == 0 {
		return nil, fmt.Errorf("libtorch.lock: torch, dirs and wheels must be given")
	}
	for set, dir := range l.Dirs {
		if !filepath.IsLocal(dir) || strings.ContainsRune(dir, '/') {
			return nil, fmt.Errorf("libtorch.lock: folder %q of set %s is not a plain name", dir, set)
		}
	}
	for i := range l.Wheels {
		if err := l.Wheels[i].check(&l); err != nil {
			return nil, fmt.Errorf("libtorch.lock: wheel %q: %w", l.Wheels[i].Name, err)
		}
	}
	return &l, nil
}

func (w *wheel) check(l *lock) error {
	switch {
	case w.Name == "" || w.Version == "":
		return fmt.Errorf("name and version must be given")
	case !hexSum.MatchString(w.SHA256):
		return fmt.Errorf("sha256 %q is not 64 hexadecimal digits", w.SHA256)
	case w.Size <= 0:
		return fmt.Errorf("size %d is not positive", w.Size)
	case len(w.Keep) == 0:
		return fmt.Errorf("keeps nothing")
	}
	if _, err := w.tags(); err != nil {
		return err
	}
	for set, k := range w.Keep {
		if l.Dirs[set] == "" {
			return fmt.Errorf("set %q has no folder", set)
		}
		for f := range k.Files {
			if !filepath.IsLocal(f) {
				return fmt.Errorf("member %q leaves the folder", f)
			}
		}
		for _, t := range k.Trees {
			if !filepath.IsLocal(t) || !strings.HasSuffix(t, "/") {
				return fmt.Errorf("tree %q must be a folder and end in /", t)
			}
		}
	}
	return nil
}

// wheelTags are the compatibility tags in a wheel's file name (PEP 427).
type wheelTags struct {
	abi       string
	platforms []string
}

func (w *wheel) tags() (wheelTags, error) {
	parts := strings.Split(strings.TrimSuffix(w.File, ".whl"), "-")
	n := len(parts) // name, version, perhaps a build number, then the tags
	if !strings.HasSuffix(w.File, ".whl") || n != 5 && n != 6 || filepath.Base(w.File) != w.File {
		return wheelTags{}, fmt.Errorf("file %q is not a wheel's name", w.File)
	}
	return wheelTags{abi: parts[n-2], platforms: strings.Split(parts[n-1], ".")}, nil
}

// keeps reports whether the member is kept for any of the sets.
func (w *wheel) keeps(member string, sets []string) bool {
	for _, s := range sets {
		k, ok := w.Keep[s]
		if !ok {
			continue
		}
		if _, ok := k.Files[member]; ok {
			return true
		}
		for _, t := range k.Trees {
			if strings.HasPrefix(member, t) {
				return true
			}
		}
	}
	return false
}

// files returns every named file of the sets with its size.
func (l *lock) files(sets ...string) map[string]int64 {
	out := map[string]int64{}
	for i := range l.Wheels {
		for _, s := range sets {
			for f, n := range l.Wheels[i].Keep[s].Files {
				out[f] = n
			}
		}
	}
	return out
}

// program is the named file of a set with this base name, in the set's folder below the cache folder; "" where the lock
// has none.
func (l *lock) program(cache, set, name string) string {
	for f := range l.files(set) {
		if path.Base(f) == name {
			return filepath.Join(cache, l.Dirs[set], f)
		}
	}
	return ""
}

// wheels returns the wheels that the sets need.
func (l *lock) wheels(sets ...string) []*wheel {
	var out []*wheel
	for i := range l.Wheels {
		for _, s := range sets {
			if _, ok := l.Wheels[i].Keep[s]; ok {
				out = append(out, &l.Wheels[i])
				break
			}
		}
	}
	return out
}

// sizes returns the bytes to download, the bytes on disk afterwards and the largest single wheel.
func (l *lock) sizes(sets ...string) (download, unpacked, largest int64) {
	for _, w := range l.wheels(sets...) {
		download += w.Size
		largest = max(largest, w.Size)
		for _, s := range sets {
			unpacked += w.Keep[s].Unpacked
		}
	}
	return download, unpacked, largest
}

// complete reports whether every named file of the set is in dir with its size. Trees are not looked at: a set is
// installed with its named files last.
func (l *lock) complete(dir, set string) bool {
	for f, n := range l.files(set) {
		st, err := os.Stat(filepath.Join(dir, f))
		if err != nil || st.Size() != n {
			return false
		}
	}
	return true
}
