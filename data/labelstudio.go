package data

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"
)

func labelStudioFormat() Format {
	return Format{
		Name: "label-studio", Title: "Label Studio export", Holds: "JSON, JSON_MIN or CSV of a project with <Choices choice=\"multiple\">; photos in images/",
		sniff: func(t *tree) int {
			if t.file != "" {
				if isLabelStudioJSON(t, t.file) || isLabelStudioCSV(t, t.file) {
					return 75
				}
				return 0
			}
			if f := labelStudioFiles(t); len(f) == 1 {
				return 75
			}
			return 0
		},
		open:  openLabelStudio,
		write: &writer{write: writeLabelStudio, loses: losesForLabelStudio},
	}
}

func isLabelStudioJSON(t *tree, file string) bool {
	if extension(file) != "json" {
		return false
	}
	h := strings.TrimSpace(string(t.head(file, 1<<16)))
	return strings.HasPrefix(h, "[") && (strings.Contains(h, `"annotations"`) && strings.Contains(h, `"data"`) || strings.Contains(h, `"annotation_id"`) || strings.Contains(h, `"annotator"`) || strings.Contains(h, `"lead_time"`))
}

func isLabelStudioCSV(t *tree, file string) bool {
	if extension(file) != "csv" {
		return false
	}
	first, _, _ := strings.Cut(string(t.head(file, 4096)), "\n")
	return strings.Contains(first, "annotation_id") && strings.Contains(first, "annotator")
}

func labelStudioFiles(t *tree) []string {
	return slices.DeleteFunc(append(t.files(".", "*.json"), t.files(".", "*.csv")...), func(f string) bool {
		return !isLabelStudioJSON(t, f) && !isLabelStudioCSV(t, f)
	})
}

// lsTask is a task with its labels; skipped says that nobody annotated it.
type lsTask struct {
	image   string
	choices []string
	skipped bool
	split   string
	several bool // more than one annotation
}

type lsResult struct {
	Type  string `json:"type"`
	Value struct {
		Choices []string `json:"choices"`
	} `json:"value"`
}

type lsAnnotation struct {
	Cancelled   bool       `json:"was_cancelled"`
	GroundTruth bool       `json:"ground_truth"`
	Result      []lsResult `json:"result"`
}

// parseLabelStudio reads a JSON or JSON_MIN export task by task.
func parseLabelStudio(r io.Reader, file string, f func(i int, t lsTask) error) error {
	s, err := newJSONStream(r, file)
	if err != nil {
		return err
	}
	err = s.array("a Label Studio export", func(i int) error {
		var m map[string]json.RawMessage
		if err := s.decode(fmt.Sprintf("task %d", i), &m); err != nil {
			return err
		}
		t, err := lsTaskOf(m)
		if err != nil {
			return formatError(file, 0, "task %d: %v", i, err)
		}
		return f(i, t)
	})
	if err != nil {
		return err
	}
	return s.end()
}

func lsTaskOf(m map[string]json.RawMessage) (lsTask, error) {
	var t lsTask
	body := m
	if d, ok := m["data"]; ok {
		body = nil
		if err := json.Unmarshal(d, &body); err != nil {
			return t, fmt.Errorf("data: %w", err)
		}
	}
	t.image = lsImage(body)
	if t.image == "" {
		return t, fmt.Errorf("no key holds the photo's name")
	}
	for _, k := range splitColumns {
		if v, ok := body[k]; ok && json.Unmarshal(v, &t.split) == nil {
			break
		}
	}
	raw, full := m["annotations"]
	if !full {
		raw, full = m["completions"]
	}
	if full {
		var all []lsAnnotation
		if err := json.Unmarshal(raw, &all); err != nil {
			return t, fmt.Errorf("annotations: %w", err)
		}
		all = slices.DeleteFunc(all, func(a lsAnnotation) bool { return a.Cancelled })
		if len(all) == 0 {
			t.skipped = true
			return t, nil
		}
		t.several = len(all) > 1
		use := all[len(all)-1] // the last one
		if i := slices.IndexFunc(all, func(a lsAnnotation) bool { return a.GroundTruth }); i >= 0 {
			use = all[i]
		}
		for _, r := range use.Result {
			t.choices = append(t.choices, r.Value.Choices...)
		}
		return t, nil
	}
	// JSON_MIN: the value lies under the name of the Choices tag.
	for k, v := range body {
		if lsMeta[k] || k == "image" {
			continue
		}
		if c, ok := lsChoices(v); ok {
			t.choices = append(t.choices, c...)
		}
	}
	return t, nil
}

// lsMeta are keys of JSON_MIN and CSV that hold no labels.
var lsMeta = map[string]bool{"id": true, "annotator": true, "annotation_id": true, "created_at": true, "updated_at": true, "lead_time": true, "agreement": true,
	"split": true, "part": true, "subset": true, "set": true, "phase": true, "project": true, "inner_id": true, "total_annotations": true, "cancelled_annotations": true,
	"total_predictions": true, "comment_count": true, "unresolved_comment_count": true, "last_comment_updated_at": true, "updated_by": true, "comment_authors": true}

