package data

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/gospml/gospml/torch/safetensors"
)

func featuresFormat() Format {
	return Format{
		Name: "features", Title: "Precomputed features", Holds: "x.npy [rows, features] with x.txt (names), x_labels.npy, x_observed.npy; or .safetensors with features, labels, observed, split",
		sniff: func(t *tree) int {
			switch extension(t.file) {
			case "npy":
				return 50
			case "safetensors":
				return 50
			}
			if t.file == "" && t.has("features.npy") {
				return 55
			}
			if t.file == "" && len(t.files(".", "*.npy"))+len(t.files(".", "*.safetensors")) > 0 {
				return 5
			}
			return 0
		},
		open: openFeatures,
	}
}

func openFeatures(t *tree, o Options) (*Dataset, error) {
	file := t.file
	if file == "" {
		file = "features.npy"
		if !t.has(file) {
			all := append(t.files(".", "*.npy"), t.files(".", "*.safetensors")...)
			return nil, formatError(t.name, 0, "the folder holds %d arrays of features (%s): name one", len(all), strings.Join(all[:min(4, len(all))], ", "))
		}
	}
	b := newBuilder(t, o, file)
	b.places = []string{".", "images"}
	var s featureSet
	var err error
	if extension(file) == "safetensors" {
		s, err = readFeatureTensors(t, file)
	} else {
		s, err = readFeatureArrays(t, file)
	}
	if err != nil {
		return nil, err
	}
	n := len(s.values) / s.dim
	if s.names == nil {
		for i := range n {
			s.names = append(s.names, fmt.Sprintf("%s#%d", stem(file), i))
		}
		b.noPhotos = true
	}
	if len(s.names) != n {
		return nil, formatError(file, 0, "there are %d rows of features, but %d names", n, len(s.names))
	}
	if s.split != nil && len(s.split) != n {
		return nil, formatError(file, 0, "there are %d rows of features, but %d parts", n, len(s.split))
	}
	for what, m := range map[string][]int8{"labels": s.labels, "observed labels": s.observed} {
		if m != nil && len(m) != n*s.c {
			return nil, formatError(file, 0, "there are %d rows of features, but %d rows of %s", n, len(m)/max(s.c, 1), what)
		}
	}
	if s.c > 0 {
		if s.classes != nil && o.Classes == nil {
			if len(s.classes) != s.c {
				return nil, formatError(file, 0, "there are %d label columns, but %d class names", s.c, len(s.classes))
			}
			err = b.setClasses(s.classes, file)
		} else {
			err = b.namedColumns(s.c)
		}
		if err != nil {
			return nil, err
		}
	}
	err = b.addMatrices(s.names, s.labels, s.observed, s.c, file, func(i int) (Split, bool) {
		if s.split == nil {
			return Train, false
		}
		return s.split[i], true
	})
	if err != nil {
		return nil, err
	}
	if s.c == 0 {
		b.note("there are no labels: these features belong to a data set of photos")
	}
	b.features = &Features{Dim: s.dim, Values: s.values}
	return b.finish()
}

// featureSet is what a file of features holds; all but values may be nil.
type featureSet struct {
	dim, c           int
	values           []float32
	labels, observed []int8
	split            []Split
	names, classes   []string
}

func readFeatureArrays(t *tree, file string) (featureSet, error) {
	var s featureSet
	a, err := t.array(file)
	if err != nil {
		return s, err
	}
	if s.values, s.dim, err = featureMatrix(a, file); err != nil {
		return s, err
	}
	base := strings.TrimSuffix(file, ".npy")
	beside := func(what string) string {
		for _, f := range []string{base + "_" + what, what} {
			if t.has(f) && (f != what || base == "features") {
				return f
			}
		}
		return ""
	}
	for i, to := range []*[]int8{&s.labels, &s.observed} {
		f := beside([]string{"labels.npy", "observed.npy"}[i])
		if f == "" {
			continue
		}
		a, err := t.array(f)
		if err != nil {
			return s, err
		}
		v, _, c, err := labelMatrix(a, f, int8(-i))
		if err != nil {
			return s, err
		}
		if s.c > 0 && c != s.c {
			return s, formatError(f, 0, "there are %d columns, but %d of the labels", c, s.c)
		}
		*to, s.c = v, c
	}
	if f := beside("split.npy"); f != "" {
		a, err := t.array(f)
		if err != nil {
			return s, err
		}
		v, err := a.Int64()
		if err != nil {
			return s, formatError(f, 0, "%v", err)
		}
		if s.split, err = splitNumbers(v); err != nil {
			return s, formatError(f, 0, "%v", err)
		}
	}
	if f := beside("classes.txt"); f != "" {
		if s.classes, err = t.lines(f); err != nil {
			return s, err
		}
	}
	for _, f := range []string{base + ".txt", base + "_names.txt", "names.txt"} {
		if t.has(f) && (f != "names.txt" || base == "features") {
			s.names, err = t.lines(f)
			return s, err
		}
	}
	return s, nil
}

