package data

import (
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

func fiftyOneFormat() Format {
	return Format{
		Name: "fiftyone", Title: "FiftyOne export", Holds: "labels.json with classes and labels (FiftyOneImageClassificationDataset), or samples.json (FiftyOneDataset); photos in data/",
		sniff: func(t *tree) int {
			f := t.file
			if f == "" {
				f = fiftyOneFile(t)
			}
			if f != "" && extension(f) == "json" && isFiftyOne(t, f) {
				return 78
			}
			return 0
		},
		open:  openFiftyOne,
		write: &writer{write: writeFiftyOne, loses: losesForFiftyOne},
	}
}

func fiftyOneFile(t *tree) string {
	for _, f := range []string{"samples.json", "labels.json"} {
		if t.has(f) {
			return f
		}
	}
	return ""
}

func isFiftyOne(t *tree, file string) bool {
	h := strings.TrimSpace(string(t.head(file, 1<<16)))
	return strings.HasPrefix(h, "{") && (strings.Contains(h, `"samples"`) && strings.Contains(h, `"filepath"`) || strings.Contains(h, `"labels"`) && !cocoKey.MatchString(h) && !strings.Contains(h, `"images"`))
}

// foSample is a sample; known is false where nothing is said about it.
type foSample struct {
	key    string // file name or uuid
	labels []string
	known  bool
	split  string
}

// parseFiftyOne reads labels.json or samples.json. classes is called where the file has them, before the first sample or after.
func parseFiftyOne(r io.Reader, file, field string, classes func([]string) error, sample func(foSample) error) error {
	s, err := newJSONStream(r, file)
	if err != nil {
		return err
	}
	found := false
	err = s.object("a FiftyOne export", func(key string) error {
		switch key {
		case "classes":
			var names []string
			if s.decode("classes", &names) != nil {
				return formatError(file, 0, "classes must be a list of names")
			}
			if len(names) == 0 {
				return nil
			}
			return classes(names)
		case "labels":
			found = true
			return s.object("labels", func(uuid string) error {
				var raw json.RawMessage
				if err := s.decode("labels of "+uuid, &raw); err != nil {
					return err
				}
				names, known, err := foLabels(raw)
				if err != nil {
					return formatError(file, 0, "labels of %.80q: %v", uuid, err)
				}
				return sample(foSample{key: uuid, labels: names, known: known})
			})
		case "samples":
			found = true
			return s.array("samples", func(i int) error {
				var m map[string]json.RawMessage
				if err := s.decode(fmt.Sprintf("samples[%d]", i), &m); err != nil {
					return err
				}
				x, err := foSampleOf(m, field)
				if err != nil {
					return formatError(file, 0, "samples[%d]: %v", i, err)
				}
				return sample(x)
			})
		}
		return s.skip()
	})
	if err == nil {
		err = s.end()
	}
	if err == nil && !found {
		err = formatError(file, 0, "there is neither labels nor samples")
	}
	return err
}

// foLabels reads what stands for an image: null, a class number or name, a list of them, or Classification(s).
func foLabels(raw json.RawMessage) (names []string, known bool, err error) {
	if string(raw) == "null" {
		return nil, false, nil
	}
	var one struct {
		Label           *string           `json:"label"`
		Labels          json.RawMessage   `json:"labels"`
		Classifications []json.RawMessage `json:"classifications"`
		Detections      []json.RawMessage `json:"detections"`
		Kind            string            `json:"_cls"`
	}
	if raw[0] == '{' {
		if err := json.Unmarshal(raw, &one); err != nil {
			return nil, false, err
		}
		switch {
		case one.Label != nil:
			return []string{*one.Label}, true, nil
		case one.Labels != nil:
			return foLabels(one.Labels)
		case one.Classifications != nil || one.Detections != nil || one.Kind == "Classifications" || one.Kind == "Detections":
			for _, c := range append(one.Classifications, one.Detections...) {
				n, _, err := foLabels(c)
				if err != nil {
					return nil, false, err
				}
				names = append(names, n...)
			}
			return names, true, nil
		}
		return nil, false, fmt.Errorf("%.60s holds no label", raw)
	}
	if raw[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, false, err
		}
		for _, e := range list {
			n, _, err := foLabels(e)
			if err != nil {
				return nil, false, err
			}
			names = append(names, n...)
		}
		return names, true, nil
	}
	names, err = jsonNames(raw)
	return names, true, err
}

