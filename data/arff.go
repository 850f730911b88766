package data

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

func arffFormat() Format {
	return Format{
		Name: "arff", Title: "Mulan and MEKA tables", Holds: "<name>-train.arff and <name>-test.arff with <name>.xml (Mulan), or `-C n` in the relation (MEKA); dense or sparse",
		sniff: func(t *tree) int {
			if t.file != "" {
				if extension(t.file) == "arff" {
					return 80
				}
				return 0
			}
			if len(t.files(".", "*.arff")) > 0 {
				return 75
			}
			return 0
		},
		open: openARFF,
	}
}

// arffAttribute is a column: numeric, or one of values.
type arffAttribute struct {
	name   string
	values []string
}

type arffHeader struct {
	relation   string
	attributes []arffAttribute
}

// arffFile reads an ARFF file; row is called with each row's cells, in the order of the attributes. A cell is a number, or the place in the values.
func parseARFF(r io.Reader, file string, header func(*arffHeader) error, data func(line int, cells []float64) error) error {
	h := &arffHeader{}
	inData := false
	var cells []float64
	err := eachLine(r, file, func(line int, text string) error {
		if text = strings.TrimSpace(text); text[0] == '%' {
			return nil
		}
		if inData {
			if cells == nil {
				cells = make([]float64, len(h.attributes))
			}
			if err := h.row(text, cells); err != nil {
				return formatError(file, line, "%v", err)
			}
			return data(line, cells)
		}
		word, rest, _ := strings.Cut(strings.ReplaceAll(text, "\t", " "), " ")
		switch strings.ToLower(word) {
		case "@relation":
			h.relation, _, _ = arffToken(strings.TrimSpace(rest))
		case "@attribute":
			a, err := parseAttribute(strings.TrimSpace(rest))
			if err != nil {
				return formatError(file, line, "%v", err)
			}
			if len(h.attributes) == 1<<20 {
				return formatError(file, line, "there are more than %d attributes", 1<<20)
			}
			h.attributes = append(h.attributes, a)
		case "@data":
			inData = true
			if len(h.attributes) == 0 {
				return formatError(file, line, "there is no attribute")
			}
			return header(h)
		default:
			return formatError(file, line, "%.40q is neither @relation, @attribute nor @data", text)
		}
		return nil
	})
	if err == nil && !inData {
		err = formatError(file, 0, "there is no @data")
	}
	return err
}

// arffToken cuts the first token, quoted or not.
func arffToken(s string) (token, rest string, err error) {
	if s == "" {
		return "", "", fmt.Errorf("a name is missing")
	}
	if q := s[0]; q == '\'' || q == '"' {
		var b strings.Builder
		for i := 1; i < len(s); i++ {
			switch {
			case s[i] == '\\' && i+1 < len(s):
				i++
				b.WriteByte(s[i])
			case s[i] == q:
				return b.String(), s[i+1:], nil
			default:
				b.WriteByte(s[i])
			}
		}
		return "", "", fmt.Errorf("a quote is not closed")
	}
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		return s[:i], s[i:], nil
	}
	return s, "", nil
}

func parseAttribute(s string) (arffAttribute, error) {
	name, rest, err := arffToken(s)
	if err != nil {
		return arffAttribute{}, err
	}
	a := arffAttribute{name: name}
	kind := strings.TrimSpace(rest)
	if strings.HasPrefix(kind, "{") {
		inner, ok := strings.CutSuffix(kind[1:], "}")
		if !ok {
			return a, fmt.Errorf("attribute %.80q: its values have no closing brace", name)
		}
		for len(strings.TrimSpace(inner)) > 0 {
			v, rest, err := arffCell(strings.TrimSpace(inner))
			if err != nil {
				return a, fmt.Errorf("attribute %.80q: %w", name, err)
			}
			if slices.Contains(a.values, v) {
				return a, fmt.Errorf("attribute %.80q: the value %.40q is there twice", name, v)
			}
			if a.values = append(a.values, v); len(a.values) > 1<<16 {
				return a, fmt.Errorf("attribute %.80q has more than %d values", name, 1<<16)
			}
			inner = rest
		}
		if len(a.values) == 0 {
			return a, fmt.Errorf("attribute %.80q has no values", name)
		}
		return a, nil
	}
	word, _, _ := strings.Cut(strings.ToLower(kind), " ")
	switch word {
	case "numeric", "real", "integer":
		return a, nil
	}
	return a, fmt.Errorf("attribute %.80q is of the kind %.40q: numbers and lists of values are read", name, kind)
}

