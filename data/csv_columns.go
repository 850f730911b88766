package data

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

func csvFormat() Format {
	return Format{
		Name: "csv", Title: "CSV", Holds: "labels.csv (filename and a 0/1 column a class) with images/; or one .csv or .tsv with a column a class, or image,labels",
		sniff: func(t *tree) int {
			if t.file != "" {
				if e := extension(t.file); (e == "csv" || e == "tsv") && !isCUBTable(t, t.file) && !isLabelStudioCSV(t, t.file) {
					return 60
				}
				return 0
			}
			if t.has("labels.csv") || len(t.files(".", "observed*.csv")) > 0 {
				return 90
			}
			if n := csvFiles(t); len(n) == 1 && !isLabelStudioCSV(t, n[0]) {
				return 30
			}
			return 0
		},
		open:  openAnyCSV,
		write: &writer{write: writeCSV, loses: losesNothing},
	}
}

func csvFiles(t *tree) []string {
	return slices.DeleteFunc(t.files(".", "*.csv"), func(n string) bool { return n == "split.csv" || strings.HasPrefix(n, "observed") })
}

// openAnyCSV opens a CSV folder or one table.
func openAnyCSV(t *tree, o Options) (*Dataset, error) {
	file := t.file
	if file == "" {
		file = "labels.csv"
		if !t.has(file) {
			if len(t.files(".", "observed*.csv")) > 0 {
				return openCSVFolder(t.dir, o)
			}
			names := csvFiles(t)
			if len(names) != 1 {
				return nil, formatError(t.name, 0, "the folder holds %d CSV files: name one", len(names))
			}
			file = names[0]
		} else if layout, err := csvLayout(t, file); err == nil && layout == "filename,0/1" && o.Classes == nil && o.Labels == "" && o.Empty == "" {
			return openCSVFolder(t.dir, o)
		}
	}
	return openTable(t, file, o)
}

// csvLayout says which of the layouts a table's header has.
func csvLayout(t *tree, file string) (string, error) {
	r, err := t.text(file)
	if err != nil {
		return "", err
	}
	defer r.Close()
	c := newCSVReader(r, file, t)
	header, err := c.Read()
	if err != nil {
		return "", err
	}
	h := readHeader(header)
	if h.labels < 0 && h.positive < 0 && strings.TrimSpace(header[0]) == "filename" && h.split < 0 {
		return "filename,0/1", nil
	}
	return "other", nil
}

func openCSVFolder(dir string, o Options) (*Dataset, error) {
	return OpenCSV(dir, CSVOptions{Seed: o.Seed, Images: o.Images, NoValidation: o.NoValidation, Missing: o.Missing})
}

// csvHeader says what the columns of a table are; -1 where there is none.
type csvHeader struct {
	image, labels, positive, negative, unknown, split, full int
	classes                                                 []int // columns of classes, where no column is a list
}

var (
	imageColumns    = []string{"filename", "file_name", "file", "image", "image_path", "img", "path", "filepath", "image_name", "image_id", "id", "name"}
	labelColumns    = []string{"labels", "label", "tags", "classes", "categories", "class", "category"}
	positiveColumns = []string{"positive", "positives"}
	negativeColumns = []string{"negative", "negatives"}
	unknownColumns  = []string{"unknown", "unknowns"}
	splitColumns    = []string{"split", "part", "subset", "set", "phase"}
)

func readHeader(header []string) csvHeader {
	find := func(names []string) int {
		for _, n := range names {
			for i, h := range header {
				if strings.EqualFold(strings.TrimSpace(h), n) {
					return i
				}
			}
		}
		return -1
	}
	h := csvHeader{image: find(imageColumns), labels: find(labelColumns), positive: find(positiveColumns), negative: find(negativeColumns), unknown: find(unknownColumns), split: find(splitColumns), full: find([]string{"full"})}
	if h.image < 0 {
		h.image = 0
	}
	if h.labels < 0 && h.positive < 0 {
		h.negative, h.unknown, h.full = -1, -1, -1
		for i := range header {
			if i != h.image && i != h.split {
				h.classes = append(h.classes, i)
			}
		}
	}
	return h
}

// newCSVReader finds the separator in the first line: comma, tab or semicolon.
func newCSVReader(r io.Reader, file string, t *tree) *csv.Reader {
	c := csv.NewReader(r)
	c.ReuseRecord, c.FieldsPerRecord, c.LazyQuotes = true, -1, false
	first, _, _ := strings.Cut(string(t.head(file, 1<<16)), "\n")
	switch {
	case strings.Contains(first, ","):
	case strings.Contains(first, "\t"):
		c.Comma = '\t'
	case strings.Contains(first, ";"):
		c.Comma = ';'
	}
	return c
}

