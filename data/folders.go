package data

import (
	"bufio"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// folderFormat is torchvision's ImageFolder: the folder's name is the label.
func folderFormat() Format {
	return Format{
		Name: "folders", Title: "Folders of images", Holds: "<class>/photo.jpg, or <part>/<class>/photo.jpg with train, val, test",
		sniff: func(t *tree) int {
			if t.file != "" {
				return 0
			}
			parts, classes := imageFolders(t)
			if len(parts) > 0 || len(classes) > 0 {
				return 10
			}
			return 0
		},
		open: openFolders,
	}
}

// imageFolders finds <part>/<class>/ or <class>/ with photos in them.
func imageFolders(t *tree) (parts map[string]string, classes []string) {
	parts = map[string]string{}
	for _, f := range t.folders(".") {
		part, isPart := partName(f)
		if isPart {
			for _, c := range t.folders(f) {
				if hasImage(t, path.Join(f, c)) {
					parts[f] = part
					break
				}
			}
		}
		if _, ok := parts[f]; !ok && hasImage(t, f) {
			classes = append(classes, f)
		}
	}
	return parts, classes
}

func hasImage(t *tree, dir string) bool {
	all, err := t.list(dir)
	return err == nil && slices.ContainsFunc(all, func(e fs.DirEntry) bool { return !e.IsDir() && isImageName(e.Name()) })
}

func openFolders(t *tree, o Options) (*Dataset, error) {
	parts, classes := imageFolders(t)
	b := newBuilder(t, o, t.name)
	b.places = []string{"."}
	if err := b.openClasses(); err != nil {
		return nil, err
	}
	full := o.Labels == LabelsFull
	read := func(prefix string, split Split, placed bool) error {
		for _, class := range t.folders(prefix) {
			dir := path.Join(prefix, class)
			if !hasImage(t, dir) {
				continue
			}
			c, err := b.class(class, dir, 0)
			if err != nil {
				return err
			}
			all, err := t.list(dir)
			if err != nil {
				return err
			}
			for _, e := range all {
				if e.IsDir() || !isImageName(e.Name()) {
					continue
				}
				r := row{name: path.Join(dir, e.Name()), file: dir, split: split, placed: placed, ref: len(b.rows)}
				if r.complete, r.observed = full, !full; c >= 0 && full {
					r.positive = []int32{c}
				} else if c >= 0 {
					r.marks = []mark{{c, 1}}
				}
				if err := b.add(r); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if len(parts) > 0 && len(classes) == 0 {
		have := map[string]bool{}
		for _, p := range parts {
			have[p] = true
		}
		to, note := partSplits(have)
		if note != "" {
			b.note("%s", note)
		}
		for _, want := range []string{"train", "val", "test"} {
			for _, f := range t.folders(".") {
				if parts[f] == want {
					if err := read(f, to[want], true); err != nil {
						return nil, err
					}
				}
			}
		}
	} else if err := read(".", Train, false); err != nil {
		return nil, err
	}
	b.labelsFrom, b.obsFrom, b.splitFrom = "the names of the folders", "the names of the folders", "the names of the folders"
	if err := b.splitFile(); err != nil {
		return nil, err
	}
	if full {
		b.note("the folder is read as the only label of its photos")
	} else {
		b.note("the folder is read as one positive label of its photos, the others are unknown (labels: full reads them as absent)")
	}
	return b.finish()
}

// splitFile takes the parts of the rows from split.csv beside the folders, as spml data split writes it: it stands
// before what folders are called.
func (b *builder) splitFile() error {
	t, err := readTableFile(b.t.root, "split.csv", splitCell, "train, val or test")
	if err != nil || t == nil {
		return err
	}
	if len(t.columns) != 1 || t.columns[0] != "split" {
		return formatError(t.file, 1, "the header must be filename,split")
	}
	for i := range b.rows {
		at, ok := t.rowOf[b.rows[i].name]
		if !ok {
			return formatError(t.file, 0, "%q has no row; name the part of every photo, or remove the file (spml data split draws one)", b.rows[i].name)
		}
		b.rows[i].split, b.rows[i].placed = Split(t.cells[at]), true
	}
	b.splitFrom = t.file
	return nil
}

// yoloFormat is a text file beside each photo: `class x y w h` for each object.
func yoloFormat() Format {
	return Format{
		Name: "yolo", Title: "YOLO", Holds: "images/<part>/ and labels/<part>/<photo>.txt with lines `class x y w h`; classes.txt or data.yaml",
		sniff: func(t *tree) int {
			if t.file == "" && t.isDir("labels") {
				for _, d := range append([]string{"."}, t.folders("labels")...) {
					if f := t.files(path.Join("labels", d), "*.txt"); len(f) > 0 && (len(yoloPhotos(t, d)) > 0 || firstLineIs(t, f[0], yoloLine)) {
						return 40
					}
				}
			}
			return 0
		},
		open: openYOLO,
	}
}

// yoloPhotos returns the photos of a part, with their folder.
func yoloPhotos(t *tree, part string) []string {
	for _, d := range []string{path.Join("images", part), part} {
		var out []string
		all, _ := t.list(d)
		for _, e := range all {
			if !e.IsDir() && isImageName(e.Name()) {
				out = append(out, path.Join(d, e.Name()))
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

var yoloLine = regexp.MustCompile(`^\d+(\s+[-0-9.eE]+){4,}$`)

func openYOLO(t *tree, o Options) (*Dataset, error) {
	b := newBuilder(t, o, "labels")
	b.places = []string{"."}
	names, err := yoloNames(t)
	if err != nil {
		return nil, err
	}
	if names != nil && o.Classes == nil {
		err = b.setClasses(names, "data.yaml")
	} else {
		err = b.setNumberedClasses(t.name, "classes.txt", "labels/classes.txt", "obj.names")
	}
	if err != nil {
		return nil, err
	}
	have, part := map[string]bool{}, map[string]string{}
	for _, d := range t.folders("labels") {
		if p, ok := partName(d); ok {
			part[d], have[p] = p, true
		}
	}
	to, note := partSplits(have)
	placed := len(part) > 0
	dirs := []string{"."}
	if placed {
		dirs = nil
		if note != "" {
			b.note("%s", note)
		}
		for _, want := range []string{"train", "val", "test"} {
			for _, d := range t.folders("labels") {
				if part[d] == want {
					dirs = append(dirs, d)
				}
			}
		}
	}
	for _, d := range dirs {
		labelled := map[string]bool{}
		for _, f := range t.files(path.Join("labels", d), "*.txt") {
			labelled[strings.TrimSuffix(path.Base(f), ".txt")] = true
		}
		delete(labelled, "classes")
		photos := yoloPhotos(t, d)
		if len(photos) == 0 { // labels alone
			for id := range labelled {
				photos = append(photos, id+".jpg")
			}
			slices.Sort(photos)
		}
		for _, photo := range photos {
			id := strings.TrimSuffix(path.Base(photo), path.Ext(photo))
			r := row{name: photo, file: photo, split: placedSplit(to, part[d], placed), placed: placed, complete: true, ref: len(b.rows)}
			if labelled[id] {
				delete(labelled, id)
				if err := readYOLO(b, path.Join("labels", d, id+".txt"), &r); err != nil {
					return nil, err
				}
			}
			if err := b.add(r); err != nil {
				return nil, err
			}
		}
		if len(labelled) > 0 {
			var lost []string
			for id := range labelled {
				lost = append(lost, id)
			}
			slices.Sort(lost)
			if o.Missing != MissingSkip {
				return nil, formatError(path.Join("labels", d, lost[0]+".txt"), 0, "there is no photo of that name (%d such): put it there or leave such rows out (missing: skip)", len(lost))
			}
			b.note("%d label files have no photo and are left out", len(lost))
		}
	}
	return b.finish()
}

func readYOLO(b *builder, file string, r *row) error {
	return b.t.eachLine(file, func(line int, text string) error {
		f := strings.Fields(text)
		if len(f) < 5 {
			return formatError(file, line, "the line must be `class x y w h`")
		}
		for _, x := range f[1:] {
			if _, err := strconv.ParseFloat(x, 64); err != nil {
				return formatError(file, line, "%.40q is no number", x)
			}
		}
		c, err := b.index(f[0], file, line)
		if c >= 0 {
			r.positive = append(r.positive, c)
		}
		return err
	})
}

// yoloNames reads the names of data.yaml; nil where there is none.
func yoloNames(t *tree) ([]string, error) {
	for _, f := range []string{"data.yaml", "dataset.yaml"} {
		if !t.has(f) {
			continue
		}
		r, err := t.text(f)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return parseYOLONames(bufio.NewReader(r), f)
	}
	return nil, nil
}
