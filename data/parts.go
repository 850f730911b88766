package data

import "strings"

// partName returns the part that a folder or file name speaks of: train, val or test; ok is false for other names.
func partName(name string) (part string, ok bool) {
	n := strings.ToLower(name)
	for _, p := range []struct{ prefix, part string }{
		{"trainval", "train"}, {"training", "train"}, {"train", "train"}, {"validation", "val"}, {"valid", "val"}, {"val", "val"}, {"dev", "val"}, {"testing", "test"}, {"test", "test"},
	} {
		rest, found := strings.CutPrefix(n, p.prefix)
		if found && strings.Trim(rest, "0123456789_-") == "" {
			return p.part, true
		}
	}
	return "", false
}

const valIsTest = "the files name train and val only: val is the test part, as in the papers"

// partSplits maps the parts that a set names to ours. Where a set has val but no test, val is the test part, as the papers use VOC and COCO.
func partSplits(parts map[string]bool) (to map[string]Split, note string) {
	to = map[string]Split{"train": Train, "val": Val, "test": Test}
	if parts["val"] && !parts["test"] {
		to["val"] = Test
		note = valIsTest
	}
	return to, note
}

// placedSplit is the part of a file's rows; Train where there is one file, whose rows are parted later.
func placedSplit(to map[string]Split, part string, placed bool) Split {
	if !placed || part == "" {
		return Train
	}
	return to[part]
}

// parseSplitWord reads the part that a row names.
func parseSplitWord(s string) (Split, bool) {
	p, ok := partName(strings.TrimSpace(s))
	if !ok {
		return 0, false
	}
	v, err := ParseSplit(p)
	return v, err == nil
}

// imageNames are the extensions by which photos are found where no list names them. What a file is decides its content, not its name.
var imageNames = map[string]bool{"jpg": true, "jpeg": true, "png": true, "gif": true, "bmp": true, "webp": true, "tif": true, "tiff": true}

func extension(name string) string {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return ""
	}
	return strings.ToLower(name[i+1:])
}

func isImageName(name string) bool {
	return imageNames[extension(name)] && !strings.HasPrefix(name, ".")
}
