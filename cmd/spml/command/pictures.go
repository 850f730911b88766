package command

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
)

// isPicture says whether a file's name ends as a picture's does.
func isPicture(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp":
		return true
	}
	return false
}

// picturesIn yields the photos that paths name; a folder stands for its pictures, in order of name, with those of the
// folders below it where deep. A path that cannot be looked at is yielded as a photo where missing, else it is an
// error; so is a folder without pictures.
func picturesIn(paths iter.Seq2[string, error], deep, missing bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for p, err := range paths {
			if err != nil {
				yield("", err)
				return
			}
			st, err := os.Stat(p)
			if err != nil && !missing {
				yield("", err)
				return
			}
			if err != nil || !st.IsDir() {
				if !yield(p, nil) {
					return
				}
				continue
			}
			found, unread, more := 0, 0, true
			err = filepath.WalkDir(p, func(file string, d fs.DirEntry, err error) error {
				switch {
				case err != nil:
					return err
				case d.IsDir() && file != p && !deep:
					return filepath.SkipDir
				case d.IsDir():
					return nil
				case !isPicture(file):
					if e := strings.ToLower(filepath.Ext(file)); e == ".heic" || e == ".heif" || e == ".avif" {
						unread++
					}
					return nil
				}
				found++
				if more = yield(file, nil); !more {
					return filepath.SkipAll
				}
				return nil
			})
			if err == nil && found == 0 {
				err = fmt.Errorf("%s holds no pictures", p)
				if unread > 0 {
					err = fmt.Errorf("%s holds no pictures but %d of HEIC or AVIF, which are not read: convert them to JPEG, for instance with ImageMagick", p, unread)
				}
			}
			if !more || err != nil && !yield("", err) {
				return
			}
		}
	}
}

// pathsOf yields paths as they are.
func pathsOf(paths []string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, p := range paths {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// namesOf yields the lines of r that are not empty.
func namesOf(what string, r io.Reader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s := bufio.NewScanner(r)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			if line := strings.TrimSuffix(s.Text(), "\r"); line != "" && !yield(line, nil) {
				return
			}
		}
		if err := s.Err(); err != nil {
			yield("", fmt.Errorf("reading names of photos from %s: %w", what, err))
		}
	}
}

// namesFrom yields the paths of the arguments, with those of the standard input in the place of -, then those of a
// list.
func namesFrom(args []string, list string, stdin io.Reader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, a := range args {
			names := pathsOf([]string{a})
			if a == "-" {
				names = namesOf("the standard input", stdin)
			}
			for p, err := range names {
				if !yield(p, err) {
					return
				}
			}
		}
		if list == "" {
			return
		}
		f, err := os.Open(list)
		if err != nil {
			yield("", err)
			return
		}
		defer f.Close()
		for p, err := range namesOf(list, f) {
			if !yield(p, err) {
				return
			}
		}
	}
}
