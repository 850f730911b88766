package data

import (
	"encoding/xml"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
)

// VOCClasses are Pascal VOC's 20 classes in the papers' column order.
var VOCClasses = []string{"aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"}

func vocFormat() Format {
	return Format{
		Name: "voc", Title: "Pascal VOC", Holds: "VOCdevkit/VOC2012 with ImageSets/Main/<class>_<part>.txt or Annotations/*.xml, JPEGImages/",
		sniff: func(t *tree) int {
			if t.file != "" {
				return 0
			}
			for _, d := range vocRoots(t) {
				if len(t.files(path.Join(d, "Annotations"), "*.xml")) > 0 || len(t.files(path.Join(d, "ImageSets/Main"), "*_*.txt")) > 0 {
					return 85
				}
			}
			return 0
		},
		open:  openVOC,
		write: &writer{write: writeVOC, loses: losesForVOC},
	}
}

// vocRoots returns the folders below the tree that are a year of VOC.
func vocRoots(t *tree) []string {
	at := []string{"."}
	for _, in := range []string{".", "VOCdevkit"} {
		for _, f := range t.folders(in) {
			if strings.HasPrefix(f, "VOC") && f != "VOCdevkit" {
				at = append(at, path.Join(in, f))
			}
		}
	}
	return slices.DeleteFunc(at, func(d string) bool {
		return !t.isDir(path.Join(d, "Annotations")) && !t.isDir(path.Join(d, "ImageSets"))
	})
}

func openVOC(t *tree, o Options) (*Dataset, error) {
	roots := vocRoots(t)
	if o.Set != "" {
		roots = slices.DeleteFunc(roots, func(d string) bool { return path.Base(d) != o.Set })
	}
	if len(roots) != 1 {
		return nil, formatError(t.name, 0, "%d folders of Pascal VOC are here (%s): name one of them as the data set", len(roots), strings.Join(roots, ", "))
	}
	dir := roots[0]
	b := newBuilder(t, o, path.Join(dir, "Annotations"))
	b.places = []string{path.Join(dir, "JPEGImages"), path.Join(dir, "images")}
	v := &vocReader{b: b, dir: dir, difficult: o.Difficult}
	lists := path.Join(dir, "ImageSets/Main")
	byClass := v.classLists(lists)
	var err error
	if len(byClass) > 0 {
		b.file, b.dropEmpty = lists, true
		err = v.readLists(byClass)
	} else {
		err = v.readXML()
	}
	if err != nil {
		return nil, err
	}
	if v.hard > 0 {
		rule := o.Difficult
		if rule == "" {
			rule = DifficultNegative
		}
		b.note("%d labels are of difficult objects only: they count as %s", v.hard, rule)
	}
	b.sortRows(func(x, y *row) int { return strings.Compare(x.name, y.name) })
	return b.finish()
}

type vocReader struct {
	b         *builder
	dir       string
	difficult DifficultRule
	hard      int
}

// classLists returns the parts of ImageSets/Main that have lists by class, each with its classes.
func (v *vocReader) classLists(dir string) map[string][]string {
	parts := map[string][]string{}
	for _, f := range v.b.t.files(dir, "*_*.txt") {
		name := strings.TrimSuffix(path.Base(f), ".txt")
		i := strings.LastIndexByte(name, '_')
		if class, part := name[:i], name[i+1:]; class != "" && (part == "train" || part == "val" || part == "trainval" || part == "test") {
			parts[part] = append(parts[part], class)
		}
	}
	return parts
}

// inVOCOrder returns VOC's order where all names are its own, else the alphabet's.
func inVOCOrder(names []string) ([]string, string) {
	for _, n := range names {
		if !slices.Contains(VOCClasses, n) {
			slices.Sort(names)
			return slices.Compact(names), "the names in the files, in alphabetical order"
		}
	}
	return VOCClasses, "Pascal VOC, in the papers' order"
}

