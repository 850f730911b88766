package audit

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// ErrDecisions is wrapped by errors about a wrong file of decisions.
var ErrDecisions = errors.New("decisions")

// MaxDecisionBytes is the size to which files of decisions are read.
const MaxDecisionBytes = 1 << 30

// Decision is what a person said of a label.
type Decision struct {
	Image, Label string
	Accept       bool
	From         string // file and line or entry
}

// Decisions are all that were read.
type Decisions struct {
	All       []Decision
	Undecided int // candidates that nobody decided
}

// Words of a decision.
const (
	Accept = "accept"
	Refuse = "refuse"
)

// ReadDecisions reads what reviewers decided, by content:
//
//   - CSV with the columns image, label and decision (accept, refuse or nothing): the page's file and the audit's own table.
//   - JSON or JSON_MIN of a Label Studio project whose tasks [Table.WriteLabelStudio] wrote: a candidate that is ticked is accepted, one that is not is refused; further
//     labels that were ticked are accepted, and labels that the photo carried and that were unticked are refused. Tasks without an annotation are undecided.
//   - samples.json of a FiftyOneDataset export: candidates with the tag accept or refuse, deleted ones are refused.
func ReadDecisions(path string) (*Decisions, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxDecisionBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > MaxDecisionBytes {
		return nil, fmt.Errorf("%w: %s is larger than 1 GB", ErrDecisions, path)
	}
	return ParseDecisions(path, b)
}

// ParseDecisions is ReadDecisions for bytes; name stands in errors.
func ParseDecisions(name string, b []byte) (d *Decisions, err error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	d = &Decisions{}
	switch t := bytes.TrimSpace(b); {
	case len(t) == 0:
		err = errors.New("the file is empty")
	case t[0] == '[':
		err = d.labelStudio(name, t)
	case t[0] == '{':
		err = d.fiftyOne(name, t)
	default:
		err = d.csv(name, b)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDecisions, name, err)
	}
	return d, nil
}