// arffCell cuts a cell before the next comma.
func arffCell(s string) (cell, rest string, err error) {
	if s != "" && (s[0] == '\'' || s[0] == '"') {
		if cell, rest, err = arffToken(s); err != nil {
			return "", "", err
		}
		rest = strings.TrimLeft(rest, " \t")
		if rest != "" && rest[0] != ',' {
			return "", "", fmt.Errorf("a comma is missing after %.40q", cell)
		}
		return cell, strings.TrimPrefix(rest, ","), nil
	}
	cell, rest, _ = strings.Cut(s, ",")
	return strings.TrimSpace(cell), rest, nil
}

// row fills cells from a line, dense or sparse ({index value, …}, the rest is 0).
func (h *arffHeader) row(text string, cells []float64) error {
	if strings.HasPrefix(text, "{") {
		inner, _, ok := strings.Cut(text[1:], "}")
		if !ok {
			return fmt.Errorf("a sparse row has no closing brace")
		}
		clear(cells)
		before := int32(-1)
		for len(strings.TrimSpace(inner)) > 0 {
			number, rest, _ := strings.Cut(strings.TrimSpace(inner), " ")
			i, err := parseIndex(number)
			if err != nil || int(i) >= len(cells) || i <= before {
				return fmt.Errorf("%.40q must be an attribute's number, ascending, below %d", number, len(cells))
			}
			before = i
			v, rest, err := arffCell(strings.TrimSpace(rest))
			if err != nil {
				return err
			}
			if cells[i], err = h.value(int(i), v); err != nil {
				return err
			}
			inner = rest
		}
		return nil
	}
	for i := range cells {
		v, rest, err := arffCell(strings.TrimLeft(text, " \t"))
		if err != nil {
			return err
		}
		if i == len(cells)-1 {
			if k := strings.IndexByte(rest, '{'); strings.TrimSpace(rest) != "" && k != 0 {
				return fmt.Errorf("the row has more than %d values", len(cells))
			}
		} else if rest == "" && !strings.Contains(text, ",") {
			return fmt.Errorf("the row has %d values, there are %d attributes", i+1, len(cells))
		}
		if cells[i], err = h.value(i, v); err != nil {
			return err
		}
		text = rest
	}
	return nil
}

// value reads a cell; a missing one (?) is NaN.
func (h *arffHeader) value(i int, s string) (float64, error) {
	a := &h.attributes[i]
	if s == "?" {
		return math.NaN(), nil
	}
	if a.values == nil {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(v) || math.Abs(v) > math.MaxFloat32 {
			return 0, fmt.Errorf("attribute %.80q: %.40q is no finite number", a.name, s)
		}
		return v, nil
	}
	k := slices.Index(a.values, s)
	if k < 0 {
		return 0, fmt.Errorf("attribute %.80q: %.40q is none of its %d values", a.name, s, len(a.values))
	}
	return float64(k), nil
}

type mulanLabels struct {
	Labels []mulanLabel `xml:"label"`
}

type mulanLabel struct {
	Name   string       `xml:"name,attr"`
	Labels []mulanLabel `xml:"label"`
}

// parseMulan reads the names of the labels, those of a hierarchy in document order.
func parseMulan(r io.Reader, file string) ([]string, error) {
	var m mulanLabels
	d := xml.NewDecoder(io.LimitReader(r, maxXMLBytes))
	if err := d.Decode(&m); err != nil {
		line, _ := d.InputPos()
		return nil, formatError(file, line, "%v", err)
	}
	var names []string
	var walk func([]mulanLabel)
	walk = func(l []mulanLabel) {
		for _, x := range l {
			names = append(names, x.Name)
			walk(x.Labels)
		}
	}
	walk(m.Labels)
	if len(names) == 0 {
		return nil, formatError(file, 0, "no label is named")
	}
	return names, nil
}

