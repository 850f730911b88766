package native

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// tempMark is in the name of every folder that is not finished; the next set-up removes them.
const tempMark = ".unfinished-"

// fetchSets downloads the sets that are not complete in the cache folder, or all of them with force, and installs them
// there. It reports whether there was anything to download. The caller holds setup.lock.
func fetchSets(ctx context.Context, w io.Writer, l *lock, cache string, sets []string, force bool) (bool, error) {
	groups := l.groups(cache, sets, force)
	for _, group := range groups {
		if err := fetchGroup(ctx, w, l, cache, group); err != nil {
			return false, err
		}
	}
	return len(groups) > 0, nil
}

// groups returns the sets to fetch, those of one folder together: they share wheels and one installation.
func (l *lock) groups(cache string, sets []string, force bool) [][]string {
	var out [][]string
	at := map[string]int{}
	for _, s := range sets {
		dir := l.Dirs[s]
		if !force && l.complete(filepath.Join(cache, dir), s) {
			continue
		}
		i, ok := at[dir]
		if !ok {
			i = len(out)
			at[dir], out = i, append(out, nil)
		}
		out[i] = append(out[i], s)
	}
	return out
}

func fetchGroup(ctx context.Context, w io.Writer, l *lock, cache string, sets []string) error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("libtorch %s is fetched for linux/amd64 only, this is %s/%s: set LIBTORCH to a folder with it",
			TorchVersion, runtime.GOOS, runtime.GOARCH)
	}
	pip, err := findPip(ctx)
	if err != nil {
		return err
	}
	download, unpacked, largest := l.sizes(sets...)
	if err := checkSpace(cache, unpacked+2*largest); err != nil { // pip copies the finished wheel out of its temporary folder
		return err
	}
	start := time.Now()
	final := filepath.Join(cache, l.Dirs[sets[0]])
	wheels := l.wheels(sets...)
	fmt.Fprintf(w, "fetching %s (%s): %d wheels, %s to download, %s on disk, into %s\n",
		filepath.Base(final), strings.Join(sets, " and "), len(wheels), mb(download), mb(unpacked), final)
	tmp, err := os.MkdirTemp(cache, filepath.Base(final)+tempMark)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	tree := filepath.Join(tmp, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	for i, wh := range wheels {
		fmt.Fprintf(w, "  [%d/%d] %s %s, %s\n", i+1, len(wheels), wh.Name, wh.Version, mb(wh.Size))
		if err := fetchWheel(ctx, w, pip, wh, tmp, tree, sets); err != nil {
			return err
		}
	}
	if err := syncDisk(tmp); err != nil {
		return fmt.Errorf("writing %s: %w", final, err)
	}
	if err := l.install(tree, final, sets); err != nil {
		return fmt.Errorf("installing %s: %w", final, err)
	}
	fmt.Fprintf(w, "fetched in %.0f s\n", time.Since(start).Seconds())
	return syncDisk(cache)
}

// fetchWheel downloads, checks and unpacks one wheel into tree and deletes it.
func fetchWheel(ctx context.Context, w io.Writer, pip []string, wh *wheel, tmp, tree string, sets []string) error {
	dir := filepath.Join(tmp, "download")
	defer os.RemoveAll(dir)
	path, err := downloadWheel(ctx, w, pip, wh, dir)
	if err != nil {
		return err
	}
	if err := verifyWheel(path, wh); err != nil {
		return err
	}
	var own []string
	for _, s := range sets {
		if _, ok := wh.Keep[s]; ok {
			own = append(own, s)
		}
	}
	return unpackWheel(path, wh, tree, own)
}

// checkSpace refuses to start what the disk cannot hold.
func checkSpace(dir string, need int64) error {
	free, err := freeBytes(dir)
	if err != nil {
		return fmt.Errorf("free space of %s: %w", dir, err)
	}
	if need += 100e6; free < need {
		return fmt.Errorf("%s needs %s of free disk and has %s: free some, or set GOSPML_CACHE to a folder on a larger disk", dir, mb(need), mb(free))
	}
	return nil
}

// install moves a finished tree to its place. A new folder appears by one rename. An existing one gets the files one
// by one, the named files of the lock last, so that `complete` says yes only when everything is there.
func (l *lock) install(tree, final string, sets []string) error {
	if err := os.Rename(tree, final); err == nil {
		return nil
	}
	if err := forgetSums(final); err != nil { // of what is replaced
		return err
	}
	named := l.files(sets...)
	var first, last []string
	err := filepath.WalkDir(tree, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(tree, p)
		if _, ok := named[filepath.ToSlash(rel)]; ok {
			last = append(last, rel)
		} else {
			first = append(first, rel)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, rel := range append(first, last...) {
		to := filepath.Join(final, rel)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(tree, rel), to); err != nil {
			return err
		}
	}
	return nil
}

// removeUnfinished deletes what killed set-ups left behind. The caller holds setup.lock.
func removeUnfinished(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), tempMark) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
