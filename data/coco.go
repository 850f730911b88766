package data

import (
	"fmt"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func cocoFormat() Format {
	return Format{
		Name: "coco", Title: "COCO instances", Holds: "annotations/instances_<part>.json with images, annotations, categories; photos in a folder named as the part",
		sniff: func(t *tree) int {
			if t.file != "" {
				if extension(t.file) == "json" && looksLikeCOCO(t, t.file) {
					return 70
				}
				return 0
			}
			if files := cocoFiles(t); len(files) > 0 {
				return 80
			}
			return 0
		},
		open:  openCOCO,
		write: &writer{write: writeCOCO, loses: losesForCOCO},
	}
}

var cocoKey = regexp.MustCompile(`"(images|annotations)"\s*:\s*\[`)

func looksLikeCOCO(t *tree, file string) bool {
	h := strings.TrimSpace(string(t.head(file, 1<<18)))
	return strings.HasPrefix(h, "{") && cocoKey.MatchString(h) && !strings.Contains(h, `"samples"`)
}

// cocoFiles returns the JSON files of a folder that hold COCO annotations.
func cocoFiles(t *tree) []string {
	if f := t.files("annotations", "instances_*.json"); len(f) > 0 {
		return f
	}
	var all []string
	for _, dir := range []string{"annotations", "."} {
		for _, f := range t.files(dir, "*.json") {
			if looksLikeCOCO(t, f) {
				all = append(all, f)
			}
		}
	}
	for _, dir := range t.folders(".") { // as Roboflow exports: train/_annotations.coco.json
		if f := path.Join(dir, "_annotations.coco.json"); t.has(f) {
			all = append(all, f)
		}
	}
	return all
}

// cocoFile is what one annotation file holds.
type cocoFile struct {
	classes []string // in the order of categories
	ids     []int64  // of the categories
	images  []cocoImage
	pairs   []cocoPair
	labels  []cocoLabels // our own key: observed labels, see writeCOCO
}

type cocoImage struct {
	ID   int64  `json:"id"`
	File string `json:"file_name"`
}

type cocoPair struct {
	Image    int64 `json:"image_id"`
	Category int64 `json:"category_id"`
}

// cocoLabels is an entry of `spml_observed`: what training may see of an image. COCO itself has no place for it.
type cocoLabels struct {
	Image    int64   `json:"image_id"`
	Positive []int64 `json:"positive"`
	Negative []int64 `json:"negative"`
}

const maxCOCOItems = 1 << 28

// parseCOCO reads an annotation file as a stream: of each annotation image and category alone are kept.
func parseCOCO(r io.Reader, file string) (*cocoFile, error) {
	s, err := newJSONStream(r, file)
	if err != nil {
		return nil, err
	}
	c := &cocoFile{}
	seen := map[string]bool{}
	err = s.object("a COCO file", func(key string) error {
		switch key {
		case "images", "annotations", "categories", observedKey:
			if seen[key] {
				return formatError(file, 0, "%q is there twice", key)
			}
			seen[key] = true
		}
		switch key {
		case "images":
			return s.array(key, func(i int) error {
				var im struct {
					ID   *int64  `json:"id"`
					File *string `json:"file_name"`
				}
				if err := s.decode(fmt.Sprintf("images[%d]", i), &im); err != nil {
					return err
				}
				if im.ID == nil || im.File == nil {
					return formatError(file, 0, "images[%d] has no id or no file_name", i)
				}
				if i >= maxRows {
					return formatError(file, 0, "there are more than %d images", maxRows)
				}
				c.images = append(c.images, cocoImage{*im.ID, *im.File})
				return nil
			})
		case "annotations":
			return s.array(key, func(i int) error {
				var a struct {
					Image    *int64 `json:"image_id"`
					Category *int64 `json:"category_id"`
				}
				if err := s.decode(fmt.Sprintf("annotations[%d]", i), &a); err != nil {
					return err
				}
				if a.Image == nil || a.Category == nil {
					return formatError(file, 0, "annotations[%d] has no image_id or no category_id", i)
				}
				p := cocoPair{*a.Image, *a.Category}
				if n := len(c.pairs); n > 0 && c.pairs[n-1] == p {
					return nil
				}
				if i >= maxCOCOItems {
					return formatError(file, 0, "there are more than %d annotations", maxCOCOItems)
				}
				c.pairs = append(c.pairs, p)
				return nil
			})
		case "categories":
			return s.array(key, func(i int) error {
				var k struct {
					ID   *int64 `json:"id"`
					Name string `json:"name"`
				}
				if err := s.decode(fmt.Sprintf("categories[%d]", i), &k); err != nil {
					return err
				}
				if k.ID == nil {
					return formatError(file, 0, "categories[%d] has no id", i)
				}
				if i >= maxColumns {
					return formatError(file, 0, "there are more than %d categories", maxColumns)
				}
				c.ids, c.classes = append(c.ids, *k.ID), append(c.classes, k.Name)
				return nil
			})
		case observedKey:
			return s.array(key, func(i int) error {
				var l cocoLabels
				if err := s.decode(fmt.Sprintf("%s[%d]", observedKey, i), &l); err != nil {
					return err
				}
				c.labels = append(c.labels, l)
				return nil
			})
		}
		return s.skip()
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"images", "annotations", "categories"} {
		if !seen[key] {
			return nil, formatError(file, 0, "%q is missing: is this an instances file?", key)
		}
	}
	return c, nil
}

const observedKey = "spml_observed"

var officialCOCO = regexp.MustCompile(`^instances_(train|val)20(14|17)\.json$`)

func openCOCO(t *tree, o Options) (*Dataset, error) {
	var files []string
	if t.file != "" {
		files = []string{t.file}
		if abs, err := filepath.Abs(t.dir); err == nil && filepath.Base(abs) == "annotations" {
			up, err := openTree(filepath.Join(t.dir, ".."))
			if err != nil {
				return nil, err
			}
			defer up.close()
			up.name = t.name
			files[0], t = path.Join("annotations", t.file), up
		}
	} else {
		files = cocoFiles(t)
	}
	if o.Set != "" && t.file == "" {
		files = slices.DeleteFunc(files, func(f string) bool { return !strings.Contains(path.Base(f), o.Set) })
	}
	type part struct {
		file, folder, part string
		c                  *cocoFile
	}
	var parts []part
	have := map[string]bool{}
	for _, f := range files {
		p := part{file: f}
		if folder, ok := strings.CutPrefix(stem(f), "instances_"); ok {
			p.folder = folder
		} else if path.Base(f) == "_annotations.coco.json" {
			p.folder = path.Dir(f)
		}
		name := or(p.folder, stem(f))
		p.part, _ = partName(name)
		if len(files) > 1 {
			if p.part == "" {
				return nil, formatError(f, 0, "%d COCO files are here and this one is neither of train, val nor test: name one file", len(files))
			}
			if have[p.part] {
				return nil, formatError(f, 0, "there are two files of the part %s: name one of %s", p.part, strings.Join(files, ", "))
			}
		}
		have[p.part] = true
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return nil, formatError(t.name, 0, "no COCO file is here")
	}
	order := []string{"train", "val", "test"}
	slices.SortStableFunc(parts, func(x, y part) int { return slices.Index(order, x.part) - slices.Index(order, y.part) })
	to, note := partSplits(have)
	b := newBuilder(t, o, files[0])
	b.dropEmpty = true
	b.places = []string{".", "images", "data"}
	if len(parts) > 1 && note != "" {
		b.note("%s", note)
	}
	for i := range parts {
		p := &parts[i]
		b.dropEmpty = b.dropEmpty && officialCOCO.MatchString(path.Base(p.file))
		f, _, err := t.open(p.file, MaxJSONBytes)
		if err != nil {
			return nil, err
		}
		p.c, err = parseCOCO(f, p.file)
		f.Close()
		if err != nil {
			return nil, err
		}
		if i == 0 {
			if err := b.setClasses(p.c.classes, "the categories of "+p.file); err != nil {
				return nil, err
			}
		} else if !slices.Equal(p.c.classes, parts[0].c.classes) {
			return nil, formatError(p.file, 0, "its categories are not those of %s, in the same order", parts[0].file)
		}
		if p.folder != "" {
			b.places = append(b.places, p.folder, path.Join("images", p.folder))
		}
	}
	for _, p := range parts {
		if err := addCOCO(b, p.c, p.file, p.folder, placedSplit(to, p.part, len(parts) > 1), len(parts) > 1); err != nil {
			return nil, err
		}
	}
	b.labelsFrom, b.splitFrom = strings.Join(files, " and "), strings.Join(files, " and ")
	b.obsFrom = observedKey + " in " + b.labelsFrom
	return b.finish()
}

// addCOCO appends a file's images, in the papers' order: ids sorted as decimal strings.
func addCOCO(b *builder, c *cocoFile, file, folder string, split Split, placed bool) error {
	column := make(map[int64]int32, len(c.ids))
	for i, id := range c.ids {
		if _, twice := column[id]; twice {
			return formatError(file, 0, "two categories have the id %d", id)
		}
		k, err := b.class(c.classes[i], file, 0)
		if err != nil {
			return err
		}
		column[id] = k
	}
	at := make(map[int64]int, len(c.images))
	rows := make([]row, len(c.images))
	for i, im := range c.images {
		if j, twice := at[im.ID]; twice {
			if c.images[j] == im {
				continue
			}
			return formatError(file, 0, "two images have the id %d: %q and %q", im.ID, c.images[j].File, im.File)
		}
		at[im.ID] = i
		name := slashes(im.File)
		if folder != "" && !strings.Contains(name, "/") && (officialCOCO.MatchString(path.Base(file)) || b.t.isDir(folder)) {
			name = path.Join(folder, name)
		}
		rows[i] = row{name: name, file: file, split: split, placed: placed, complete: true}
	}
	for _, p := range c.pairs {
		i, ok := at[p.Image]
		if !ok {
			return formatError(file, 0, "an annotation is of image %d, which is not among the images", p.Image)
		}
		k, ok := column[p.Category]
		if !ok {
			return formatError(file, 0, "an annotation of image %d is of category %d, which is not among the categories", p.Image, p.Category)
		}
		if k >= 0 {
			rows[i].positive = append(rows[i].positive, k)
		}
	}
	for _, l := range c.labels {
		i, ok := at[l.Image]
		if !ok {
			return formatError(file, 0, "%s is of image %d, which is not among the images", observedKey, l.Image)
		}
		var lists [2][]int32
		for n, ids := range [][]int64{l.Positive, l.Negative} {
			for _, id := range ids {
				k, ok := column[id]
				if !ok {
					return formatError(file, 0, "%s of image %d names category %d, which is not among the categories", observedKey, l.Image, id)
				}
				if k >= 0 {
					lists[n] = append(lists[n], k)
				}
			}
		}
		m, err := marksOf(lists[0], lists[1])
		if err != nil {
			return formatError(file, 0, "%s of image %d: %v", observedKey, l.Image, err)
		}
		rows[i].marks, rows[i].observed = m, true
	}
	ids := make([]int64, 0, len(at))
	for id := range at {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(x, y int64) int { return strings.Compare(strconv.FormatInt(x, 10), strconv.FormatInt(y, 10)) })
	for _, id := range ids {
		r := rows[at[id]]
		r.ref = len(b.rows)
		if err := b.add(r); err != nil {
			return err
		}
	}
	return nil
}