func openARFF(t *tree, o Options) (*Dataset, error) {
	files, set, err := arffFiles(t, o.Set)
	if err != nil {
		return nil, err
	}
	b := newBuilder(t, o, files[0].file)
	b.noPhotos = true
	t.name = set
	var labels []string
	for _, f := range t.files(".", "*.xml") {
		if n := strings.TrimSuffix(f, ".xml"); n == set || strings.EqualFold(n, set) || len(t.files(".", "*.xml")) == 1 {
			r, err := t.text(f)
			if err != nil {
				return nil, err
			}
			labels, err = parseMulan(r, f)
			r.Close()
			if err != nil {
				return nil, err
			}
			if err := b.setClasses(labels, f); err != nil {
				return nil, err
			}
			break
		}
	}
	table := &arffTable{b: b, labels: labels}
	have := map[string]bool{}
	for _, f := range files {
		have[f.part] = true
	}
	to, note := partSplits(have)
	if note != "" && len(files) > 1 {
		b.note("%s", note)
	}
	var from []string
	for _, f := range files {
		if err := table.read(f.file, placedSplit(to, f.part, len(files) > 1), len(files) > 1); err != nil {
			return nil, err
		}
		from = append(from, f.file)
	}
	table.fillMissing()
	b.features = &Features{Dim: len(table.columns), Values: table.values}
	if b.features.Dim == 0 {
		return nil, formatError(b.file, 0, "there is no attribute beside the labels")
	}
	for i, c := range table.wide {
		if c > 0 {
			b.note("attribute %q has %d values without order: one column for each", table.head.attributes[i].name, c)
			if len(b.notes) > 8 {
				b.note("…")
				break
			}
		}
	}
	b.labelsFrom, b.splitFrom = strings.Join(from, " and "), strings.Join(from, " and ")
	return b.finish()
}

// arffFiles returns the files of the set: train and test, or the one file.
func arffFiles(t *tree, set string) ([]listFile, string, error) {
	if t.file != "" {
		name := strings.TrimSuffix(t.file, ".arff")
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			if _, ok := partName(name[i+1:]); ok {
				name = name[:i]
			}
		}
		return []listFile{{file: t.file, set: name}}, name, nil
	}
	bySet := map[string][]listFile{}
	for _, f := range t.files(".", "*.arff") {
		l := listFile{file: f, set: strings.TrimSuffix(f, ".arff")}
		if dense, ok := strings.CutSuffix(l.set, "-sparse"); ok {
			l.set, l.kind = dense, "sparse"
		}
		if i := strings.LastIndexByte(l.set, '-'); i > 0 {
			if p, ok := partName(l.set[i+1:]); ok {
				l.set, l.part = l.set[:i], p
			}
		}
		bySet[l.set] = append(bySet[l.set], l)
	}
	var sets []string
	for s, l := range bySet {
		// train and test beside the whole: the whole is the same rows again
		if parts := slices.DeleteFunc(slices.Clone(l), func(x listFile) bool { return x.part == "" }); len(parts) > 0 {
			bySet[s] = parts
		}
		// the same part dense and sparse: once is enough
		bySet[s] = slices.DeleteFunc(slices.Clone(bySet[s]), func(x listFile) bool {
			return x.kind == "sparse" && slices.ContainsFunc(l, func(y listFile) bool { return y.kind == "" && y.part == x.part })
		})
		sets = append(sets, s)
	}
	slices.Sort(sets)
	if set == "" && len(sets) == 1 {
		set = sets[0]
	}
	files := bySet[set]
	if len(files) == 0 {
		return nil, "", formatError(t.name, 0, "the folder holds the tables %s: name one set, for instance %s", strings.Join(sets, ", "), path.Join(t.dir, sets[0]))
	}
	order := []string{"train", "val", "test", ""}
	slices.SortStableFunc(files, func(x, y listFile) int { return slices.Index(order, x.part) - slices.Index(order, y.part) })
	return files, set, nil
}

// arffTable turns the rows of the files into labels and feature columns.
type arffTable struct {
	b       *builder
	labels  []string
	head    *arffHeader
	class   []int32 // of each attribute; -1: a label that is ignored
	isLabel []bool  // of each attribute
	ones    []int   // of each label attribute, the place of "1" in its values
	wide    []int   // of each attribute, number of columns where it has more than two values
	columns []int   // attribute of each feature column
	values  []float32
	missing int
}

