package data

import (
	"path"
	"slices"
	"strings"
)

func nusFormat() Format {
	return Format{
		Name: "nus-wide", Title: "NUS-WIDE", Holds: "ImageList/{Train,Test}Imagelist.txt, {TrainTestLabels,AllLabels}/Labels_<concept>[_Train|_Test].txt, Concepts81.txt, Flickr/",
		sniff: func(t *tree) int {
			if t.file == "" && len(nusLists(t)) > 0 {
				return 85
			}
			return 0
		},
		open: openNUS,
	}
}

// findBelow returns the folders of the tree, itself and two levels, that hold a file matching the pattern.
func findBelow(t *tree, pattern string) string {
	level := []string{"."}
	for range 3 {
		var next []string
		for _, d := range level {
			if len(t.files(d, pattern)) > 0 {
				return d
			}
			for _, f := range t.folders(d) {
				if f != "Flickr" && f != "images" {
					next = append(next, path.Join(d, f))
				}
			}
		}
		if level = next; len(level) > 256 {
			return ""
		}
	}
	return ""
}

// nusLists returns the image lists by part; "" is the list of all.
func nusLists(t *tree) map[string]string {
	for _, d := range []string{"ImageList", ".", "image_list"} {
		lists := map[string]string{}
		for part, names := range map[string][]string{"train": {"TrainImagelist.txt"}, "test": {"TestImagelist.txt"}, "": {"Imagelist.txt"}} {
			for _, n := range names {
				if t.has(path.Join(d, n)) {
					lists[part] = path.Join(d, n)
				}
			}
		}
		if lists["train"] != "" && lists["test"] != "" {
			delete(lists, "")
		}
		if len(lists) > 0 {
			return lists
		}
	}
	return nil
}

func openNUS(t *tree, o Options) (*Dataset, error) {
	lists := nusLists(t)
	b := newBuilder(t, o, "ImageList")
	b.places = []string{"Flickr", "images", "."}
	labelDir := ""
	if lists["train"] != "" {
		if labelDir = findBelow(t, "Labels_*_Train.txt"); labelDir == "" {
			return nil, formatError(t.name, 0, "there are image lists of train and test, but no Labels_<concept>_Train.txt")
		}
	} else if labelDir = findBelow(t, "Labels_*.txt"); labelDir == "" {
		return nil, formatError(t.name, 0, "there is an image list, but no Labels_<concept>.txt")
	}
	concepts := map[string]bool{}
	for _, f := range t.files(labelDir, "Labels_*.txt") {
		name := strings.TrimPrefix(strings.TrimSuffix(path.Base(f), ".txt"), "Labels_")
		if lists["train"] != "" {
			name = strings.TrimSuffix(strings.TrimSuffix(name, "_Train"), "_Test")
		}
		concepts[name] = true
	}
	var names []string
	for n := range concepts {
		names = append(names, n)
	}
	slices.Sort(names)
	if err := b.setClasses(names, "the names of the label files, in alphabetical order"); err != nil {
		return nil, err
	}
	for _, part := range []string{"train", "test", ""} {
		list, ok := lists[part]
		if !ok {
			continue
		}
		from := len(b.rows)
		err := t.eachLine(list, func(line int, text string) error {
			r := row{name: slashes(strings.TrimSpace(text)), file: list, line: line, complete: true, placed: part != "", ref: len(b.rows)}
			if part == "test" {
				r.split = Test
			}
			before := len(b.rows)
			if err := b.add(r); err != nil {
				return err
			}
			if len(b.rows) == before {
				return formatError(list, line, "%q is listed twice: the label files count lines, so none can be left out", r.name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, class := range names {
			file := path.Join(labelDir, "Labels_"+class+map[string]string{"train": "_Train", "test": "_Test", "": ""}[part]+".txt")
			if !t.has(file) {
				return nil, formatError(file, 0, "the file is missing")
			}
			c, err := b.class(class, file, 0)
			if err != nil {
				return nil, err
			}
			i := from
			err = t.eachLine(file, func(line int, text string) error {
				if i == len(b.rows) {
					return formatError(file, line, "there are more lines than the %d images of %s", len(b.rows)-from, list)
				}
				switch strings.TrimSpace(text) {
				case "1":
					if c >= 0 {
						b.rows[i].positive = append(b.rows[i].positive, c)
					}
				case "0":
				default:
					return formatError(file, line, "%.40q must be 0 or 1", text)
				}
				i++
				return nil
			})
			if err != nil {
				return nil, err
			}
			if i != len(b.rows) {
				return nil, formatError(file, 0, "it has %d lines, %s has %d", i-from, list, len(b.rows)-from)
			}
		}
	}
	b.labelsFrom, b.splitFrom = labelDir, path.Dir(or(lists["train"], lists[""]))
	b.note("the SPML papers do not use this split: their rows are the authors' formatted_*.npy, so scores do not compare")
	return b.finish()
}
