package data

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

func jsonlFormat() Format {
	return Format{
		Name: "jsonl", Title: "JSON lines", Holds: `metadata.jsonl with {"file_name": …, "labels": […]} or "positive", "negative", "unknown"; "split" if wanted`,
		sniff: func(t *tree) int {
			if t.file != "" {
				if e := extension(t.file); e == "jsonl" || e == "ndjson" {
					return 60
				}
				return 0
			}
			if len(jsonlFiles(t)) > 0 {
				return 70
			}
			return 0
		},
		open:  openJSONL,
		write: &writer{write: writeJSONL, loses: losesNothing},
	}
}

// jsonlFiles returns metadata.jsonl, one for each part (train/metadata.jsonl or train.jsonl), or the only .jsonl file.
func jsonlFiles(t *tree) []string {
	if t.has("metadata.jsonl") {
		return []string{"metadata.jsonl"}
	}
	var all []string
	for _, d := range t.folders(".") {
		if f := path.Join(d, "metadata.jsonl"); t.has(f) {
			all = append(all, f)
		}
	}
	if len(all) > 0 {
		return all
	}
	all = t.files(".", "*.jsonl")
	if len(all) > 1 {
		all = slices.DeleteFunc(all, func(f string) bool { _, ok := partName(stem(f)); return !ok })
	}
	return all
}

// jsonRow is one line. Labels are names, or numbers where the classes are given.
type jsonRow struct {
	name                                 string
	labels, positive, negative, unknown  []string
	hasLabels, hasPositive, hasNeg, hasU bool
	split                                string
}

// parseJSONRow reads a line.
func parseJSONRow(text []byte) (jsonRow, error) {
	var m map[string]json.RawMessage
	var r jsonRow
	if err := json.Unmarshal(text, &m); err != nil {
		return r, err
	}
	for _, k := range imageColumns {
		if v, ok := m[k]; ok && json.Unmarshal(v, &r.name) == nil && r.name != "" {
			break
		}
	}
	if r.name == "" {
		return r, fmt.Errorf("there is no file_name")
	}
	return r, r.read(m)
}

// parseJSONLabels reads an object that names no file.
func parseJSONLabels(text []byte) (jsonRow, error) {
	var m map[string]json.RawMessage
	var r jsonRow
	if err := json.Unmarshal(text, &m); err != nil {
		return r, err
	}
	return r, r.read(m)
}

func (r *jsonRow) read(m map[string]json.RawMessage) error {
	for _, l := range []struct {
		keys []string
		to   *[]string
		has  *bool
	}{{labelColumns, &r.labels, &r.hasLabels}, {positiveColumns, &r.positive, &r.hasPositive}, {negativeColumns, &r.negative, &r.hasNeg}, {unknownColumns, &r.unknown, &r.hasU}} {
		for _, k := range l.keys {
			if v, ok := m[k]; ok && !*l.has {
				list, err := jsonNames(v)
				if err != nil {
					return fmt.Errorf("%q: %w", k, err)
				}
				*l.to, *l.has = list, true
			}
		}
	}
	for _, k := range splitColumns {
		if v, ok := m[k]; ok {
			if err := json.Unmarshal(v, &r.split); err != nil {
				return fmt.Errorf("%q must be train, val or test", k)
			}
			break
		}
	}
	return nil
}

// jsonNames reads a name, a number, or a list of them; null is the empty list.
func jsonNames(v json.RawMessage) ([]string, error) {
	var list []json.RawMessage
	if json.Unmarshal(v, &list) != nil {
		list = []json.RawMessage{v}
	}
	out := []string{}
	for _, e := range list {
		var s string
		var n json.Number
		switch {
		case string(e) == "null":
		case json.Unmarshal(e, &s) == nil:
			out = append(out, s)
		case json.Unmarshal(e, &n) == nil:
			out = append(out, n.String())
		default:
			return nil, fmt.Errorf("%.60s is neither a name nor a number", e)
		}
	}
	return out, nil
}

func openJSONL(t *tree, o Options) (*Dataset, error) {
	files := []string{t.file}
	if t.file == "" {
		files = jsonlFiles(t)
	}
	b := newBuilder(t, o, strings.Join(files, " and "))
	b.places = []string{".", "images", "data"}
	if t.has("classes.txt") && o.Classes == nil {
		names, err := t.lines("classes.txt")
		if err != nil {
			return nil, err
		}
		if err := b.setClasses(names, "classes.txt"); err != nil {
			return nil, err
		}
	} else if err := b.openClasses(); err != nil {
		return nil, err
	}
	have, part := map[string]bool{}, make([]string, len(files))
	for i, f := range files {
		name := stem(f)
		if d := path.Dir(f); d != "." {
			name = d
		}
		p, ok := partName(name)
		if len(files) > 1 && !ok {
			return nil, formatError(f, 0, "%d files are here and this one is neither of train, val nor test: name one file", len(files))
		}
		part[i], have[p] = p, true
	}
	to, note := partSplits(have)
	if note != "" && len(files) > 1 {
		b.note("%s", note)
	}
	j := &jsonlReader{b: b}
	for _, want := range []string{"train", "val", "test", ""} {
		for i, f := range files {
			if part[i] != want {
				continue
			}
			if err := j.read(f, placedSplit(to, want, len(files) > 1), len(files) > 1); err != nil {
				return nil, err
			}
		}
	}
	j.finish()
	return b.finish()
}