func (a *arffTable) header(h *arffHeader, file string) error {
	if a.head != nil {
		if !slices.EqualFunc(a.head.attributes, h.attributes, func(x, y arffAttribute) bool { return x.name == y.name && slices.Equal(x.values, y.values) }) {
			return formatError(file, 0, "its attributes are not those of %s", a.b.file)
		}
		return nil
	}
	a.head = h
	if a.labels == nil {
		first, n, err := mekaLabels(h)
		if err != nil {
			return formatError(file, 0, "%v", err)
		}
		for _, x := range h.attributes[first : first+n] {
			a.labels = append(a.labels, x.name)
		}
		if err := a.b.setClasses(a.labels, "-C in the relation of "+file); err != nil {
			return err
		}
	}
	isLabel := map[string]bool{}
	for _, l := range a.labels {
		isLabel[l] = true
	}
	found := 0
	for i, x := range h.attributes {
		a.class, a.isLabel, a.wide, a.ones = append(a.class, -1), append(a.isLabel, isLabel[x.name]), append(a.wide, 0), append(a.ones, 1)
		if isLabel[x.name] {
			c, err := a.b.class(x.name, file, 0)
			if err != nil {
				return err
			}
			if a.ones[i] = slices.Index(x.values, "1"); x.values != nil && (len(x.values) > 2 || a.ones[i] < 0) {
				return formatError(file, 0, "the label %q must have the values 0 and 1", x.name)
			}
			a.class[i] = c
			isLabel[x.name] = false
			found++
			continue
		}
		n := 1
		if len(x.values) > 2 {
			n = len(x.values)
			a.wide[i] = n
		}
		for range n {
			a.columns = append(a.columns, i)
		}
	}
	if found != len(a.labels) {
		for _, l := range a.labels {
			if isLabel[l] {
				return formatError(file, 0, "the label %q is no attribute", l)
			}
		}
	}
	return nil
}

// mekaLabels reads MEKA's `name: -C n`: the first n attributes are labels, with -n the last.
func mekaLabels(h *arffHeader) (first, n int, err error) {
	f := strings.Fields(strings.ReplaceAll(h.relation, ":", " "))
	i := slices.IndexFunc(f, func(s string) bool { return strings.EqualFold(s, "-c") })
	if i < 0 || i+1 == len(f) {
		return 0, 0, fmt.Errorf("which attributes are labels? Put Mulan's <name>.xml beside the file, or MEKA's `-C n` into the relation's name")
	}
	n, err = strconv.Atoi(f[i+1])
	if err != nil || n == 0 || n >= len(h.attributes) || -n >= len(h.attributes) {
		return 0, 0, fmt.Errorf("-C %s: there are %d attributes", f[i+1], len(h.attributes))
	}
	if n < 0 {
		return len(h.attributes) + n, -n, nil
	}
	return 0, n, nil
}

func (a *arffTable) read(file string, split Split, placed bool) error {
	r, _, err := a.b.t.open(file, MaxCSVBytes)
	if err != nil {
		return err
	}
	defer r.Close()
	n := 0
	return parseARFF(r, file, func(h *arffHeader) error { return a.header(h, file) }, func(line int, cells []float64) error {
		n++
		out := row{name: fmt.Sprintf("%s#%d", stem(file), n), file: file, line: line, split: split, placed: placed, complete: true, ref: len(a.b.rows)}
		if len(a.values)+len(a.columns) > maxFeatureLen {
			return formatError(file, line, "there are more than %d feature values", maxFeatureLen)
		}
		for i, v := range cells {
			switch c := a.class[i]; {
			case a.isLabel[i]:
				present := v == 1
				if a.head.attributes[i].values != nil {
					present = int(v) == a.ones[i]
				} else if v != 0 && v != 1 {
					return formatError(file, line, "the label %q is %v, it must be 0 or 1", a.head.attributes[i].name, v)
				}
				if math.IsNaN(v) {
					return formatError(file, line, "the label %q is missing (?)", a.head.attributes[i].name)
				}
				if present && c >= 0 {
					out.positive = append(out.positive, c)
				}
			case a.wide[i] > 0:
				for k := range a.wide[i] {
					x := float32(0)
					if math.IsNaN(v) {
						x = float32(math.NaN())
					} else if int(v) == k {
						x = 1
					}
					a.values = append(a.values, x)
				}
			default:
				a.values = append(a.values, float32(v))
			}
			if math.IsNaN(v) {
				a.missing++
			}
		}
		return a.b.add(out)
	})
}

// fillMissing replaces missing values by their column's mean over the train rows.
func (a *arffTable) fillMissing() {
	if a.missing == 0 {
		return
	}
	d := len(a.columns)
	for c := range d {
		sum, n := 0.0, 0
		for i := range a.b.rows {
			if v := float64(a.values[i*d+c]); !math.IsNaN(v) && a.b.rows[i].split == Train {
				sum, n = sum+v, n+1
			}
		}
		mean := float32(sum / float64(max(n, 1)))
		for i := range a.b.rows {
			if v := &a.values[i*d+c]; math.IsNaN(float64(*v)) {
				*v = mean
			}
		}
	}
	a.b.note("%d missing values are filled with the mean of their column over the train rows", a.missing)
}
