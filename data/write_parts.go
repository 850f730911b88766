package data

import (
	"bufio"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gospml/gospml/npy"
)

// losesParts says what a format loses that keeps a file for each part.
func losesParts(d *Dataset) []string {
	var lost []string
	n := [3]int{}
	grouped := true
	for i, s := range d.Split {
		n[s]++
		grouped = grouped && (i == 0 || s >= d.Split[i-1])
	}
	switch {
	case n[Val] > 0 && n[Test] == 0:
		lost = append(lost, "val rows without test rows (val would be read as the test part)")
	case n[Val]+n[Test] == 0:
		lost = append(lost, "that no row is val or test (parts would be drawn)")
	case n[Train] == 0:
		lost = append(lost, "that no row is a train row")
	case n[Val] == 0 && d.fullOf(Train):
		lost = append(lost, "that there is no val part (it would be drawn)")
	}
	if !grouped {
		lost = append(lost, "the order of rows (parts come one after the other)")
	}
	return lost
}

func losesUnknown(d *Dataset, observed bool) []string {
	var lost []string
	if d.Labels == nil || d.Full != nil {
		lost = append(lost, "rows whose full labels are unknown")
	}
	if observed && d.Observed != nil {
		lost = append(lost, "the observed labels (they would be drawn anew)")
	}
	return lost
}

func losesForCOCO(d *Dataset) []string { return append(losesUnknown(d, false), losesParts(d)...) }