func (d *Decisions) csv(name string, b []byte) error {
	r := csv.NewReader(bytes.NewReader(b))
	r.FieldsPerRecord = 0
	head, err := r.Read()
	if err != nil {
		return err
	}
	at := [3]int{}
	for i, want := range []string{"image", "label", "decision"} {
		if at[i] = slices.IndexFunc(head, func(h string) bool { return strings.EqualFold(strings.TrimSpace(h), want) }); at[i] < 0 {
			return fmt.Errorf("there is no column %q: want image, label and decision", want)
		}
	}
	for {
		rec, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := r.FieldPos(0)
		if err := d.add(unmark(rec[at[0]]), unmark(rec[at[1]]), rec[at[2]], fmt.Sprintf("%s:%d", name, line)); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// add takes a decision by its word.
func (d *Decisions) add(image, label, word, from string) error {
	if image == "" || label == "" {
		return errors.New("image and label must be named")
	}
	switch strings.ToLower(strings.TrimSpace(word)) {
	case "":
		d.Undecided++
	case Accept:
		d.All = append(d.All, Decision{image, label, true, from})
	case Refuse:
		d.All = append(d.All, Decision{image, label, false, from})
	default:
		return fmt.Errorf("the decision %.40q is none of %s, %s or nothing", word, Accept, Refuse)
	}
	return nil
}

func (d *Decisions) labelStudio(name string, b []byte) error {
	var tasks []map[string]json.RawMessage
	if err := json.Unmarshal(b, &tasks); err != nil {
		return err
	}
	for i, task := range tasks {
		from := fmt.Sprintf("%s, task %d", name, i)
		body, full := task, false
		if raw, ok := task["data"]; ok {
			body = nil
			if err := json.Unmarshal(raw, &body); err != nil {
				return fmt.Errorf("task %d: data: %w", i, err)
			}
			full = true
		}
		var known lsData
		for key, to := range map[string]any{"spml_image": &known.Name, "spml_candidates": &known.Candidates, "spml_carries": &known.Carries} {
			raw, ok := body[key]
			if !ok || json.Unmarshal(raw, to) != nil {
				return fmt.Errorf("task %d has no %s: it was not written by spml audit", i, key)
			}
		}
		ticked, done, err := ticks(task, body, full)
		if err != nil {
			return fmt.Errorf("task %d: %w", i, err)
		}
		if !done {
			d.Undecided += len(known.Candidates)
			continue
		}
		for _, c := range known.Candidates {
			d.All = append(d.All, Decision{known.Name, c, slices.Contains(ticked, c), from})
		}
		for _, c := range ticked {
			if !slices.Contains(known.Candidates, c) && !slices.Contains(known.Carries, c) {
				d.All = append(d.All, Decision{known.Name, c, true, from})
			}
		}
		for _, c := range known.Carries {
			if !slices.Contains(ticked, c) {
				d.All = append(d.All, Decision{known.Name, c, false, from})
			}
		}
	}
	return nil
}

// ticks are the labels that the reviewer left ticked; of several annotations the ground truth, else the last one.
func ticks(task, body map[string]json.RawMessage, full bool) (names []string, done bool, err error) {
	if !full { // JSON_MIN: one annotation a line, the value under the name of the Choices; a single one is a text
		if _, ok := task["annotation_id"]; !ok {
			return nil, false, nil
		}
		raw, ok := body["labels"]
		if !ok || string(raw) == "null" {
			return nil, true, nil
		}
		var many struct {
			Choices []string `json:"choices"`
		}
		var list []string
		var one string
		switch {
		case json.Unmarshal(raw, &many) == nil && many.Choices != nil:
			return many.Choices, true, nil
		case json.Unmarshal(raw, &list) == nil:
			return list, true, nil
		case json.Unmarshal(raw, &one) == nil && one == "":
			return nil, true, nil
		case json.Unmarshal(raw, &one) == nil:
			return []string{one}, true, nil
		}
		return nil, false, errors.New("labels is no list of choices")
	}
	var all []struct {
		Cancelled   bool        `json:"was_cancelled"`
		GroundTruth bool        `json:"ground_truth"`
		Result      []lsChoices `json:"result"`
	}
	if raw, ok := task["annotations"]; ok {
		if err := json.Unmarshal(raw, &all); err != nil {
			return nil, false, fmt.Errorf("annotations: %w", err)
		}
	}
	for i := range all {
		a := all[len(all)-1-i]
		if a.Cancelled || done && !a.GroundTruth {
			continue
		}
		names, done = nil, true
		for _, r := range a.Result {
			names = append(names, r.Value.Choices...)
		}
		if a.GroundTruth {
			break
		}
	}
	return names, done, nil
}

func (d *Decisions) fiftyOne(name string, b []byte) error {
	var export struct {
		Samples []struct {
			Image      string    `json:"spml_image"`
			Candidates *[]string `json:"spml_candidates"`
			Audit      struct {
				Classifications []struct {
					Label string   `json:"label"`
					Tags  []string `json:"tags"`
				} `json:"classifications"`
			} `json:"audit"`
		} `json:"samples"`
	}
	if err := json.Unmarshal(b, &export); err != nil {
		return err
	}
	if export.Samples == nil {
		return errors.New("there are no samples: want samples.json of a FiftyOneDataset export")
	}
	for i, s := range export.Samples {
		if s.Image == "" || s.Candidates == nil {
			return fmt.Errorf("sample %d has no spml_image or spml_candidates: it was not written by spml audit", i)
		}
		from := fmt.Sprintf("%s, sample %d", name, i)
		seen := map[string]bool{}
		for _, c := range s.Audit.Classifications {
			yes, no := slices.Contains(c.Tags, Accept), slices.Contains(c.Tags, Refuse)
			seen[c.Label] = true
			switch {
			case yes && no:
				return fmt.Errorf("sample %d: %s is tagged both %s and %s", i, c.Label, Accept, Refuse)
			case !yes && !no:
				d.Undecided++
			default:
				d.All = append(d.All, Decision{s.Image, c.Label, yes, from})
			}
		}
		for _, c := range *s.Candidates {
			if !seen[c] { // deleted
				d.All = append(d.All, Decision{s.Image, c, false, from})
			}
		}
	}
	return nil
}