// openTable opens one CSV or TSV file of either layout.
func openTable(t *tree, file string, o Options) (*Dataset, error) {
	r, err := t.text(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b := newBuilder(t, o, file)
	b.places = []string{".", "images", "data", "photos"}
	if err := readColumns(b, newCSVReader(r, file, t), file); err != nil {
		return nil, err
	}
	return b.finish()
}

// readColumns reads rows of a table into b.
func readColumns(b *builder, c *csv.Reader, file string) error {
	header, err := nextRecord(c, file)
	if err == io.EOF {
		return formatError(file, 0, "the file is empty: it needs a header line")
	}
	if err != nil {
		return err
	}
	header = slices.Clone(header)
	h := readHeader(header)
	wide := h.labels < 0 && h.positive < 0
	x := &tableRows{b: b, h: h, file: file}
	if wide {
		if len(h.classes) == 0 {
			return formatError(file, 1, "the header has the column %q alone: labels are missing", header[0])
		}
		names := make([]string, len(h.classes))
		for i, k := range h.classes {
			names[i] = header[k]
		}
		if err := x.wideClasses(names); err != nil {
			return err
		}
	} else if b.t.has("classes.txt") && b.opt.Classes == nil {
		names, err := b.t.lines("classes.txt")
		if err == nil {
			err = b.setClasses(names, "classes.txt")
		}
		if err != nil {
			return err
		}
	} else if err := b.openClasses(); err != nil {
		return err
	}
	for {
		rec, err := nextRecord(c, file)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		line, _ := c.FieldPos(0)
		if len(rec) != len(header) {
			return formatError(file, line, "the row has %d columns, the header %d", len(rec), len(header))
		}
		row := row{name: slashes(strings.TrimSpace(rec[h.image])), file: file, line: line, ref: len(b.rows)}
		if h.split >= 0 {
			if row.split, row.placed = parseSplitWord(rec[h.split]); !row.placed && strings.TrimSpace(rec[h.split]) != "" {
				return formatError(file, line, "%q is no part: train, val or test", rec[h.split])
			}
		}
		if wide {
			err = x.wide(&row, rec)
		} else {
			err = x.lists(&row, rec)
		}
		if err == nil {
			err = b.add(row)
		}
		if err != nil {
			return err
		}
	}
	if wide {
		x.finishWide()
	} else {
		x.finishLists()
	}
	return nil
}

func nextRecord(c *csv.Reader, file string) ([]string, error) {
	rec, err := c.Read()
	var pe *csv.ParseError
	if errors.As(err, &pe) {
		return nil, formatError(file, pe.Line, "column %d: %v", pe.Column, pe.Err)
	}
	return rec, err
}

// tableRows turns records into rows.
type tableRows struct {
	b     *builder
	h     csvHeader
	file  string
	to    []int32 // class of each column of classes; -1: not wanted
	blank bool    // a cell was empty
	minus bool    // a cell was -1
	zero  bool    // a cell was 0
}

func (x *tableRows) wideClasses(names []string) error {
	if x.b.opt.Classes == nil {
		if err := x.b.setClasses(names, "the header of "+x.file); err != nil {
			return err
		}
	} else if err := x.b.setClasses(nil, ""); err != nil {
		return err
	}
	for _, n := range names {
		c, err := x.b.class(n, x.file, 1)
		if err != nil {
			return err
		}
		x.to = append(x.to, c)
	}
	return nil
}

// Cells of a wide table until its end, when it is known what 0 means.
const (
	cellZero  int8 = 2
	cellBlank int8 = 3
)

func (x *tableRows) wide(r *row, rec []string) error {
	for i, k := range x.h.classes {
		c := x.to[i]
		v := int8(0)
		switch strings.TrimSpace(rec[k]) {
		case "1", "1.0", "true", "True", "TRUE":
			v = 1
		case "0", "0.0", "false", "False", "FALSE":
			x.zero = true
			continue
		case "-1", "-1.0":
			v, x.minus = -1, true
		case "":
			v, x.blank = cellBlank, true
		default:
			return formatError(x.file, r.line, "%q, column %q: the value is %.40q, it must be -1, 0, 1 or empty", r.name, x.b.classes[max(c, 0)], rec[k])
		}
		if c >= 0 {
			r.marks = append(r.marks, mark{c, v})
		}
	}
	return nil
}

// finishWide decides what the numbers mean: -1, 0, 1 with 0 for unknown as soon as there are both -1 and something else than ±1; 0 and 1, empty for unknown, else.
func (x *tableRows) finishWide() {
	b := x.b
	switch {
	case !x.minus && !x.blank, x.minus && !x.zero && !x.blank:
		if x.minus {
			b.note("the cells are -1 and 1: -1 is read as absent, every label is known")
		}
		for i := range b.rows {
			r := &b.rows[i]
			r.complete = true
			for _, m := range r.marks {
				if m.value == 1 {
					r.positive = append(r.positive, m.class)
				}
			}
			r.marks = nil
			x.ruleObserved(r)
		}
	case x.minus:
		b.note("the cells are -1 (absent), 1 (present) and 0 or empty (unknown): these are observed labels")
		for i := range b.rows {
			r := &b.rows[i]
			r.observed = true
			r.marks = slices.DeleteFunc(r.marks, func(m mark) bool { return m.value == cellBlank })
		}
	default:
		b.note("the cells are 0 (absent), 1 (present) and empty (unknown): rows without an empty cell are fully labelled")
		for i := range b.rows {
			r := &b.rows[i]
			known := make([]int8, len(b.classes))
			for _, m := range r.marks {
				known[m.class] = m.value
			}
			blanks := slices.Contains(known, cellBlank)
			r.marks, r.positive = nil, nil
			for c, v := range known {
				if v == 1 {
					r.positive = append(r.positive, int32(c))
				}
				switch v {
				case 1:
					r.marks = append(r.marks, mark{int32(c), 1})
				case 0:
					r.marks = append(r.marks, mark{int32(c), -1})
				}
			}
			if r.observed = true; blanks {
				r.positive = nil
			} else {
				r.complete = true
			}
		}
	}
}

// ruleObserved turns a complete row into an observed one where the caller says that lists are not complete.
func (x *tableRows) ruleObserved(r *row) {
	if x.b.opt.Labels != LabelsObserved || !r.complete {
		return
	}
	for _, c := range r.positive {
		r.marks = append(r.marks, mark{c, 1})
	}
	r.complete, r.observed, r.positive = false, true, nil
}

func (x *tableRows) list(rec []string, k int, line int) ([]int32, error) {
	if k < 0 {
		return nil, nil
	}
	var out []int32
	for _, name := range splitList(rec[k]) {
		c, err := x.b.class(name, x.file, line)
		if err != nil {
			return nil, err
		}
		if c >= 0 {
			out = append(out, c)
		}
	}
	return out, nil
}

// splitList cuts `a|b`, `a;b` or, where neither is there, `a,b`.
func splitList(s string) []string {
	s = strings.TrimSpace(s)
	sep := ","
	if strings.Contains(s, "|") {
		sep = "|"
	} else if strings.Contains(s, ";") {
		sep = ";"
	}
	var out []string
	for p := range strings.SplitSeq(s, sep) {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

// lists reads a row with columns of names.
func (x *tableRows) lists(r *row, rec []string) error {
	positive, err := x.list(rec, x.h.positive, r.line)
	if err != nil {
		return err
	}
	negative, err := x.list(rec, x.h.negative, r.line)
	if err != nil {
		return err
	}
	if _, err = x.list(rec, x.h.unknown, r.line); err != nil {
		return err
	}
	if x.h.labels >= 0 {
		if r.positive, err = x.list(rec, x.h.labels, r.line); err != nil {
			return err
		}
		r.complete = x.h.full < 0 || strings.TrimSpace(rec[x.h.full]) == "1"
		if x.ruleObserved(r); !r.complete && len(r.positive) > 0 {
			return formatError(x.file, r.line, "%q has labels, but its column full is not 1", r.name)
		}
	}
	if x.h.positive >= 0 {
		if r.marks, err = marksOf(positive, negative); err != nil {
			return formatError(x.file, r.line, "%q: %v", r.name, err)
		}
		r.observed = true
	}
	return nil
}

// marksOf makes observed labels of two lists.
func marksOf(positive, negative []int32) ([]mark, error) {
	var m []mark
	for _, c := range positive {
		if slices.Contains(negative, c) {
			return nil, fmt.Errorf("a class is positive and negative")
		}
		m = append(m, mark{c, 1})
	}
	for _, c := range negative {
		m = append(m, mark{c, -1})
	}
	slices.SortFunc(m, func(a, b mark) int { return int(a.class - b.class) })
	return slices.Compact(m), nil
}

func (x *tableRows) finishLists() {
	switch {
	case x.h.labels >= 0 && x.b.opt.Labels != LabelsObserved:
		x.b.note("the lists of labels are read as complete: what is not named is absent (labels: observed reads the rest as unknown)")
	case x.h.positive >= 0 && x.b.opt.Labels == LabelsFull && x.h.negative < 0:
		for i := range x.b.rows {
			r := &x.b.rows[i]
			for _, m := range r.marks {
				r.positive = append(r.positive, m.class)
			}
			r.complete, r.observed, r.marks = true, false, nil
		}
	default:
		x.b.note("what is not named positive or negative is unknown")
	}
}