// foSampleOf reads a sample of samples.json: its photo, its first field of labels (or the named one) and its tags.
func foSampleOf(m map[string]json.RawMessage, field string) (foSample, error) {
	var x foSample
	if v, ok := m["filepath"]; !ok || json.Unmarshal(v, &x.key) != nil || x.key == "" {
		return x, fmt.Errorf("there is no filepath")
	}
	var tags []string
	if v, ok := m["tags"]; ok && json.Unmarshal(v, &tags) == nil {
		for _, tag := range tags {
			if p, ok := partName(tag); ok && x.split == "" {
				x.split = p
			}
		}
	}
	keys := []string{field}
	if field == "" {
		keys = []string{"ground_truth"}
		for k := range m {
			if k != "ground_truth" {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys[1:])
	}
	for _, k := range keys {
		v, ok := m[k]
		if !ok {
			continue
		}
		var kind struct {
			Kind string `json:"_cls"`
		}
		if string(v) == "null" || len(v) == 0 || v[0] != '{' || json.Unmarshal(v, &kind) != nil || !slices.Contains([]string{"Classifications", "Classification", "Detections"}, kind.Kind) {
			continue
		}
		var err error
		x.labels, x.known, err = foLabels(v)
		return x, err
	}
	return x, nil
}

func openFiftyOne(t *tree, o Options) (*Dataset, error) {
	file := or(t.file, fiftyOneFile(t))
	b := newBuilder(t, o, file)
	b.places = []string{".", "data", "images"}
	if err := b.openClasses(); err != nil {
		return nil, err
	}
	var names []string
	var samples []foSample
	f, _, err := t.open(file, MaxJSONBytes)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	err = parseFiftyOne(f, file, o.Set, func(c []string) error { names = c; return nil }, func(s foSample) error {
		if len(samples) == maxRows {
			return formatError(file, 0, "there are more than %d samples", maxRows)
		}
		samples = append(samples, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if names != nil && o.Classes == nil {
		b.sortByName = false
		if err := b.setClasses(names, "classes of "+file); err != nil {
			return nil, err
		}
	}
	// labels.json names photos without their extension.
	ext := map[string]string{}
	for _, d := range []string{"data", "images", "."} {
		all, _ := t.list(d)
		for _, e := range all {
			if !e.IsDir() && isImageName(e.Name()) {
				id := strings.TrimSuffix(e.Name(), path.Ext(e.Name()))
				if _, ok := ext[id]; !ok {
					ext[id] = e.Name()
				}
			}
		}
	}
	skipped := 0
	for _, s := range samples {
		if !s.known {
			skipped++
			continue
		}
		name := slashes(s.key)
		if n, ok := ext[name]; ok && !isImageName(name) {
			name = n
		}
		r := row{name: name, file: file, complete: true, ref: len(b.rows)}
		if s.split != "" {
			r.split, r.placed = parseSplitWord(s.split)
		}
		for _, n := range s.labels {
			c, err := b.class(n, file, 0)
			if err != nil {
				k, nerr := parseIndex(n)
				if nerr != nil || int(k) >= len(b.classes) || names == nil {
					return nil, err
				}
				c = k
			}
			if c >= 0 {
				r.positive = append(r.positive, c)
			}
		}
		if o.Labels == LabelsObserved {
			r.marks, _ = marksOf(r.positive, nil)
			r.complete, r.observed, r.positive = false, true, nil
		}
		if err := b.add(r); err != nil {
			return nil, err
		}
	}
	if skipped > 0 {
		b.note("%d samples without labels are left out", skipped)
	}
	return b.finish()
}
