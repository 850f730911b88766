// Package reproduce maps the tables and figures of the papers to what makes them here: methods by recipes for a table, a command for a picture, or a
// sentence that says what is missing. The map is papers.yaml; docs/papers.md is made of it.
//
// Everything is read only and safe for many goroutines; functions return errors.
package reproduce

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/recipe"
	"github.com/gospml/gospml/spml/train"
)

//go:generate go run ./docs ../../docs/papers.md

//go:embed papers.yaml
var source []byte

// DataSets are the papers' data sets, the columns of their tables.
var DataSets = []string{"voc", "coco", "nus", "cub"}

// Item is a table or a figure: Rows (or Sweeps) that are trained, a Command, or both: a figure whose runs are trained first.
type Item struct {
	ID       string         `yaml:"id"`   // paper:what, such as vlpl:table1
	Also     []string       `yaml:"also"` // further tables and figures that it makes, by their ids
	Title    string         `yaml:"title"`
	Recipe   string         `yaml:"recipe"`   // paper's id in names of recipes
	Backbone string         `yaml:"backbone"` // of the recipe; resnet50 where it is empty
	Settings map[string]any `yaml:"settings"` // of package train, for every row
	Rows     []Row          `yaml:"rows"`     // where Sweeps are named: their points
	Sweeps   []string       `yaml:"sweeps"`   // of package recipe; Rows are their points
	Points   []Row          `yaml:"points"`   // published numbers of the points, by name
	// Command are arguments of spml that draw the figure. $DATA stands for the data set, $CLIP for a CLIP, $RUN and $RUN2 for the runs of the first two rows, $FOLDER for the
	// folder of all runs, $OUT for the folder of what is written, $PHOTO for a photo; $PHOTOS is the photo, or the test part of the run's data.
	Command []string `yaml:"command"`
	Writes  string   `yaml:"writes"` // the file, or what is printed
}

// Row is a line of a table.
type Row struct {
	Name      string             `yaml:"name"`
	Method    string             `yaml:"method"` // as compare.Methods takes it
	Set       map[string]any     `yaml:"-"`      // a point's settings
	Needs     string             `yaml:"needs"`  // in place of Method
	Published map[string]float64 `yaml:"published"`
}

// Items lists the map in the order of the file.
func Items() ([]Item, error) {
	var items []Item
	d := yaml.NewDecoder(strings.NewReader(string(source)))
	d.KnownFields(true)
	if err := d.Decode(&items); err != nil {
		return nil, fmt.Errorf("reproduce: papers.yaml: %w", err)
	}
	for i := range items {
		if err := items[i].expand(); err != nil {
			return nil, fmt.Errorf("reproduce: papers.yaml: %s: %w", items[i].ID, err)
		}
	}
	return items, nil
}

// expand makes rows of the points of sweeps.
func (it *Item) expand() error {
	if len(it.Sweeps) > 0 && len(it.Rows) > 0 {
		return errors.New("rows and sweeps")
	}
	for _, name := range it.Sweeps {
		s, err := recipe.GetSweep(name)
		if err != nil {
			return err
		}
		points, err := s.Points()
		if err != nil {
			return err
		}
		names := s.Names()
		for i, set := range points {
			r := Row{Method: s.Method, Set: set}
			if names != nil {
				r.Name = names[i]
			} else {
				r.Name = pointName(set)
			}
			if len(it.Sweeps) > 1 {
				r.Name = s.Method + " " + r.Name
			}
			for _, p := range it.Points {
				if p.Name == r.Name {
					r.Published = p.Published
				}
			}
			it.Rows = append(it.Rows, r)
		}
	}
	for _, p := range it.Points {
		if !slices.ContainsFunc(it.Rows, func(r Row) bool { return r.Name == p.Name }) {
			return fmt.Errorf("no sweep of it has the point %q", p.Name)
		}
	}
	return nil
}

// pointName are the settings of a point in a few words, without what all points share.
func pointName(set map[string]any) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(set)) {
		if text, ok := set[k].(string); ok && k == "pseudo_options" {
			parts = append(parts, strings.NewReplacer(";", " ", ",", " ").Replace(text))
			continue
		}
		parts = append(parts, fmt.Sprintf("%s=%v", strings.TrimPrefix(k, "params."), set[k]))
	}
	return strings.Join(parts, " ")
}

// Get finds an item; the error of an unknown id has those of the same paper.
func Get(id string) (*Item, error) {
	items, err := Items()
	if err != nil {
		return nil, err
	}
	var same, all []string
	paper, _, _ := strings.Cut(id, ":")
	for i := range items {
		if items[i].ID == id || slices.Contains(items[i].Also, id) {
			return &items[i], nil
		}
		for _, one := range append([]string{items[i].ID}, items[i].Also...) {
			all = append(all, one)
			if strings.HasPrefix(one, paper+":") {
				same = append(same, one)
			}
		}
	}
	if same == nil {
		same = all
	}
	return nil, &train.ConfigError{Msg: fmt.Sprintf("no table or figure is called %q; there are %s", id, strings.Join(same, ", "))}
}

