package data

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
)

// CustomFormat is a way of storing data sets that is not this package's.
type CustomFormat struct {
	Name  string // as in Options.Format
	Title string
	Holds string // the files, in a line
	// Sniff returns how sure it is that a folder, or one file in it (else ""), is of this format: 0 not at all, else the
	// more the larger; our own formats give 1 to 100. It reads no more than it must.
	Sniff func(folder fs.FS, file string) int
	// Open reads the data set: a folder, or one file in it (else ""). Observed labels that the files lack are the reader's
	// to draw (Dataset.WithSinglePositives).
	Open func(folder, file string, o Options) (*Dataset, error)
}

var added struct {
	sync.RWMutex
	formats []Format
}

// RegisterFormat adds a format, which [Open], [Detect] and [Formats] then know. A name that is taken is an error. Call
// it before data sets are opened.
func RegisterFormat(c CustomFormat) error {
	if c.Name == "" || c.Sniff == nil || c.Open == nil {
		return fmt.Errorf("data: a format needs a name, Sniff and Open")
	}
	if slices.ContainsFunc(formats(), func(f Format) bool { return f.Name == c.Name }) {
		return fmt.Errorf("data: the format %q is taken", c.Name)
	}
	added.Lock()
	defer added.Unlock()
	added.formats = append(added.formats, Format{
		Name: c.Name, Title: c.Title, Holds: c.Holds,
		sniff: func(t *tree) int { return c.Sniff(t.root.FS(), t.file) },
		open: func(t *tree, o Options) (*Dataset, error) {
			d, err := c.Open(filepath.Clean(t.dir), t.file, o)
			if err == nil && (len(d.Images) == 0 || len(d.Classes) == 0 || len(d.Split) != len(d.Images)) {
				err = formatError(t.name, 0, "the format %s gave a data set of %d images, %d classes and %d parts", c.Name, len(d.Images), len(d.Classes), len(d.Split))
			}
			return d, err
		},
	})
	return nil
}