// readLists reads ImageSets/Main/<class>_<part>.txt: `<id> <flag>`, 1 present, -1 absent, 0 difficult objects only.
func (v *vocReader) readLists(byClass map[string][]string) error {
	b := v.b
	use, note := map[string]Split{"train": Train, "val": Test}, ""
	if len(byClass["test"]) > 0 {
		use = map[string]Split{"trainval": Train, "test": Test}
		if len(byClass["trainval"]) == 0 {
			use = map[string]Split{"train": Train, "val": Val, "test": Test}
		}
	} else if len(byClass["train"]) == 0 {
		use = map[string]Split{"trainval": Train, "val": Test}
	}
	if len(byClass["val"]) > 0 && use["val"] == Test && len(byClass["test"]) == 0 {
		note = valIsTest
	}
	var all []string
	for part := range use {
		all = append(all, byClass[part]...)
	}
	if len(all) == 0 {
		return formatError(b.file, 0, "no list of a class for train, trainval, val or test")
	}
	names, from := inVOCOrder(all)
	if err := b.setClasses(names, from); err != nil {
		return err
	}
	b.splitFrom = "ImageSets/Main"
	if note != "" {
		b.note("%s", note)
	}
	for _, part := range []string{"train", "trainval", "val", "test"} {
		split, wanted := use[part]
		if !wanted || len(byClass[part]) == 0 {
			continue
		}
		rows, order := map[string]*row{}, []string(nil)
		lists := byClass[part]
		slices.Sort(lists)
		for n, class := range lists {
			file := path.Join(v.dir, "ImageSets/Main", class+"_"+part+".txt")
			c, err := b.class(class, file, 0)
			if err != nil {
				return err
			}
			seen := 0
			err = b.t.eachLine(file, func(line int, text string) error {
				f := strings.Fields(text)
				if len(f) != 2 {
					return formatError(file, line, "the line must be `<image> <flag>`")
				}
				r := rows[f[0]]
				if r == nil {
					if n > 0 {
						return formatError(file, line, "image %q is not in the list of class %q", f[0], lists[0])
					}
					r = &row{name: slashes(f[0]) + ".jpg", file: file, line: line, split: split, placed: true, complete: true, ref: -1}
					rows[f[0]] = r
					order = append(order, f[0])
				}
				if r.ref == n {
					return formatError(file, line, "image %q is listed twice", f[0])
				}
				r.ref = n
				seen++
				switch f[1] {
				case "1", "+1":
					v.mark(r, c, true, false)
				case "0":
					v.mark(r, c, false, true)
				case "-1":
				default:
					return formatError(file, line, "the flag %q must be -1, 0 or 1", f[1])
				}
				return nil
			})
			if err != nil {
				return err
			}
			if seen != len(rows) {
				return formatError(file, 0, "it lists %d images, the lists before it %d", seen, len(rows))
			}
		}
		for _, id := range order {
			r := rows[id]
			v.close(r)
			if err := b.add(*r); err != nil {
				return err
			}
		}
	}
	for i := range b.rows {
		b.rows[i].ref = i
	}
	return nil
}

// mark notes a class of a row: easy where an object of it is not difficult.
func (v *vocReader) mark(r *row, c int32, easy, hard bool) {
	if c < 0 {
		return
	}
	switch {
	case easy:
		r.positive = append(r.positive, c)
	case hard:
		v.hard++
		switch v.difficult {
		case DifficultPositive:
			r.positive = append(r.positive, c)
		case DifficultUnknown:
			r.marks = append(r.marks, mark{c, 0})
			r.complete = false
		}
	}
}

// close makes observed labels of a row with unknown ones: everything else of it is known.
func (v *vocReader) close(r *row) {
	if r.complete {
		return
	}
	known := make([]int8, len(v.b.classes))
	for i := range known {
		known[i] = -1
	}
	for _, c := range r.positive {
		known[c] = 1
	}
	for _, m := range r.marks {
		known[m.class] = 0
	}
	r.marks, r.positive, r.observed = nil, nil, true
	for c, k := range known {
		if k != 0 {
			r.marks = append(r.marks, mark{int32(c), k})
		}
	}
}

type vocAnnotation struct {
	XMLName  xml.Name `xml:"annotation"`
	Filename string   `xml:"filename"`
	Objects  []struct {
		Name      string `xml:"name"`
		Difficult string `xml:"difficult"`
	} `xml:"object"`
}

const maxXMLBytes = 16 << 20

// parseVOC reads one annotation.
func parseVOC(r io.Reader, file string) (*vocAnnotation, error) {
	var a vocAnnotation
	d := xml.NewDecoder(r)
	if err := d.Decode(&a); err != nil {
		if err == io.EOF {
			err = errors.New("the file is empty")
		}
		line, _ := d.InputPos()
		return nil, formatError(file, line, "%v", err)
	}
	return &a, nil
}

