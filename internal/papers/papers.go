// Package papers reads the inventory of what the texts of the five papers hold (testdata/papers/index.json): tables,
// figures, equations and settings with their place, and what a text does not state. It is for tests, which hold
// recipes, defaults and published numbers against it.
package papers

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gospml/gospml/internal/testroot"
)

// Entry is one item of a paper. Values are as printed.
type Entry struct {
	Paper   string    `json:"paper"` // vlpl, em, gr, lac, aevlp
	Kind    string    `json:"kind"`  // setting, table, figure, equation, algorithm
	ID      string    `json:"id"`
	What    string    `json:"what"`
	Name    string    `json:"name"`    // settings
	Section string    `json:"section"` // settings
	Value   any       `json:"value"`   // settings
	Stated  *bool     `json:"stated"`  // settings
	Rows    []string  `json:"rows"`    // tables
	Columns []string  `json:"columns"`
	Values  [][]any   `json:"values"`   // tables: [rows][columns], nil where nothing is printed
	Numbers any       `json:"numbers"`  // tables
	Search  any       `json:"searched"` // settings that were tuned
	Grid    any       `json:"grid"`     // figures
	_       [0]func() // entries hold maps: they are not compared
}

// Key names an entry: "gr Table 6: learning rate", "gr Table 2", "gr not stated: optimiser".
func (e *Entry) Key() string {
	if e.Kind != "setting" {
		return e.Paper + " " + e.ID
	}
	if e.Stated != nil && !*e.Stated {
		return e.Paper + " not stated: " + e.Name
	}
	return e.Paper + " " + e.Section + ": " + e.Name
}

// Index reads the inventory in its order.
func Index() ([]Entry, error) {
	b, err := os.ReadFile(testroot.Testdata("papers", "index.json"))
	if err != nil {
		return nil, err
	}
	var all []Entry
	return all, json.Unmarshal(b, &all)
}

// ByKey is Index by Entry.Key.
func ByKey() (map[string]*Entry, error) {
	all, err := Index()
	if err != nil {
		return nil, err
	}
	m := make(map[string]*Entry, len(all))
	for i := range all {
		if m[all[i].Key()] != nil {
			return nil, fmt.Errorf("papers: two entries are called %q", all[i].Key())
		}
		m[all[i].Key()] = &all[i]
	}
	return m, nil
}

// For is what the entry states for one of voc, coco, nus, cub: its value for that data set where it differs, else the
// value.
func (e *Entry) For(dataSet string) any {
	if m, ok := e.Value.(map[string]any); ok {
		return m[dataSet]
	}
	return e.Value
}

// Number reads a printed number: 0.2, "1e-5", "90%" (0.9), "448x448 (…)" (448), "40 with early stopping" (40).
func Number(v any) (float64, bool) {
	switch x := v.(type) {
	case float64:
		return x, true
	case string:
		head := strings.FieldsFunc(strings.ReplaceAll(x, ",", ""), func(r rune) bool { return !strings.ContainsRune("0123456789.eE+-%", r) })
		if len(head) == 0 || !strings.HasPrefix(strings.ReplaceAll(x, ",", ""), head[0]) {
			return 0, false
		}
		text, percent := strings.CutSuffix(head[0], "%")
		f, err := strconv.ParseFloat(text, 64)
		if percent {
			f /= 100
		}
		return f, err == nil
	}
	return 0, false
}
