package data

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mark is an observed label of a row under construction.
type mark struct {
	class int32
	value int8 // 1, -1; 0 says unknown aloud
}

// row is a row of a data set under construction.
type row struct {
	name     string // as [Dataset.Images] will give it
	file     string // where it was read, for messages
	line     int
	split    Split
	placed   bool    // split was given
	complete bool    // positive are the full labels
	positive []int32 // classes
	observed bool    // marks are the observed labels
	marks    []mark
	ref      int // index in the source or the features that the format made
}

// builder collects the rows of a data set while a format reads its files, and makes what the files do not say.
type builder struct {
	t    *tree
	opt  Options
	file string // the file that is talked about where none is known better

	classes    []string
	classAt    map[string]int32
	closed     bool // a name that is not in classes is unknown
	classFrom  string
	sortByName bool // bring the classes into alphabetical order at the end

	rows []row
	at   map[string]int

	ignored map[string]int // labels outside of the classes, by name
	merged  int            // rows that were given twice, equal
	notes   []string

	dropEmpty  bool     // the format's own rule
	places     []string // folders below the image root where photos may be
	noPhotos   bool     // the format has none
	source     Source   // made by the format: row i is image ref(i)
	features   *Features
	drawAll    bool // draw observed labels over all rows, not part by part
	labelsFrom string
	obsFrom    string
	splitFrom  string
}

func newBuilder(t *tree, o Options, file string) *builder {
	b := &builder{t: t, opt: o, file: file, classAt: map[string]int32{}, at: map[string]int{}, ignored: map[string]int{}}
	return b
}

func (b *builder) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// setClasses gives the columns. Options.Classes goes before; from says in words where they were found.
func (b *builder) setClasses(names []string, from string) error {
	if b.opt.Classes != nil {
		names, from = b.opt.Classes, "the caller"
	}
	b.classes, b.classAt = nil, map[string]int32{}
	for _, n := range names {
		if _, err := b.addClass(n, from, 0); err != nil {
			return err
		}
	}
	b.closed, b.classFrom = true, from
	return nil
}

// openClasses begins with Options.Classes where they are given, else with none: every name that comes is a class.
func (b *builder) openClasses() error {
	if b.opt.Classes != nil {
		return b.setClasses(nil, "")
	}
	b.sortByName = true
	return nil
}

func checkClass(name string) error {
	if name == "" {
		return errors.New("a class has no name")
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || len(name) > maxNameBytes {
		return fmt.Errorf("class name %.80q: control characters, more than %d bytes and text that is not UTF-8 are not allowed", name, maxNameBytes)
	}
	return nil
}

func (b *builder) addClass(name, file string, line int) (int32, error) {
	name = strings.TrimSpace(name)
	if err := checkClass(name); err != nil {
		return 0, formatError(file, line, "%v", err)
	}
	if _, twice := b.classAt[name]; twice {
		return 0, formatError(file, line, "class %q is named twice", name)
	}
	if len(b.classes) == maxColumns {
		return 0, formatError(file, line, "there are more than %d classes", maxColumns)
	}
	c := int32(len(b.classes))
	name = strings.Clone(name)
	b.classes, b.classAt[name] = append(b.classes, name), c
	return c, nil
}

// class returns the column of a name; -1 where it is unknown and such are ignored.
func (b *builder) class(name, file string, line int) (int32, error) {
	name = strings.TrimSpace(name)
	if c, ok := b.classAt[name]; ok {
		return c, nil
	}
	if !b.closed {
		return b.addClass(name, file, line)
	}
	if b.opt.Unknown == UnknownIgnore {
		if len(b.ignored) < 1000 || b.ignored[name] > 0 {
			b.ignored[strings.Clone(name)]++
		}
		return -1, nil
	}
	hint := "add it to the classes or ignore unknown labels"
	if near := nearest(name, b.classes); near != "" {
		hint = fmt.Sprintf("is %q meant? Else %s", near, hint)
	}
	return 0, formatError(file, line, "%.80q is none of the %d classes of %s: %s", name, len(b.classes), b.classFrom, hint)
}

// nearest returns the class whose letters are the same but for case, blanks and marks; "" where there is none.
func nearest(name string, classes []string) string {
	fold := func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				return unicode.ToLower(r)
			}
			return -1
		}, s)
	}
	f := fold(name)
	for _, c := range classes {
		if fold(c) == f {
			return c
		}
	}
	return ""
}

