package data

import (
	"fmt"
	"slices"

	"github.com/gospml/gospml/npy"
)

func coleFormat() Format {
	return Format{
		Name: "cole", Title: "Cole et al.'s arrays", Holds: "formatted_{train,val}_{images,labels,labels_obs}.npy; val is the test part",
		sniff: func(t *tree) int {
			if t.file == "" && t.has("formatted_train_images.npy") {
				return 95
			}
			return 0
		},
		open:  openCole,
		write: &writer{write: writeCole, loses: losesForCole},
	}
}

// array reads a .npy file of the tree.
func (t *tree) array(name string) (*npy.Array, error) {
	f, size, err := t.open(name, 1<<36)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	a, err := npy.Decode(f, size)
	if err != nil {
		return nil, formatError(name, 0, "%v", err)
	}
	return a, nil
}

// labelMatrix reads [N, C] of whole numbers from lowest to 1.
func labelMatrix(a *npy.Array, file string, lowest int8) (values []int8, n, c int, err error) {
	if len(a.Shape) != 2 || a.Shape[0] < 1 || a.Shape[1] < 1 || a.Shape[1] > maxColumns || a.Shape[0] > maxRows {
		return nil, 0, 0, formatError(file, 0, "the shape is %v, it must be [rows, classes]", a.Shape)
	}
	n, c = int(a.Shape[0]), int(a.Shape[1])
	v, err := a.Float64()
	if err != nil {
		ints, ierr := a.Int64()
		if ierr != nil {
			return nil, 0, 0, formatError(file, 0, "%v", err)
		}
		v = make([]float64, len(ints))
		for i, x := range ints {
			v[i] = float64(x)
		}
	}
	values = make([]int8, len(v))
	for i, x := range v {
		k := int8(0)
		switch {
		case x == 1:
			k = 1
		case x == -1 && lowest == -1:
			k = -1
		case x != 0:
			return nil, 0, 0, formatError(file, 0, "row %d, column %d is %v, it must be %s", i/c, i%c, x, map[int8]string{0: "0 or 1", -1: "-1, 0 or 1"}[lowest])
		}
		values[i] = k
	}
	return values, n, c, nil
}

// addMatrices appends rows given as matrices; labels or observed may be nil.
func (b *builder) addMatrices(names []string, labels, observed []int8, c int, file string, split func(i int) (Split, bool)) error {
	for i, name := range names {
		r := row{name: name, file: file, ref: len(b.rows)}
		r.split, r.placed = split(i)
		if labels != nil {
			r.complete = true
			for k, v := range labels[i*c : (i+1)*c] {
				if v == 1 {
					r.positive = append(r.positive, int32(k))
				}
			}
		}
		if observed != nil {
			r.observed = true
			for k, v := range observed[i*c : (i+1)*c] {
				if v != 0 {
					r.marks = append(r.marks, mark{int32(k), v})
				}
			}
		}
		before := len(b.rows)
		if err := b.add(r); err != nil {
			return err
		}
		if len(b.rows) == before {
			return formatError(file, 0, "row %d: %q is there twice", i, name)
		}
	}
	return nil
}

