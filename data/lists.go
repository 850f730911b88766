package data

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// spmlFormat is the text lists of the SPML repositories: `image.jpg, 3 17 41`.
func spmlFormat() Format {
	return Format{
		Name: "spml-list", Title: "SPML text lists", Holds: "<set>_train.txt and <set>_val.txt with lines `image.jpg, 3 17 41`; <set>_train_full.txt and <set>_train_singlelabel.txt",
		sniff: func(t *tree) int {
			if t.file != "" {
				if extension(t.file) == "txt" && firstLineIs(t, t.file, spmlLine) {
					return 60
				}
				return 0
			}
			for _, f := range t.files(".", "*_*.txt") {
				if firstLineIs(t, f, spmlLine) {
					return 60
				}
			}
			return 0
		},
		open:  openSPML,
		write: &writer{write: writeSPML, loses: losesForSPML},
	}
}

var spmlLine = regexp.MustCompile(`^[^,\t]+\.[A-Za-z0-9]+\s*,\s*(\d+(\s+\d+)*)?\s*$`)

// firstLineIs reports whether the first line with text matches.
func firstLineIs(t *tree, file string, re *regexp.Regexp) bool {
	first, _, _ := strings.Cut(strings.TrimLeft(string(t.head(file, 1<<16)), "\r\n"), "\n")
	return re.MatchString(strings.TrimRight(first, "\r \t"))
}

// listFile is one text list of a set.
type listFile struct {
	file, set, part string
	kind            string // full, singlelabel or ""
}

func spmlLists(t *tree) []listFile {
	var all []listFile
	for _, f := range t.files(".", "*_*.txt") {
		if !firstLineIs(t, f, spmlLine) {
			continue
		}
		l := listFile{file: f}
		name := strings.TrimSuffix(f, ".txt")
		for _, k := range []string{"full", "singlelabel"} {
			if s, ok := strings.CutSuffix(name, "_"+k); ok {
				name, l.kind = s, k
			}
		}
		i := strings.LastIndexByte(name, '_')
		if i < 0 {
			continue
		}
		part, ok := partName(name[i+1:])
		if !ok {
			continue
		}
		l.set, l.part = name[:i], part
		all = append(all, l)
	}
	return all
}

func openSPML(t *tree, o Options) (*Dataset, error) {
	var lists []listFile
	if t.file != "" {
		l := listFile{file: t.file, set: t.file}
		if i := strings.LastIndexByte(stem(t.file), '_'); i > 0 {
			l.part, _ = partName(stem(t.file)[i+1:])
		}
		if strings.Contains(t.file, "_singlelabel") {
			l.kind, l.part = "singlelabel", "train"
		}
		if strings.Contains(t.file, "_full") {
			l.kind = "full"
		}
		lists = []listFile{l}
	} else {
		lists = spmlLists(t)
		var sets []string
		for _, l := range lists {
			sets = append(sets, l.set)
		}
		slices.Sort(sets)
		sets = slices.Compact(sets)
		set := o.Set
		if set == "" && len(sets) == 1 {
			set = sets[0]
		}
		if set == "" {
			return nil, formatError(t.name, 0, "the folder holds lists of %s: name one set, for instance %s", strings.Join(sets, ", "), path.Join(t.dir, sets[0]))
		}
		lists = slices.DeleteFunc(lists, func(l listFile) bool { return l.set != set })
		if len(lists) == 0 {
			return nil, formatError(t.name, 0, "there is no list of the set %q; there are %s", set, strings.Join(sets, ", "))
		}
		t.name = set
	}
	b := newBuilder(t, o, lists[0].file)
	b.places = []string{".", "images", "JPEGImages", "Flickr", "train2014", "val2014"}
	if err := b.setNumberedClasses(lists[0].set, "classes.txt", "attributes.txt"); err != nil {
		return nil, err
	}
	order := []string{"train", "val", "test", ""}
	slices.SortStableFunc(lists, func(x, y listFile) int { return slices.Index(order, x.part) - slices.Index(order, y.part) })
	have := map[string]bool{}
	for _, l := range lists {
		have[l.part] = true
	}
	to, note := partSplits(have)
	if t.file == "" && note != "" && len(have) > 1 {
		b.note("%s", note)
	}
	placed := t.file == "" && len(have) > 1
	var from []string
	for _, l := range lists {
		rows, err := readSPML(b, l.file)
		if err != nil {
			return nil, err
		}
		from = append(from, l.file)
		single := l.kind == "singlelabel" || l.kind == "" && l.part == "train" && !slices.ContainsFunc(rows, func(r row) bool { return len(r.positive) != 1 })
		if o.Labels != "" && l.kind == "" {
			single = o.Labels == LabelsObserved
		}
		if single {
			b.note("%s: each line names one label, so its labels are read as observed positives, the rest as unknown", l.file)
			if l.kind == "singlelabel" {
				b.notes[len(b.notes)-1] = l.file + " is read as observed positives"
			}
		}
		for _, r := range rows {
			r.split, r.placed = placedSplit(to, l.part, placed), placed
			if single {
				for _, c := range r.positive {
					r.marks = append(r.marks, mark{c, 1})
				}
				r.observed, r.positive = true, nil
			} else {
				r.complete = true
			}
			if i, ok := b.at[r.name]; ok && b.rows[i].file != r.file && b.rows[i].split == r.split && l.kind != "" { // the full and the single list of one part
				o := &b.rows[i]
				if r.observed {
					o.observed, o.marks = true, r.marks
				} else {
					o.complete, o.positive = true, r.positive
				}
				continue
			}
			r.ref = len(b.rows)
			if err := b.add(r); err != nil {
				return nil, err
			}
		}
	}
	for i := range b.rows {
		r := &b.rows[i]
		for _, m := range r.marks {
			if r.complete && r.observed && !slices.Contains(r.positive, m.class) {
				return nil, formatError(r.file, r.line, "%q: the observed label %q is not among the full labels", r.name, b.classes[m.class])
			}
		}
	}
	b.labelsFrom = strings.Join(from, " and ")
	b.obsFrom, b.splitFrom = b.labelsFrom, b.labelsFrom
	return b.finish()
}