// index checks a class number of a file that names classes by number.
func (b *builder) index(c, file string, line int) (int32, error) {
	n, err := parseIndex(c)
	if err != nil {
		return 0, formatError(file, line, "%q is no class number", c)
	}
	if !b.closed {
		if n >= maxColumns {
			return 0, formatError(file, line, "class number %d: at most %d are allowed", n, maxColumns-1)
		}
		for len(b.classes) <= int(n) {
			if _, err := b.addClass(fmt.Sprintf("class %d", len(b.classes)), file, line); err != nil {
				return 0, err
			}
		}
		return n, nil
	}
	if int(n) >= len(b.classes) {
		if b.opt.Unknown == UnknownIgnore {
			b.ignored[c]++
			return -1, nil
		}
		return 0, formatError(file, line, "class number %d, but %s names %d classes, 0 to %d", n, b.classFrom, len(b.classes), len(b.classes)-1)
	}
	return n, nil
}

func parseIndex(s string) (int32, error) {
	if s == "" || len(s) > 9 {
		return 0, errors.New("not a number")
	}
	n := int32(0)
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, errors.New("not a number")
		}
		n = n*10 + int32(s[i]-'0')
	}
	return n, nil
}

// add appends a row. A second row of the same name must say the same and is left out, else it is an error.
func (b *builder) add(r row) error {
	name, err := cleanName(r.name)
	if err != nil {
		return formatError(r.file, r.line, "%v", err)
	}
	if !utf8.ValidString(name) {
		return formatError(r.file, r.line, "the file name %q is not UTF-8: save the file as UTF-8", name)
	}
	slices.Sort(r.positive)
	r.positive = slices.Compact(r.positive)
	if i, twice := b.at[name]; twice {
		o := &b.rows[i]
		at := o.file
		if o.line > 0 {
			at = fmt.Sprintf("%s:%d", o.file, o.line)
		}
		if r.placed == o.placed && r.split == o.split && r.complete == o.complete && r.observed == o.observed && slices.Equal(r.positive, o.positive) && slices.Equal(r.marks, o.marks) {
			b.merged++
			return nil
		}
		return formatError(r.file, r.line, "%q has a row already (%s), with another label or part: delete one of them", name, at)
	}
	if len(b.rows) == maxRows {
		return formatError(r.file, r.line, "there are more than %d rows", maxRows)
	}
	r.name = strings.Clone(name)
	b.at[r.name] = len(b.rows)
	b.rows = append(b.rows, r)
	return nil
}

// sortRows orders the rows.
func (b *builder) sortRows(less func(x, y *row) int) {
	slices.SortStableFunc(b.rows, func(x, y row) int { return less(&x, &y) })
	for i := range b.rows {
		b.at[b.rows[i].name] = i
	}
}

// sortClasses brings classes that were met in the files into alphabetical order, so that columns do not depend on the order of rows.
func (b *builder) sortClasses() {
	order := make([]int, len(b.classes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return strings.Compare(b.classes[i], b.classes[j]) })
	to, names := make([]int32, len(order)), make([]string, len(order))
	for n, old := range order {
		to[old], names[n] = int32(n), b.classes[old]
		b.classAt[names[n]] = int32(n)
	}
	b.classes = names
	for i := range b.rows {
		r := &b.rows[i]
		for j, c := range r.positive {
			r.positive[j] = to[c]
		}
		slices.Sort(r.positive)
		for j := range r.marks {
			r.marks[j].class = to[r.marks[j].class]
		}
	}
}
