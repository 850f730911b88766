package audit

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/gospml/gospml/data"
)

// modelVersion names the audit among the predictions of a labelling tool.
const modelVersion = "spml-audit"

// photoOf is what a labelling tool is told of a photo: the candidates of it in order, and what it carries already.
type photoOf struct {
	row        int
	image      string
	candidates []Candidate
	carries    []string
}

// byPhoto gathers candidates, in the order of each photo's best.
func (t *Table) byPhoto(ds *data.Dataset) []*photoOf {
	matrix := ds.Observed
	if t.Of == Full {
		matrix = ds.Labels
	}
	var out []*photoOf
	at := map[int]*photoOf{}
	for _, x := range t.Candidates {
		p := at[x.Row]
		if p == nil {
			p = &photoOf{row: x.Row, image: x.Image, carries: []string{}}
			for k, name := range ds.Classes {
				if matrix[x.Row*ds.C()+k] == 1 {
					p.carries = append(p.carries, name)
				}
			}
			at[x.Row] = p
			out = append(out, p)
		}
		p.candidates = append(p.candidates, x)
	}
	return out
}

// lsChoices is the result of one Choices control, as Label Studio has it in predictions and annotations.
type lsChoices struct {
	FromName string         `json:"from_name"`
	ToName   string         `json:"to_name"`
	Type     string         `json:"type"`
	Value    lsChoicesValue `json:"value"`
}

type lsChoicesValue struct {
	Choices []string `json:"choices"`
}

type lsPrediction struct {
	ModelVersion string      `json:"model_version"`
	Score        float64     `json:"score"`
	Result       []lsChoices `json:"result"`
}

// lsData is what a task carries; an export gives it back unchanged.
type lsData struct {
	Image      string             `json:"image"`
	Name       string             `json:"spml_image"`
	Carries    []string           `json:"spml_carries"`
	Candidates []string           `json:"spml_candidates"`
	Scores     map[string]float64 `json:"spml_scores"`
}

// WriteLabelStudio writes tasks with pre-annotations for Label Studio (Import, or its SDK): of each photo the labels it carries and the candidates are ticked, and the
// reviewer unticks what is wrong. prefix is put before the photos' names to make addresses, for instance "/data/local-files/?d=" for its local storage.
func (t *Table) WriteLabelStudio(w io.Writer, ds *data.Dataset, prefix string) error {
	b := bufio.NewWriter(w)
	b.WriteByte('[')
	for i, p := range t.byPhoto(ds) {
		d := lsData{Image: prefix + (&url.URL{Path: p.image}).EscapedPath(), Name: p.image, Carries: p.carries, Scores: map[string]float64{}}
		best := 0.0
		for _, x := range p.candidates {
			d.Candidates = append(d.Candidates, x.Label)
			d.Scores[x.Label] = x.Score
			best = max(best, x.Score)
		}
		ticked := append(append([]string{}, p.carries...), d.Candidates...)
		one, err := json.Marshal(struct {
			Data        lsData         `json:"data"`
			Predictions []lsPrediction `json:"predictions"`
		}{d, []lsPrediction{{modelVersion, best, []lsChoices{{"labels", "image", "choices", lsChoicesValue{ticked}}}}}})
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(one)
	}
	b.WriteString("\n]\n")
	return b.Flush()
}

// WriteLabelStudioConfig writes the labelling configuration that the tasks want.
func WriteLabelStudioConfig(w io.Writer, classes []string) error {
	b := &strings.Builder{}
	b.WriteString("<View>\n  <Image name=\"image\" value=\"$image\"/>\n  <Choices name=\"labels\" toName=\"image\" choice=\"multiple\" showInline=\"true\">\n")
	for _, c := range classes {
		b.WriteString("    <Choice value=\"")
		if err := xml.EscapeText(b, []byte(c)); err != nil {
			return err
		}
		b.WriteString("\"/>\n")
	}
	b.WriteString("  </Choices>\n</View>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// objectID is a MongoDB id made of a text, so that the same audit gives the same file.
func objectID(parts ...any) map[string]string {
	h := sha256.Sum256([]byte(fmt.Sprint(parts...)))
	return map[string]string{"$oid": hex.EncodeToString(h[:12])}
}

// WriteFiftyOne writes samples.json of a FiftyOneDataset; [WriteFiftyOneMetadata] writes the file beside it. The field "audit" has the candidates with score as
// confidence, "labels" what the photos carry. Reviewers tag candidates accept or refuse, or delete the wrong ones.
func (t *Table) WriteFiftyOne(w io.Writer, ds *data.Dataset, folder string) error {
	b := bufio.NewWriter(w)
	b.WriteString(`{"samples": [`)
	for i, p := range t.byPhoto(ds) {
		labels := func(field string, names []string, confidence func(int) any) map[string]any {
			all := []any{}
			for k, n := range names {
				c := map[string]any{"_id": objectID(p.image, field, n), "_cls": "Classification", "tags": []string{}, "label": n}
				if confidence != nil {
					c["confidence"] = confidence(k)
				}
				all = append(all, c)
			}
			return map[string]any{"_cls": "Classifications", "classifications": all}
		}
		var names []string
		for _, x := range p.candidates {
			names = append(names, x.Label)
		}
		one, err := json.Marshal(map[string]any{
			"_id": objectID(p.image), "filepath": filepath.ToSlash(filepath.Join(folder, p.image)), "tags": []string{}, "_media_type": "image",
			"spml_image": p.image, "spml_candidates": names,
			"labels": labels("labels", p.carries, nil),
			"audit":  labels("audit", names, func(k int) any { return p.candidates[k].Score }),
		})
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(one)
	}
	b.WriteString("\n]}\n")
	return b.Flush()
}