type jsonlReader struct {
	b        *builder
	rest     []int // rows whose other labels are absent but for the unknown ones
	restMark [][]int32
	lists    int
	marks    int
}

func (j *jsonlReader) classes(names []string, file string, line int) ([]int32, error) {
	var out []int32
	for _, n := range names {
		c, err := j.b.class(n, file, line)
		if err != nil {
			if k, nerr := parseIndex(n); nerr == nil && int(k) < len(j.b.classes) && j.b.closed {
				out = append(out, k)
				continue
			}
			return nil, err
		}
		if c >= 0 {
			out = append(out, c)
		}
	}
	return out, nil
}

func (j *jsonlReader) read(file string, split Split, placed bool) error {
	b := j.b
	dir := path.Dir(file)
	return b.t.eachLine(file, func(line int, text string) error {
		l, err := parseJSONRow([]byte(text))
		if err != nil {
			return formatError(file, line, "%v", err)
		}
		r := row{name: path.Join(dir, slashes(l.name)), file: file, line: line, split: split, placed: placed, ref: len(b.rows)}
		if dir == "." {
			r.name = slashes(l.name)
		} else if _, err := cleanName(slashes(l.name)); err != nil {
			return formatError(file, line, "%v", err)
		}
		return j.addRow(r, l, file, line)
	})
}

// addRow appends a row with the labels of its line.
func (j *jsonlReader) addRow(r row, l jsonRow, file string, line int) error {
	b := j.b
	var err error
	if l.split != "" && !r.placed {
		if r.split, r.placed = parseSplitWord(l.split); !r.placed {
			return formatError(file, line, "%.40q is no part: train, val or test", l.split)
		}
	}
	var lists [4][]int32
	for i, names := range [][]string{l.labels, l.positive, l.negative, l.unknown} {
		if lists[i], err = j.classes(names, file, line); err != nil {
			return err
		}
	}
	if !l.hasLabels && !l.hasPositive && !l.hasNeg && !l.hasU {
		return formatError(file, line, "there is neither labels nor positive, negative, unknown")
	}
	if l.hasLabels {
		j.lists++
		r.positive, r.complete = lists[0], true
		if b.opt.Labels == LabelsObserved && !l.hasPositive {
			r.positive, r.complete, r.observed = nil, false, true
			r.marks, _ = marksOf(lists[0], nil)
		}
	}
	if l.hasPositive || l.hasNeg || l.hasU {
		j.marks++
		r.observed = true
		if r.marks, err = marksOf(lists[1], lists[2]); err != nil {
			return formatError(file, line, "%q: %v", r.name, err)
		}
		if l.hasU && !l.hasNeg && !l.hasLabels {
			j.rest, j.restMark = append(j.rest, len(b.rows)), append(j.restMark, lists[3])
		}
	}
	if b.opt.Labels == LabelsFull && r.observed && !l.hasLabels && !l.hasU && !l.hasNeg {
		r.complete, r.observed, r.positive, r.marks = true, false, lists[1], nil
	}
	before := len(b.rows)
	if err := b.add(r); err != nil {
		return err
	}
	if n := len(j.rest); len(b.rows) == before && n > 0 && j.rest[n-1] == before {
		j.rest, j.restMark = j.rest[:n-1], j.restMark[:n-1]
	}
	return nil
}

// finish fills the rows that name their unknown labels: what is neither positive nor unknown is absent.
func (j *jsonlReader) finish() {
	b := j.b
	for i, at := range j.rest {
		r := &b.rows[at]
		known := make([]int8, len(b.classes))
		for c := range known {
			known[c] = -1
		}
		for _, c := range j.restMark[i] {
			known[c] = 0
		}
		for _, m := range r.marks {
			known[m.class] = m.value
		}
		r.marks, r.complete = nil, len(j.restMark[i]) == 0
		for c, v := range known {
			if v != 0 {
				r.marks = append(r.marks, mark{int32(c), v})
			}
			if v == 1 && r.complete {
				r.positive = append(r.positive, int32(c))
			}
		}
	}
	if j.lists > 0 && j.b.opt.Labels != LabelsObserved {
		b.note("labels is read as complete: what is not named is absent")
	}
	if j.marks > 0 {
		b.note("positive, negative and unknown are read as observed labels; where unknown is not named, the rest is unknown, where it is, the rest is absent")
	}
}
