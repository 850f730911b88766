package data

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// photos finds the rows' photos and makes the Source.
func (b *builder) photos(d *Dataset) (*Dataset, error) {
	refs := make([]int, len(b.rows))
	same := true
	for i := range b.rows {
		refs[i] = b.rows[i].ref
		same = same && refs[i] == i
	}
	if b.features != nil {
		d.Features = b.features
		if !same || b.features.N() != len(refs) {
			d.Features = b.features.Gather(refs)
		}
	}
	if b.source != nil {
		d.Source = b.source
		if !same {
			d.Source = &subsetSource{b.source, refs}
		}
		return d, nil
	}
	if b.noPhotos {
		return d, nil
	}
	dir, where := b.t.dir, b.places
	if b.opt.Images != "" {
		dir, where = b.opt.Images, append([]string{"."}, b.places...)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("data: cannot open the folder of the images: %w", err)
	}
	paths, missing, why := findPhotos(root, d.Images, where)
	root.Close()
	d.Info.Images = dir
	if len(missing) == d.N() && b.opt.Images == "" && errors.Is(why, fs.ErrNotExist) {
		d.Info.Images = "none"
		d.Info.Notes = append(d.Info.Notes, fmt.Sprintf("no photo was found (looked in %s): labels alone; name the folder of the images to train on them", strings.Join(where, ", ")))
		return d, nil
	}
	files, err := OpenFiles(dir, paths)
	if err != nil {
		return nil, err
	}
	d.Source = files
	if len(missing) == 0 {
		return d, nil
	}
	first := d.Images[missing[0]]
	if rule := b.opt.Missing; rule == MissingKeep || rule == MissingSkip && len(missing) < d.N() {
		rows := make([]Missing, len(missing))
		for i, r := range missing {
			rows[i].Row = r
		}
		return d.withoutMissing(rows, rule)
	}
	files.Close()
	r := b.rows[missing[0]]
	what := "does not exist below " + dir
	if !errors.Is(why, fs.ErrNotExist) {
		what = "cannot be reached below " + dir + " (" + reason(why) + ")"
	}
	more := ""
	if len(missing) > 1 {
		more = fmt.Sprintf("; %d more of %d are missing", len(missing)-1, d.N())
	}
	return nil, formatError(or(r.file, b.file), r.line, "%q %s%s: put the file there, name the folder of the images, or leave such rows out (missing: skip)", first, what, more)
}

// findPhotos looks for every name in the folders, with its own path and, where no two names would then be equal, without. It returns the paths below
// root, the rows that are nowhere, and why the first of them is not.
func findPhotos(root *os.Root, names, folders []string) (paths []string, missing []int, why error) {
	if len(folders) == 0 {
		folders = []string{"."}
	}
	bases := make(map[string]bool, len(names))
	unique := true
	for _, n := range names {
		base := path.Base(n)
		unique = unique && !bases[base]
		bases[base] = true
	}
	candidates := 2 * len(folders)
	if !unique {
		candidates = len(folders)
	}
	at := func(k int, name string) string {
		if k >= len(folders) {
			name = path.Base(name)
		}
		return path.Join(folders[k%len(folders)], name)
	}
	paths = make([]string, len(names))
	look := photoFinder{root: root, seen: map[string]map[string]fs.FileMode{}}
	last := 0
	for i, n := range names {
		var first error
		found := false
		for j := range candidates {
			k := (last + j) % candidates
			p := at(k, n)
			err := look.find(p)
			if err == nil {
				paths[i], last, found = p, k, true
				break
			}
			if first == nil || !errors.Is(err, fs.ErrNotExist) {
				first = err
			}
		}
		if !found {
			if missing == nil {
				why = first
			}
			missing = append(missing, i)
			paths[i] = at(0, n)
		}
	}
	return paths, missing, why
}

// photoFinder lists each folder once: asking for every file is many times slower.
type photoFinder struct {
	root *os.Root
	seen map[string]map[string]fs.FileMode
}

// find returns nil where p is a file inside the root.
func (f *photoFinder) find(p string) error {
	dir, base := path.Split(p)
	names, ok := f.seen[dir]
	if !ok {
		if d, err := f.root.Open(filepath.FromSlash(path.Clean(or(dir, ".")))); err == nil {
			names = map[string]fs.FileMode{}
			for {
				some, err := d.ReadDir(4096)
				for _, e := range some {
					names[e.Name()] = e.Type()
				}
				if err == io.EOF {
					break
				}
				if err != nil {
					names = nil
					break
				}
			}
			d.Close()
		} else if errors.Is(err, fs.ErrNotExist) {
			names = map[string]fs.FileMode{}
		}
		f.seen[dir] = names
	}
	if names != nil {
		mode, ok := names[base]
		switch {
		case !ok:
			return fs.ErrNotExist
		case mode.IsRegular():
			return nil
		}
	}
	st, err := f.root.Stat(filepath.FromSlash(p)) // a link, or a folder that cannot be listed
	if err == nil && st.IsDir() {
		return fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil // reading it will say so
	}
	return err
}