// Variables are those that the Command names, in its order.
func (it *Item) Variables() []string {
	var out []string
	for _, v := range variable.FindAllString(strings.Join(it.Command, " "), -1) {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

var variable = regexp.MustCompile(`\$[A-Z0-9]+`)

// Arguments are the Command with what the variables stand for; a variable without a value is an error that names it.
func (it *Item) Arguments(values map[string]string) ([]string, error) {
	if values["$PHOTOS"] == "" {
		values["$PHOTOS"] = values["$PHOTO"]
	}
	var out []string
	for _, a := range it.Command {
		if a == "$PHOTOS" && values[a] == "" { // the photos of the run's own data
			out = append(out, "--part", "test")
			continue
		}
		var missing string
		a = variable.ReplaceAllStringFunc(a, func(v string) string {
			if values[v] == "" {
				missing = v
			}
			return values[v]
		})
		if missing != "" {
			return nil, &MissingError{Item: it.ID, Variable: missing}
		}
		out = append(out, a)
	}
	return out, nil
}

// MissingError says which variable of a command has no value.
type MissingError struct{ Item, Variable string }

func (e *MissingError) Error() string { return e.Item + " wants " + e.Variable }

// RecipeFor is the recipe of an item for one of DataSets.
func (it *Item) RecipeFor(data string) (*recipe.Recipe, error) {
	if !slices.Contains(DataSets, data) {
		return nil, &train.ConfigError{Msg: fmt.Sprintf("no column is called %q; there are %s", data, strings.Join(DataSets, ", "))}
	}
	b := it.Backbone
	if b == "" {
		b = "resnet50"
	}
	return recipe.Get(it.Recipe + "-" + data + "-" + b)
}

// Variants are the rows that can be trained, named as in the paper. A method that learns from pseudo-labels is left out without a file of them or a CLIP that makes them,
// and one whose point says how they are made wants the CLIP.
func (it *Item) Variants(pseudoLabels, clip bool) (variants []compare.Variant, left []Row, err error) {
	for _, r := range it.Rows {
		if r.Method == "" {
			left = append(left, r)
			continue
		}
		v, err := compare.Methods([]string{r.Method})
		if err != nil {
			return nil, nil, err
		}
		made := r.Set["pseudo_options"] != nil || v[0].Set["pseudo_options"] != nil || strings.HasPrefix(r.Method, train.DualCoOp)
		switch {
		case made && !clip:
			r.Needs = "a CLIP: --clip MODEL, or builtin for drawn pictures"
		case !pseudoLabels && !clip && needsFile(r.Method):
			r.Needs = "pseudo-labels: --clip MODEL makes them, or --pseudo-labels FILE has them"
		}
		if r.Needs != "" {
			left = append(left, r)
			continue
		}
		for k, x := range r.Set {
			v[0].Set[k] = x
		}
		v[0].Name = strings.ReplaceAll(r.Name, "/", "-") // it is a folder's name too
		variants = append(variants, v[0])
	}
	return variants, left, nil
}

// Line is a row of ours beside the published one.
type Line struct {
	Name       string   `json:"name"`
	Ours       *float64 `json:"ours,omitempty"` // mean over seeds
	SD         float64  `json:"sd,omitempty"`
	Seeds      int      `json:"seeds,omitempty"`
	Published  *float64 `json:"published,omitempty"`
	Difference *float64 `json:"difference,omitempty"`
	Needs      string   `json:"needs,omitempty"`
}

// Lines lays a table that was trained beside the item's column; data is one of DataSets, or "" for data that no paper has.
func (it *Item) Lines(t *compare.Table, data string, left []Row) []Line {
	var out []Line
	for _, r := range it.Rows {
		l := Line{Name: r.Name}
		if p, ok := r.Published[data]; ok {
			l.Published = &p
		}
		for _, x := range t.Rows {
			if x.Name == strings.ReplaceAll(r.Name, "/", "-") {
				l.Ours, l.SD, l.Seeds = &x.BestMean, x.BestSD, len(x.Seeds)
			}
		}
		for _, x := range left {
			if x.Name == r.Name {
				l.Needs = x.Needs
			}
		}
		if l.Ours != nil && l.Published != nil {
			d := *l.Ours - *l.Published
			l.Difference = &d
		}
		out = append(out, l)
	}
	return out
}

// WriteLines prints lines as a Markdown table.
func WriteLines(w io.Writer, lines []Line) error {
	if _, err := fmt.Fprintln(w, "| method | ours | published | difference |\n|---|---|---|---|"); err != nil {
		return err
	}
	number := func(x *float64, form string) string {
		if x == nil || math.IsNaN(*x) {
			return "–"
		}
		return fmt.Sprintf(form, *x)
	}
	for _, l := range lines {
		ours := number(l.Ours, "%.2f")
		if l.Seeds > 1 {
			ours += fmt.Sprintf(" ± %.2f", l.SD)
		}
		if l.Needs != "" {
			ours = "needs " + l.Needs
		}
		if _, err := fmt.Fprintf(w, "| %s | %s | %s | %s |\n", l.Name, ours, number(l.Published, "%.2f"), number(l.Difference, "%+.2f")); err != nil {
			return err
		}
	}
	return nil
}