// readSPML reads the lines of one list.
func readSPML(b *builder, file string) ([]row, error) {
	var rows []row
	err := b.t.eachLine(file, func(line int, text string) error {
		name, labels, ok := strings.Cut(text, ",")
		if !ok {
			return formatError(file, line, "the line must be `image.jpg, 3 17 41`")
		}
		name, err := cleanName(slashes(strings.TrimSpace(name)))
		if err != nil {
			return formatError(file, line, "%v", err)
		}
		r := row{name: name, file: file, line: line}
		for _, f := range strings.Fields(labels) {
			c, err := b.index(f, file, line)
			if err != nil {
				return err
			}
			if c >= 0 {
				r.positive = append(r.positive, c)
			}
		}
		slices.Sort(r.positive)
		r.positive = slices.Compact(r.positive)
		if len(rows) == maxRows {
			return formatError(file, line, "there are more than %d rows", maxRows)
		}
		rows = append(rows, r)
		return nil
	})
	return rows, err
}

// boxListFormat is `image.jpg x1 y1 x2 y2 class …`, five numbers an object.
func boxListFormat() Format {
	return Format{
		Name: "box-list", Title: "Lists of boxes", Holds: "lines `image.jpg xmin ymin xmax ymax class …`, classes by number; <file>_difficult.txt with a flag for each object",
		sniff: func(t *tree) int {
			if t.file != "" && extension(t.file) == "txt" && firstLineIs(t, t.file, boxLine) {
				return 50
			}
			return 0
		},
		open: openBoxList,
	}
}

var boxLine = regexp.MustCompile(`^\S+\.[A-Za-z0-9]+((\s+-?\d+(\.\d+)?){4}\s+\d+)*$`)

func openBoxList(t *tree, o Options) (*Dataset, error) {
	file := t.file
	if file == "" {
		return nil, formatError(t.name, 0, "name the file of the list")
	}
	b := newBuilder(t, o, file)
	b.places = []string{".", "images", "JPEGImages"}
	if err := b.setNumberedClasses(t.name, "classes.txt"); err != nil {
		return nil, err
	}
	flags := map[string][]string{}
	if d := strings.TrimSuffix(file, ".txt") + "_difficult.txt"; t.has(d) {
		err := t.eachLine(d, func(line int, text string) error {
			f := strings.Fields(text)
			flags[f[0]] = f[1:]
			return nil
		})
		if err != nil {
			return nil, err
		}
		b.note("difficult objects are named in %s", d)
	}
	v := &vocReader{b: b, difficult: o.Difficult}
	err := t.eachLine(file, func(line int, text string) error {
		f := strings.Fields(text)
		if len(f)%5 != 1 {
			return formatError(file, line, "%d values follow the name: five for each object are expected", len(f)-1)
		}
		r := row{name: slashes(f[0]), file: file, line: line, complete: true, ref: len(b.rows)}
		hard := flags[f[0]]
		if hard != nil && len(hard) != len(f)/5 {
			return formatError(file, line, "%q has %d objects, but %d flags of difficulty", f[0], len(f)/5, len(hard))
		}
		var hards []int32
		for i := 1; i+4 < len(f); i += 5 {
			for _, x := range f[i : i+4] {
				if _, err := strconv.ParseFloat(x, 64); err != nil {
					return formatError(file, line, "%q is no number", x)
				}
			}
			c, err := b.index(f[i+4], file, line)
			if err != nil {
				return err
			}
			if hard != nil && hard[(i-1)/5] == "1" {
				hards = append(hards, c)
			} else {
				v.mark(&r, c, true, false)
			}
		}
		slices.Sort(hards)
		for _, c := range slices.Compact(hards) {
			if !slices.Contains(r.positive, c) {
				v.mark(&r, c, false, true)
			}
		}
		return b.add(r)
	})
	if err != nil {
		return nil, err
	}
	for i := range b.rows { // now the number of classes is known
		v.close(&b.rows[i])
	}
	if v.hard > 0 {
		b.note("%d labels are of difficult objects only: they count as %s", v.hard, or(string(o.Difficult), string(DifficultNegative)))
	}
	return b.finish()
}