func splitNumbers(v []int64) ([]Split, error) {
	out := make([]Split, len(v))
	for i, x := range v {
		if x < 0 || x > int64(Test) {
			return nil, fmt.Errorf("row %d has the part %d: 0 is train, 1 val, 2 test", i, x)
		}
		out[i] = Split(x)
	}
	return out, nil
}

func readFeatureTensors(t *tree, file string) (featureSet, error) {
	var s featureSet
	in, size, err := t.open(file, 1<<36)
	if err != nil {
		return s, err
	}
	defer in.Close()
	f, err := safetensors.Parse(in, size)
	if err != nil {
		return s, formatError(file, 0, "%v", err)
	}
	info, ok := f.Info("features")
	if !ok || len(info.Shape) != 2 || info.Shape[0] < 1 || info.Shape[1] < 1 || info.Shape[0] > maxFeatureLen/info.Shape[1] {
		return s, formatError(file, 0, "it needs a tensor features of the shape [rows, features]; it has %s", strings.Join(f.SortedNames(), ", "))
	}
	if s.values, err = tensorFloats(f, "features"); err != nil {
		return s, formatError(file, 0, "%v", err)
	}
	s.dim = int(info.Shape[1])
	if i := notFinite(s.values); i >= 0 {
		return s, formatError(file, 0, "features: row %d, column %d is %v", i/s.dim, i%s.dim, s.values[i])
	}
	for i, to := range []*[]int8{&s.labels, &s.observed} {
		name := []string{"labels", "observed"}[i]
		info, ok := f.Info(name)
		if !ok {
			continue
		}
		if len(info.Shape) != 2 || info.Shape[1] < 1 || info.Shape[1] > maxColumns || s.c > 0 && int(info.Shape[1]) != s.c {
			return s, formatError(file, 0, "%s has the shape %v, it must be [rows, classes]", name, info.Shape)
		}
		s.c = int(info.Shape[1])
		v, err := tensorFloats(f, name)
		if err != nil {
			return s, formatError(file, 0, "%v", err)
		}
		*to = make([]int8, len(v))
		for k, x := range v {
			if x != 0 && x != 1 && !(x == -1 && i == 1) {
				return s, formatError(file, 0, "%s: row %d, column %d is %v", name, k/s.c, k%s.c, x)
			}
			(*to)[k] = int8(x)
		}
	}
	if _, ok := f.Info("split"); ok {
		v, err := tensorFloats(f, "split")
		if err != nil {
			return s, formatError(file, 0, "%v", err)
		}
		n := make([]int64, len(v))
		for i, x := range v {
			n[i] = int64(x)
		}
		if s.split, err = splitNumbers(n); err != nil {
			return s, formatError(file, 0, "%v", err)
		}
	}
	for key, to := range map[string]*[]string{"images": &s.names, "classes": &s.classes} {
		if text, ok := f.Metadata()[key]; ok {
			if err := json.Unmarshal([]byte(text), to); err != nil {
				return s, formatError(file, 0, "metadata %s must be a JSON list of names: %v", key, err)
			}
		}
	}
	return s, nil
}

// tensorFloats reads a tensor of any number type as float32.
func tensorFloats(f *safetensors.File, name string) ([]float32, error) {
	info, _ := f.Info(name)
	raw, err := f.Bytes(name)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	type reader struct {
		size int
		at   func(b []byte) float32
	}
	r, ok := map[string]reader{
		"F64":  {8, func(b []byte) float32 { return float32(math.Float64frombits(le.Uint64(b))) }},
		"F32":  {4, func(b []byte) float32 { return math.Float32frombits(le.Uint32(b)) }},
		"BF16": {2, func(b []byte) float32 { return math.Float32frombits(uint32(le.Uint16(b)) << 16) }},
		"F16":  {2, func(b []byte) float32 { return halfToFloat(le.Uint16(b)) }},
		"I64":  {8, func(b []byte) float32 { return float32(int64(le.Uint64(b))) }},
		"I32":  {4, func(b []byte) float32 { return float32(int32(le.Uint32(b))) }},
		"I8":   {1, func(b []byte) float32 { return float32(int8(b[0])) }},
		"U8":   {1, func(b []byte) float32 { return float32(b[0]) }},
		"BOOL": {1, func(b []byte) float32 { return float32(b[0]) }},
	}[string(info.Dtype)]
	if !ok {
		return nil, fmt.Errorf("%s has the dtype %s, which is not read here", name, info.Dtype)
	}
	out := make([]float32, len(raw)/r.size)
	for i := range out {
		out[i] = r.at(raw[i*r.size:])
	}
	return out, nil
}

func halfToFloat(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exp, frac := uint32(h>>10)&31, uint32(h)&1023
	switch {
	case exp == 31:
		return math.Float32frombits(sign | 255<<23 | frac<<13)
	case exp == 0:
		v := float32(frac) / (1 << 24)
		if sign != 0 {
			v = -v
		}
		return v
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