// lsChoices reads {"choices": […]}, a list, or one name that is no path.
func lsChoices(v json.RawMessage) ([]string, bool) {
	var obj struct {
		Choices []string `json:"choices"`
	}
	if json.Unmarshal(v, &obj) == nil && obj.Choices != nil {
		return obj.Choices, true
	}
	var list []string
	if json.Unmarshal(v, &list) == nil {
		return list, true
	}
	var one string
	if json.Unmarshal(v, &one) == nil && one != "" && !isImageName(path.Base(one)) && !strings.Contains(one, "://") {
		return []string{one}, true
	}
	return nil, false
}

// lsImage finds the key of the photo: image, or the first whose value looks like one.
func lsImage(body map[string]json.RawMessage) string {
	var s string
	for _, k := range append([]string{"image"}, imageColumns...) {
		if v, ok := body[k]; ok && json.Unmarshal(v, &s) == nil && s != "" && k != "id" {
			return s
		}
	}
	var keys []string
	for k := range body {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if json.Unmarshal(body[k], &s) == nil && isImageName(path.Base(slashes(s))) {
			return s
		}
	}
	return ""
}

// lsPath turns a reference of Label Studio into a name below the folder of the photos.
func lsPath(ref string) (string, error) {
	ref = slashes(ref)
	u, err := url.Parse(ref)
	if err != nil {
		return "", fmt.Errorf("%.80q is no path or URL", ref)
	}
	if d := u.Query().Get("d"); d != "" && strings.Contains(u.Path, "local-files") {
		return slashes(d), nil
	}
	if u.Scheme != "" && len(u.Scheme) > 1 {
		return path.Base(u.Path), nil
	}
	if rest, ok := strings.CutPrefix(u.Path, "/data/upload/"); ok {
		rest, err := cleanName(rest)
		return path.Base(rest), err
	}
	return ref, nil
}

func openLabelStudio(t *tree, o Options) (*Dataset, error) {
	file := t.file
	if file == "" {
		files := labelStudioFiles(t)
		if len(files) != 1 {
			return nil, formatError(t.name, 0, "%d exports are here: name one", len(files))
		}
		file = files[0]
	}
	b := newBuilder(t, o, file)
	b.places = []string{".", "images", "media", "upload"}
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
	skipped, several := 0, 0
	add := func(i int, task lsTask) error {
		if task.skipped {
			skipped++
			return nil
		}
		if task.several {
			several++
		}
		name, err := lsPath(task.image)
		if err != nil {
			return formatError(file, 0, "task %d: %v", i, err)
		}
		r := row{name: name, file: file, complete: true, ref: len(b.rows)}
		if task.split != "" {
			if r.split, r.placed = parseSplitWord(task.split); !r.placed {
				return formatError(file, 0, "task %d: %.40q is no part: train, val or test", i, task.split)
			}
		}
		for _, n := range task.choices {
			c, err := b.class(n, file, 0)
			if err != nil {
				return err
			}
			if c >= 0 {
				r.positive = append(r.positive, c)
			}
		}
		if o.Labels == LabelsObserved {
			r.marks, _ = marksOf(r.positive, nil)
			r.complete, r.observed, r.positive = false, true, nil
		}
		return b.add(r)
	}
	var err error
	if extension(file) == "csv" {
		err = readLabelStudioCSV(t, file, add)
	} else {
		f, _, oerr := t.open(file, MaxJSONBytes)
		if oerr != nil {
			return nil, oerr
		}
		defer f.Close()
		err = parseLabelStudio(f, file, add)
	}
	if err != nil {
		return nil, err
	}
	if skipped > 0 {
		b.note("%d tasks without an annotation are left out", skipped)
	}
	if several > 0 {
		b.note("%d tasks have several annotations: the ground truth, else the last one counts", several)
	}
	return b.finish()
}

// readLabelStudioCSV reads the CSV export: several choices are a JSON object in the cell.
func readLabelStudioCSV(t *tree, file string, f func(i int, task lsTask) error) error {
	r, err := t.text(file)
	if err != nil {
		return err
	}
	defer r.Close()
	c := newCSVReader(r, file, t)
	header, err := nextRecord(c, file)
	if err != nil {
		if err == io.EOF {
			return formatError(file, 0, "the file is empty")
		}
		return err
	}
	header = slices.Clone(header)
	for i := 0; ; i++ {
		rec, err := nextRecord(c, file)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := c.FieldPos(0)
		if len(rec) != len(header) {
			return formatError(file, line, "the row has %d columns, the header %d", len(rec), len(header))
		}
		body := map[string]json.RawMessage{}
		for k, h := range header {
			cell := strings.TrimSpace(rec[k])
			if cell == "" {
				continue
			}
			raw := json.RawMessage(cell)
			if cell[0] != '{' && cell[0] != '[' || !json.Valid(raw) {
				raw, _ = json.Marshal(cell)
			}
			body[strings.TrimSpace(h)] = raw
		}
		task, err := lsTaskOf(body)
		if err != nil {
			return formatError(file, line, "%v", err)
		}
		if err := f(i, task); err != nil {
			return err
		}
	}
}
