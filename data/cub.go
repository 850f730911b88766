package data

import (
	"path"
	"strings"
)

// cubFormat is CUB-200-2011 as it is distributed.
func cubFormat() Format {
	return Format{
		Name: "cub", Title: "CUB-200-2011", Holds: "CUB_200_2011/{images.txt,train_test_split.txt,images/,attributes/image_attribute_labels.txt}, attributes.txt",
		sniff: func(t *tree) int {
			if t.file == "" && cubRoot(t) != "" {
				return 85
			}
			return 0
		},
		open: openCUB,
	}
}

// cubRoot returns the folder that holds images.txt, "" where there is none. Cole et al. expect one level more than others.
func cubRoot(t *tree) string {
	for _, d := range []string{".", "CUB_200_2011", "CUB_200_2011/CUB_200_2011"} {
		if t.has(path.Join(d, "images.txt")) && t.has(path.Join(d, "attributes/image_attribute_labels.txt")) {
			return d
		}
	}
	return ""
}

func openCUB(t *tree, o Options) (*Dataset, error) {
	dir := cubRoot(t)
	if dir == "" {
		return nil, formatError(t.name, 0, "images.txt and attributes/image_attribute_labels.txt are not here")
	}
	b := newBuilder(t, o, path.Join(dir, "images.txt"))
	b.places = []string{path.Join(dir, "images"), "images"}
	names, from, err := cubAttributeNames(t, dir)
	if err != nil {
		return nil, err
	}
	if names == nil && o.Classes == nil {
		for i := range cubAttributes {
			names = append(names, "attribute "+itoa(i+1))
		}
		from = "numbers: attributes.txt is absent"
	}
	if err := b.setClasses(names, from); err != nil {
		return nil, err
	}
	c := len(b.classes)
	pair := func(file string, line int, text string) (id int32, value string, err error) {
		k, v, ok := strings.Cut(text, " ")
		if id, err = parseIndex(k); err != nil || !ok {
			return 0, "", formatError(file, line, "the line must be `<number> <value>`")
		}
		return id, strings.TrimSpace(v), nil
	}
	at := map[int32]int{}
	file := path.Join(dir, "images.txt")
	err = t.eachLine(file, func(line int, text string) error {
		id, name, err := pair(file, line, text)
		if err != nil {
			return err
		}
		if _, twice := at[id]; twice {
			return formatError(file, line, "image %d is there twice", id)
		}
		at[id] = len(b.rows)
		return b.add(row{name: slashes(name), file: file, line: line, complete: true, ref: len(b.rows)})
	})
	if err != nil {
		return nil, err
	}
	if len(at) != len(b.rows) {
		return nil, formatError(file, 0, "two images have one name")
	}
	file = path.Join(dir, "train_test_split.txt")
	if t.has(file) {
		err = t.eachLine(file, func(line int, text string) error {
			id, v, err := pair(file, line, text)
			if err != nil {
				return err
			}
			i, ok := at[id]
			if !ok || v != "0" && v != "1" {
				return formatError(file, line, "the line must be the number of an image of images.txt and 0 or 1")
			}
			b.rows[i].placed, b.rows[i].split = true, Test
			if v == "1" {
				b.rows[i].split = Train
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		b.splitFrom = file
	}
	file = path.Join(dir, "attributes/image_attribute_labels.txt")
	given := make([]int, len(b.rows))
	err = t.eachLine(file, func(line int, text string) error {
		var f [3]string // image, attribute, is_present; some rows carry more fields than the five
		rest := text
		for i := range f {
			rest = strings.TrimLeft(rest, " \t")
			f[i], rest, _ = strings.Cut(rest, " ")
		}
		id, err1 := parseIndex(f[0])
		k, err2 := parseIndex(f[1])
		i, ok := at[id]
		if err1 != nil || err2 != nil || !ok || k < 1 || int(k) > c || f[2] != "0" && f[2] != "1" {
			return formatError(file, line, "the line must begin with an image of images.txt, an attribute from 1 to %d, and 0 or 1", c)
		}
		given[i]++
		if f[2] == "1" {
			b.rows[i].positive = append(b.rows[i].positive, k-1)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, n := range given {
		if n != c {
			return nil, formatError(file, 0, "image %q has %d attributes, not %d", b.rows[i].name, n, c)
		}
	}
	b.labelsFrom = file
	return b.finish()
}

// cubAttributeNames reads attributes.txt: `<number> <name>`, or one name a line.
func cubAttributeNames(t *tree, dir string) (names []string, from string, err error) {
	for _, f := range []string{"attributes.txt", path.Join(dir, "attributes.txt"), path.Join(dir, "attributes/attributes.txt"), path.Join(dir, "../attributes.txt")} {
		f = path.Clean(f)
		if strings.HasPrefix(f, "..") || !t.has(f) {
			continue
		}
		lines, err := t.lines(f)
		if err != nil {
			return nil, "", err
		}
		for i, l := range lines {
			if k, rest, ok := strings.Cut(l, " "); ok {
				if n, err := parseIndex(k); err == nil && int(n) == i+1 {
					lines[i] = strings.TrimSpace(rest)
				}
			}
		}
		return lines, f, nil
	}
	return nil, "", nil
}

// cubTSVFormat is a table of files with numbers of positive attributes.
func cubTSVFormat() Format {
	return Format{
		Name: "tsv", Title: "Tables of positive attributes", Holds: "train.tsv and test.tsv with the columns file and positive_attributes (numbers from 0), attributes.txt",
		sniff: func(t *tree) int {
			if t.file != "" {
				if isCUBTable(t, t.file) {
					return 80
				}
				return 0
			}
			for _, f := range t.files(".", "*.tsv") {
				if isCUBTable(t, f) {
					return 80
				}
			}
			return 0
		},
		open: openCUBTables,
	}
}

func isCUBTable(t *tree, file string) bool {
	if extension(file) != "tsv" {
		return false
	}
	first, _, _ := strings.Cut(string(t.head(file, 4096)), "\n")
	return strings.HasPrefix(first, "file\t") && strings.Contains(first, "positive_attributes")
}

func openCUBTables(t *tree, o Options) (*Dataset, error) {
	files := []string{t.file}
	if t.file == "" {
		files = nil
		for _, f := range t.files(".", "*.tsv") {
			if isCUBTable(t, f) {
				files = append(files, f)
			}
		}
	}
	b := newBuilder(t, o, strings.Join(files, " and "))
	b.places = []string{"images", "."}
	names, from, err := cubAttributeNames(t, ".")
	if err != nil {
		return nil, err
	}
	if names != nil || o.Classes != nil {
		if err := b.setClasses(names, from); err != nil {
			return nil, err
		}
	}
	have := map[string]bool{}
	part := make([]string, len(files))
	for i, f := range files {
		p, ok := partName(stem(f))
		if !ok && len(files) > 1 {
			return nil, formatError(f, 0, "several tables are here and the name of this one is neither train, val nor test: name one file")
		}
		part[i], have[p] = p, true
	}
	// Train goes first, whatever the alphabet says.
	to, note := partSplits(have)
	if note != "" && len(files) > 1 {
		b.note("%s", note)
	}
	for _, want := range []string{"train", "val", "test", ""} {
		for i, file := range files {
			if part[i] == want {
				if err := readCUBTable(b, file, part[i], placedSplit(to, part[i], len(files) > 1), len(files) > 1); err != nil {
					return nil, err
				}
			}
		}
	}
	return b.finish()
}

func readCUBTable(b *builder, file, part string, split Split, placed bool) error {
	fileAt, labelsAt, columns := -1, -1, 0
	from, single := len(b.rows), true
	err := b.t.eachLine(file, func(line int, text string) error {
		f := strings.Split(text, "\t")
		if columns == 0 {
			for i, h := range f {
				switch strings.TrimSpace(h) {
				case "file":
					fileAt = i
				case "positive_attributes":
					labelsAt = i
				}
			}
			if columns = len(f); fileAt < 0 || labelsAt < 0 {
				return formatError(file, line, "the header must name the columns file and positive_attributes")
			}
			return nil
		}
		for len(f) < columns { // a row without labels: its last tab is trimmed
			f = append(f, "")
		}
		if len(f) != columns {
			return formatError(file, line, "the row has %d columns, the header %d", len(f), columns)
		}
		r := row{name: slashes(f[fileAt]), file: file, line: line, split: split, placed: placed, complete: true, ref: len(b.rows)}
		for _, n := range strings.Fields(f[labelsAt]) {
			c, err := b.index(n, file, line)
			if err != nil {
				return err
			}
			if c >= 0 {
				r.positive = append(r.positive, c)
			}
		}
		single = single && len(r.positive) == 1
		return b.add(r)
	})
	if err != nil {
		return err
	}
	if b.opt.Labels != "" {
		single = b.opt.Labels == LabelsObserved
	} else {
		single = single && part == "train"
	}
	if single {
		b.note("%s: each row names one label, so its labels are read as observed positives, the rest as unknown", file)
		for i := from; i < len(b.rows); i++ {
			r := &b.rows[i]
			for _, c := range r.positive {
				r.marks = append(r.marks, mark{c, 1})
			}
			r.positive, r.complete, r.observed = nil, false, true
		}
	}
	return nil
}