func openCole(t *tree, o Options) (*Dataset, error) {
	b := newBuilder(t, o, "formatted_train_images.npy")
	b.places = []string{".", "images", "VOCdevkit/VOC2012/JPEGImages", "JPEGImages", "Flickr", "CUB_200_2011/images", "CUB_200_2011/CUB_200_2011/images"}
	var features []*npy.Array
	for _, part := range []string{"train", "val"} {
		if part == "val" && !t.has("formatted_val_images.npy") {
			break
		}
		file := "formatted_" + part + "_images.npy"
		a, err := t.array(file)
		if err != nil {
			return nil, err
		}
		names, err := a.Strings()
		if err != nil || len(a.Shape) != 1 {
			return nil, formatError(file, 0, "it must be a list of names")
		}
		var m [2][]int8
		c := 0
		for i, suffix := range []string{"_labels.npy", "_labels_obs.npy"} {
			f := "formatted_" + part + suffix
			if !t.has(f) {
				continue
			}
			a, err := t.array(f)
			if err != nil {
				return nil, err
			}
			v, n, k, err := labelMatrix(a, f, int8(-i))
			if err != nil {
				return nil, err
			}
			if n != len(names) || c > 0 && k != c {
				return nil, formatError(f, 0, "the shape is [%d, %d], but %s names %d images and there are %d classes", n, k, file, len(names), c)
			}
			m[i], c = v, k
		}
		if m[0] == nil && m[1] == nil {
			return nil, formatError("formatted_"+part+"_labels.npy", 0, "neither labels nor labels_obs is here")
		}
		if part == "train" {
			if err := b.namedColumns(c); err != nil {
				return nil, err
			}
		} else if c != len(b.classes) {
			return nil, formatError(file, 0, "there are %d classes, but %d in the train part", c, len(b.classes))
		}
		s := Train
		if part == "val" {
			s = Test
		}
		if err := b.addMatrices(names, m[0], m[1], c, file, func(int) (Split, bool) { return s, t.has("formatted_val_images.npy") }); err != nil {
			return nil, err
		}
		if f := t.files(".", part+"_features_*.npy"); len(f) > 0 {
			a, err := t.array(f[0])
			if err != nil {
				return nil, err
			}
			features = append(features, a)
		}
	}
	for i := range b.rows {
		r := &b.rows[i]
		for _, m := range r.marks {
			if r.complete && (m.value == 1) != slices.Contains(r.positive, m.class) {
				return nil, formatError(r.file, 0, "%q: labels_obs contradicts labels in column %d", r.name, m.class)
			}
		}
	}
	b.labelsFrom, b.obsFrom, b.splitFrom = "formatted_*_labels.npy", "formatted_*_labels_obs.npy", "the names of the files"
	if len(features) > 0 {
		f := &Features{}
		for _, a := range features {
			v, d, err := featureMatrix(a, "features")
			if err != nil {
				return nil, err
			}
			if f.Dim > 0 && d != f.Dim {
				return nil, formatError(t.name, 0, "the features of train and val have %d and %d columns", f.Dim, d)
			}
			f.Dim, f.Values = d, append(f.Values, v...)
		}
		if f.N() == len(b.rows) {
			b.features = f
		} else {
			b.note("the feature files have %d rows, the labels %d: they are not used", f.N(), len(b.rows))
		}
	}
	return b.finish()
}

// namedColumns names c columns that a file only counts.
func (b *builder) namedColumns(c int) error {
	if err := b.setNumberedClasses(b.t.name, "classes.txt", "attributes.txt"); err != nil {
		return err
	}
	if b.closed && len(b.classes) != c {
		if b.opt.Classes != nil || b.classFrom == "classes.txt" {
			return formatError(b.file, 0, "there are %d label columns, but %s names %d classes", c, b.classFrom, len(b.classes))
		}
		b.classes, b.classAt, b.closed = nil, map[string]int32{}, false
		b.classFrom = "the numbers of the columns: give the names as classes.txt beside them"
	}
	for !b.closed && len(b.classes) < c {
		if _, err := b.addClass(fmt.Sprintf("class %d", len(b.classes)), b.file, 0); err != nil {
			return err
		}
	}
	return nil
}

func featureMatrix(a *npy.Array, file string) ([]float32, int, error) {
	if len(a.Shape) != 2 || a.Shape[0] < 1 || a.Shape[1] < 1 || a.Shape[0] > maxFeatureLen/a.Shape[1] {
		return nil, 0, formatError(file, 0, "the shape is %v, it must be [rows, features]", a.Shape)
	}
	v, err := a.Float32()
	if err != nil {
		d, derr := a.Float64()
		if derr != nil {
			return nil, 0, formatError(file, 0, "%v", err)
		}
		v = make([]float32, len(d))
		for i, x := range d {
			v[i] = float32(x)
		}
	}
	if i := notFinite(v); i >= 0 {
		return nil, 0, formatError(file, 0, "row %d, column %d is %v", i/int(a.Shape[1]), i%int(a.Shape[1]), v[i])
	}
	return v, int(a.Shape[1]), nil
}

func notFinite(v []float32) int {
	return slices.IndexFunc(v, func(x float32) bool { return x-x != 0 })
}