// writeCOCO writes annotations/instances_<part>.json. An image's label is one annotation without a box; ids begin at a power of ten, so that their
// order as decimal strings, which the papers use, is that of the rows. Observed labels stand under a key of their own, which COCO's tools do not read.
func writeCOCO(d *Dataset, w *output) error {
	first := 10
	for first <= 10*d.N() {
		first *= 10
	}
	annotation := 0
	for s := Train; s <= Test; s++ {
		rows := d.Rows(s)
		if len(rows) == 0 {
			continue
		}
		err := w.file("annotations/instances_"+s.String()+".json", func(b *bufio.Writer) error {
			list := func(key string, n int, f func(i int) any) error {
				fmt.Fprintf(b, "\n%q: [", key)
				for i := range n {
					if i > 0 {
						b.WriteByte(',')
					}
					x, err := json.Marshal(f(i))
					if err != nil {
						return err
					}
					b.WriteByte('\n')
					b.Write(x)
				}
				b.WriteString("]")
				return nil
			}
			type image struct {
				ID   int    `json:"id"`
				File string `json:"file_name"`
			}
			type category struct {
				ID   int    `json:"id"`
				Name string `json:"name"`
			}
			type object struct {
				ID       int   `json:"id"`
				Image    int   `json:"image_id"`
				Category int   `json:"category_id"`
				Box      []int `json:"bbox"`
				Area     int   `json:"area"`
				Crowd    int   `json:"iscrowd"`
			}
			var objects []object
			for _, r := range rows {
				labels := d.LabelRow(r)
				if !d.full(r) && d.Observed != nil { // written with losses: what is known
					labels = d.ObservedRow(r)
				}
				for _, c := range columnsOf(labels, 1) {
					annotation++
					objects = append(objects, object{annotation, first + r, c + 1, []int{0, 0, 0, 0}, 0, 0})
				}
			}
			b.WriteString("{")
			if err := list("images", len(rows), func(i int) any { return image{first + rows[i], d.Images[rows[i]]} }); err != nil {
				return err
			}
			b.WriteByte(',')
			if err := list("annotations", len(objects), func(i int) any { return objects[i] }); err != nil {
				return err
			}
			b.WriteByte(',')
			if err := list("categories", d.C(), func(i int) any { return category{i + 1, d.Classes[i]} }); err != nil {
				return err
			}
			if d.Observed != nil {
				b.WriteByte(',')
				ids := func(r int, v int8) []int64 {
					out := []int64{}
					for _, c := range columnsOf(d.ObservedRow(r), v) {
						out = append(out, int64(c+1))
					}
					return out
				}
				err := list(observedKey, len(rows), func(i int) any {
					return cocoLabels{int64(first + rows[i]), ids(rows[i], 1), ids(rows[i], -1)}
				})
				if err != nil {
					return err
				}
			}
			b.WriteString("}\n")
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func losesForVOC(d *Dataset) []string {
	lost := append(losesUnknown(d, true), losesParts(d)...)
	if _, from := inVOCOrder(slices.Clone(d.Classes)); !slices.Equal(d.Classes, VOCClasses) && (!slices.IsSorted(d.Classes) || strings.HasPrefix(from, "Pascal")) {
		lost = append(lost, "the order of the classes (it is VOC's or the alphabet's)")
	}
	empty, names, sorted := 0, 0, true
	last := map[Split]string{}
	for i, n := range d.Images {
		if strings.Contains(n, "/") || !strings.HasSuffix(n, ".jpg") || strings.Contains(n, " ") {
			names++
		}
		sorted = sorted && last[d.Split[i]] <= n && (i == 0 || d.Images[i-1] < n)
		last[d.Split[i]] = n
		if d.Labels != nil && len(columnsOf(d.LabelRow(i), 1)) == 0 {
			empty++
		}
	}
	if names > 0 {
		lost = append(lost, fmt.Sprintf("%d names that are not <id>.jpg without a folder", names))
	}
	if empty > 0 {
		lost = append(lost, fmt.Sprintf("%d images without a label (they are left out on reading)", empty))
	}
	if !sorted {
		lost = append(lost, "the order of rows (it is the alphabet's)")
	}
	for _, c := range d.Classes {
		if strings.ContainsAny(c, "/_") {
			lost = append(lost, "class names with / or _")
			break
		}
	}
	return slices.Compact(lost)
}

func writeVOC(d *Dataset, w *output) error {
	w.photosIn = "JPEGImages"
	id := func(r int) string {
		return strings.NewReplacer("/", "-", " ", "-").Replace(strings.TrimSuffix(d.Images[r], path.Ext(d.Images[r])))
	}
	for s := Train; s <= Test; s++ {
		rows := d.Rows(s)
		if len(rows) == 0 {
			continue
		}
		for c, class := range d.Classes {
			class = strings.NewReplacer("/", "-", "_", "-").Replace(class)
			err := w.file("ImageSets/Main/"+class+"_"+s.String()+".txt", func(b *bufio.Writer) error {
				for _, r := range rows {
					flag := "-1"
					if d.full(r) && d.LabelRow(r)[c] == 1 {
						flag = " 1"
					}
					fmt.Fprintf(b, "%s %s\n", id(r), flag)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		ids := make([]string, len(rows))
		for i, r := range rows {
			ids[i] = id(r)
		}
		if err := w.lines("ImageSets/Main/"+s.String()+".txt", ids); err != nil {
			return err
		}
	}
	return nil
}

func losesForSPML(d *Dataset) []string {
	lost := losesParts(d)
	for i := range d.Images {
		if d.Observed != nil && len(columnsOf(d.ObservedRow(i), -1)) > 0 {
			lost = append(lost, "observed negatives")
			break
		}
	}
	for _, n := range d.Images {
		if strings.Contains(n, ",") || extension(n) == "" {
			lost = append(lost, "image names with a comma or without an extension")
			break
		}
	}
	return lost
}

// writeSPML writes <set>_<part>_full.txt and <set>_<part>_singlelabel.txt.
func writeSPML(d *Dataset, w *output) error {
	set := strings.Map(func(r rune) rune {
		if r == '_' || r == '/' || r == '.' {
			return '-'
		}
		return r
	}, d.Name)
	if err := w.lines("classes.txt", d.Classes); err != nil {
		return err
	}
	for s := Train; s <= Test; s++ {
		rows := d.Rows(s)
		for _, k := range []struct {
			kind string
			m    []int8
			has  func(r int) bool
		}{{"full", d.Labels, d.full}, {"singlelabel", d.Observed, func(int) bool { return true }}} {
			if k.m == nil || len(rows) == 0 || !slices.ContainsFunc(rows, k.has) {
				continue
			}
			err := w.file(set+"_"+s.String()+"_"+k.kind+".txt", func(b *bufio.Writer) error {
				for _, r := range rows {
					if !k.has(r) {
						continue
					}
					b.WriteString(d.Images[r] + ",")
					for _, c := range columnsOf(d.matrixRow(k.m, r), 1) {
						fmt.Fprintf(b, " %d", c)
					}
					b.WriteByte('\n')
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func losesForCole(d *Dataset) []string {
	var lost []string
	train, val := 0, []int{}
	grouped, seen := true, false
	for i, s := range d.Split {
		if s == Test {
			seen = true
			continue
		}
		grouped = grouped && !seen
		if s == Val {
			val = append(val, train)
		}
		train++
		_ = i
	}
	if !seen {
		lost = append(lost, "that there is no test part (it would be drawn)")
	}
	if d.Full != nil {
		lost = append(lost, "rows whose full labels are unknown among others")
	}
	if !slices.Equal(val, drawnVal(train)) && d.Labels != nil {
		lost = append(lost, "the validation rows (the papers' 20 % with seed 1200 are drawn on reading)")
	} else if d.Labels == nil && len(val) > 0 {
		lost = append(lost, "the validation rows")
	}
	if !grouped {
		lost = append(lost, "the order of rows (train and val, then test)")
	}
	return lost
}

func writeCole(d *Dataset, w *output) error {
	for part, in := range map[string]func(Split) bool{"train": func(s Split) bool { return s != Test }, "val": func(s Split) bool { return s == Test }} {
		var rows []int
		for i, s := range d.Split {
			if in(s) {
				rows = append(rows, i)
			}
		}
		if len(rows) == 0 {
			continue
		}
		array := func(name string, a *npy.Array) error {
			return w.file("formatted_"+part+"_"+name+".npy", func(b *bufio.Writer) error { return npy.Encode(b, a) })
		}
		names := make([]string, len(rows))
		for i, r := range rows {
			names[i] = d.Images[r]
		}
		a, err := npyStrings(names)
		if err != nil {
			return err
		}
		if err := array("images", a); err != nil {
			return err
		}
		for i, m := range [][]int8{d.Labels, d.Observed} {
			if m == nil || i == 0 && !d.FullyLabelled(rows) {
				continue
			}
			v := make([]float64, 0, len(rows)*d.C())
			for _, x := range d.Gather(m, rows) {
				v = append(v, float64(x))
			}
			a, err := npy.New([]int64{int64(len(rows)), int64(d.C())}, v)
			if err != nil {
				return err
			}
			if err := array([]string{"labels", "labels_obs"}[i], a); err != nil {
				return err
			}
		}
		if d.Features != nil {
			f := d.Features.Gather(rows)
			a, err := npy.New([]int64{int64(len(rows)), int64(f.Dim)}, f.Values)
			if err != nil {
				return err
			}
			if err := w.file(part+"_features_given.npy", func(b *bufio.Writer) error { return npy.Encode(b, a) }); err != nil {
				return err
			}
		}
	}
	return w.lines("classes.txt", d.Classes)
}

func losesForLabelStudio(d *Dataset) []string { return losesUnknown(d, true) }

// writeLabelStudio writes the JSON that Label Studio imports and exports: a task for each image.
func writeLabelStudio(d *Dataset, w *output) error {
	if err := w.lines("classes.txt", d.Classes); err != nil {
		return err
	}
	return w.file("export.json", func(b *bufio.Writer) error {
		b.WriteByte('[')
		for i, name := range d.Images {
			if i > 0 {
				b.WriteByte(',')
			}
			results := []any{}
			if d.full(i) {
				if n := d.names(columnsOf(d.LabelRow(i), 1)); len(n) > 0 {
					results = append(results, map[string]any{"from_name": "labels", "to_name": "image", "type": "choices", "value": map[string]any{"choices": n}})
				}
			}
			x, err := json.Marshal(map[string]any{
				"id":          i + 1,
				"data":        map[string]any{"image": "/data/local-files/?d=" + urlEscape(name), "split": d.Split[i].String()},
				"annotations": []any{map[string]any{"id": i + 1, "was_cancelled": false, "ground_truth": true, "result": results}},
			})
			if err != nil {
				return err
			}
			b.WriteByte('\n')
			b.Write(x)
		}
		b.WriteString("]\n")
		return nil
	})
}

func losesForFiftyOne(d *Dataset) []string {
	lost := append(losesUnknown(d, true), "the parts (one export for each part keeps them)")
	for _, n := range d.Images {
		if strings.Contains(n, "/") || strings.Contains(strings.TrimSuffix(n, path.Ext(n)), ".") {
			lost = append(lost, "folders and dots in image names")
			break
		}
	}
	return append(lost, "the extensions of image names, unless the photos lie in data/")
}

// writeFiftyOne writes labels.json of FiftyOneImageClassificationDataset.
func writeFiftyOne(d *Dataset, w *output) error {
	w.photosIn = "data"
	return w.file("labels.json", func(b *bufio.Writer) error {
		classes, err := json.Marshal(d.Classes)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "{\"classes\": %s,\n\"labels\": {", classes)
		for i, n := range d.Images {
			key, err := json.Marshal(strings.TrimSuffix(n, path.Ext(n)))
			if err != nil {
				return err
			}
			v := []byte("null")
			if d.full(i) {
				if v, err = json.Marshal(append([]int{}, columnsOf(d.LabelRow(i), 1)...)); err != nil {
					return err
				}
			}
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, "\n%s: %s", key, v)
		}
		b.WriteString("}}\n")
		return nil
	})
}