// readXML reads Annotations/*.xml, and the parts from ImageSets/Main/<part>.txt where they are.
func (v *vocReader) readXML() error {
	b := v.b
	type read struct {
		file    string
		name    string
		easy    []string
		hard    []string
		part    Split
		hasPart bool
	}
	part, err := v.imageSets()
	if err != nil {
		return err
	}
	var all []read
	var names []string
	for _, file := range b.t.files(path.Join(v.dir, "Annotations"), "*.xml") {
		f, _, err := b.t.open(file, maxXMLBytes)
		if err != nil {
			return err
		}
		a, err := parseVOC(f, file)
		f.Close()
		if err != nil {
			return err
		}
		id := strings.TrimSuffix(path.Base(file), ".xml")
		if a.Filename = slashes(strings.TrimSpace(a.Filename)); a.Filename != "" {
			if _, err := cleanName(a.Filename); err != nil {
				return formatError(file, 0, "%v", err)
			}
		}
		r := read{file: file, name: id + ".jpg"}
		if n := path.Base(a.Filename); extension(n) != "" && strings.TrimSuffix(n, path.Ext(n)) == id {
			r.name = n
		} else if a.Filename != "" && !strings.EqualFold(n, id) && extension(n) != "" {
			r.name = n
		}
		r.part, r.hasPart = part[id]
		if len(part) > 0 && !r.hasPart {
			continue
		}
		for _, o := range a.Objects {
			name := strings.TrimSpace(o.Name)
			if err := checkClass(name); err != nil {
				return formatError(file, 0, "%v", err)
			}
			switch d := strings.TrimSpace(o.Difficult); d {
			case "1", "true", "True":
				r.hard = append(r.hard, name)
			case "", "0", "false", "False", "Unspecified":
				r.easy = append(r.easy, name)
			default:
				return formatError(file, 0, "difficult is %.40q, it must be 0 or 1", d)
			}
			names = append(names, name)
		}
		all = append(all, r)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 && b.opt.Classes == nil {
		return formatError(b.file, 0, "no annotation names an object")
	}
	names, from := inVOCOrder(names)
	if err := b.setClasses(names, from); err != nil {
		return err
	}
	b.labelsFrom = path.Join(v.dir, "Annotations")
	if len(part) > 0 {
		b.splitFrom = path.Join(v.dir, "ImageSets/Main")
	}
	for _, r := range all {
		out := row{name: r.name, file: r.file, split: r.part, placed: r.hasPart, complete: true, ref: len(b.rows)}
		var easy, hard []int32
		for i, list := range [][]string{r.easy, r.hard} {
			for _, name := range list {
				c, err := b.class(name, r.file, 0)
				if err != nil {
					return err
				}
				if c >= 0 && i == 0 {
					easy = append(easy, c)
				} else if c >= 0 {
					hard = append(hard, c)
				}
			}
		}
		slices.Sort(hard)
		for _, c := range easy {
			v.mark(&out, c, true, false)
		}
		for _, c := range slices.Compact(hard) {
			if !slices.Contains(easy, c) {
				v.mark(&out, c, false, true)
			}
		}
		v.close(&out)
		if err := b.add(out); err != nil {
			return err
		}
	}
	return nil
}

// imageSets reads ImageSets/Main/{train,val,test}.txt: the part of each image id.
func (v *vocReader) imageSets() (map[string]Split, error) {
	have := map[string]bool{}
	for _, p := range []string{"train", "trainval", "val", "test"} {
		have[p] = v.b.t.has(path.Join(v.dir, "ImageSets/Main", p+".txt"))
	}
	first := "train"
	if !have["train"] || have["test"] && have["trainval"] {
		first = "trainval"
	}
	use := []string{first, "val", "test"}
	to := map[string]Split{first: Train, "val": Test, "test": Test}
	if have["test"] {
		to["val"] = Val
		if first == "trainval" {
			use = []string{first, "test"}
		}
	}
	part := map[string]Split{}
	for _, p := range use {
		if !have[p] {
			continue
		}
		file := path.Join(v.dir, "ImageSets/Main", p+".txt")
		err := v.b.t.eachLine(file, func(line int, text string) error {
			id := strings.Fields(text)[0]
			if old, twice := part[id]; twice && old != to[p] {
				return formatError(file, line, "image %q is in two parts", id)
			}
			part[id] = to[p]
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if have["val"] && !have["test"] && len(part) > 0 {
		v.b.note("%s", valIsTest)
	}
	return part, nil
}
