// Package reproduce maps the tables and figures of the papers to what makes them here: methods by recipes for a table,
// a command for a picture, or a sentence that says what is missing. The map is papers.yaml; docs/papers.md is made of
// it.
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
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/recipe"
)

//go:generate go run ./docs ../../docs/papers.md

//go:embed papers.yaml
var source []byte

//go:embed index.yaml
var elsewhere []byte

// Place says where entries of the inventory of the papers' texts stand: tables, figures, equations and settings that
// neither a recipe nor a default cites.
type Place struct {
	At      string   `yaml:"at"`      // a command, a file, or why not
	Entries []string `yaml:"entries"` // keys of the inventory
}

// Places lists the map index.yaml.
func Places() ([]Place, error) {
	var places []Place
	d := yaml.NewDecoder(strings.NewReader(string(elsewhere)))
	d.KnownFields(true)
	if err := d.Decode(&places); err != nil {
		return nil, fmt.Errorf("reproduce: index.yaml: %w", err)
	}
	return places, nil
}

// DataSets are the papers' data sets, the columns of their tables.
var DataSets = []string{"voc", "coco", "nus", "cub"}

// Item is a table or a figure: Rows (or Sweeps) that are trained, a Command, or both: a figure whose runs are trained
// first.
type Item struct {
	ID       string         `yaml:"id"`   // paper:what, such as vlpl:table1
	Also     []string       `yaml:"also"` // further tables and figures that it makes, by their ids
	Title    string         `yaml:"title"`
	Recipe   string         `yaml:"recipe"`   // paper's id in names of recipes
	Backbone string         `yaml:"backbone"` // of the recipe; resnet50 where it is empty
	Settings map[string]any `yaml:"settings"` // of package train, for every row
	// Table is the paper's table that the rows' Printed names belong to, Columns what it calls the data sets where that is
	// not VOC, COCO, NUS, CUB.
	Table    string              `yaml:"table"`
	Columns  map[string]string   `yaml:"columns"`
	Rows     []Row               `yaml:"rows"`      // where Sweeps are named: their points
	Sweeps   []string            `yaml:"sweeps"`    // of package recipe; Rows are their points
	SweepsOf map[string][]string `yaml:"sweeps_of"` // in place of Sweeps for one of DataSets
	Points   []Row               `yaml:"points"`    // published numbers of the points, by name
	// Command are arguments of spml that draw the figure. $DATA stands for the data set, $CLIP for a CLIP, $RUN and $RUN2
	// for the runs of the first two rows, $FOLDER for the folder of all runs, $OUT for the folder of what is written, $AS
	// for the column, $PHOTO for a photo; $PHOTOS is the photo, or the test part of the run's data.
	Command []string `yaml:"command"`
	Writes  string   `yaml:"writes"` // the file, or what is printed
	// Numbers are those of a table that no training makes, as printed: row, column, number.
	Numbers map[string]map[string]string `yaml:"numbers"`
}

// Row is a line of a table. It has the item's recipe and settings where it names none of its own.
type Row struct {
	Name      string           `yaml:"name"`
	Method    string           `yaml:"method"`   // as compare.Methods takes it
	Recipe    string           `yaml:"recipe"`   // paper's id in names of recipes, where the row has another than the item
	Backbone  string           `yaml:"backbone"` // likewise; its weights are the row's own
	Settings  map[string]any   `yaml:"settings"` // over the item's
	First     string           `yaml:"first"`    // paper's id of the recipe of a first stage, which the row goes on from
	Set       map[string]any   `yaml:"-"`        // a point's settings
	Needs     string           `yaml:"needs"`    // in place of Method
	Printed   string           `yaml:"printed"`  // the row's name in the paper's table
	Published map[string]Score `yaml:"published"`
}

// Score is a published mAP in percent, with its deviation where one is printed.
type Score struct{ Mean, SD float64 }

// UnmarshalYAML reads a number, or [mean, deviation].
func (s *Score) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return n.Decode(&s.Mean)
	}
	var pair [2]float64
	err := n.Decode(&pair)
	s.Mean, s.SD = pair[0], pair[1]
	return err
}

// String is the number as papers print it.
func (s Score) String() string {
	if s.SD == 0 {
		return fmt.Sprintf("%.2f", s.Mean)
	}
	return fmt.Sprintf("%.2f ± %.2f", s.Mean, s.SD)
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
		if err := items[i].expand(items[i].Sweeps); err != nil {
			return nil, fmt.Errorf("reproduce: papers.yaml: %s: %w", items[i].ID, err)
		}
	}
	return items, nil
}

// For is the item as a column of DataSets has it: a sweep may have points of its own there.
func (it *Item) For(data string) (*Item, error) {
	own := *it
	sweeps, ok := it.SweepsOf[data]
	if !ok {
		return &own, nil
	}
	own.Rows = nil
	return &own, own.expand(sweeps)
}

// expand makes rows of the points of sweeps.
func (it *Item) expand(sweeps []string) error {
	if len(sweeps) > 0 && len(it.Rows) > 0 {
		return errors.New("rows and sweeps")
	}
	for _, name := range sweeps {
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
			r := Row{Method: s.Method, Set: maps.Clone(set)}
			if own, ok := set["method"].(string); ok { // a baseline among the points
				r.Method = own
				delete(r.Set, "method")
			}
			if names != nil {
				r.Name = names[i]
			} else {
				r.Name = pointName(set)
			}
			if len(sweeps) > 1 {
				r.Name = s.Method + " " + r.Name
			}
			for _, p := range it.Points {
				if p.Name == r.Name {
					r.Published, r.Printed = p.Published, p.Printed
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
	return nil, &config.Error{
		Msg: fmt.Sprintf("no table or figure is called %q; there are %s", id, strings.Join(same, ", ")),
	}
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
		return nil, &config.Error{
			Msg: fmt.Sprintf("no column is called %q; there are %s", data, strings.Join(DataSets, ", ")),
		}
	}
	b := it.Backbone
	if b == "" {
		b = "resnet50"
	}
	return recipe.Get(it.Recipe + "-" + data + "-" + b)
}

// Choices are what a person gives for the rows of an item.
type Choices struct {
	Column       string                    // one of DataSets, "" for data that no paper has: then no recipe is taken
	PseudoLabels bool                      // there is a file of pseudo-labels
	Clip         bool                      // there is a CLIP that makes them
	Weights      bool                      // there are weights, or features, for all rows
	Drawn        bool                      // the data are drawn pictures: a row that needs a CLIP of its own takes the built-in one
	Given        func(key string) bool     // settings that the person named, which a row's recipe does not change; nil: none
	Rows         map[string]map[string]any // settings of single rows, by name
}

// Variants are the rows that can be trained, named as in the paper, each with its own settings, and the rows that
// cannot with what they need: a method that learns from pseudo-labels a file of them or a CLIP that makes them, a row
// with a backbone of its own the weights.
func (it *Item) Variants(c Choices) (variants []compare.Variant, left []Row, err error) {
	for name := range c.Rows {
		if !slices.ContainsFunc(it.Rows, func(r Row) bool { return r.Name == name }) {
			return nil, nil, &config.Error{
				Msg: fmt.Sprintf("%s has no row %q; there are %s", it.ID, name, strings.Join(it.names(), ", ")),
			}
		}
	}
	for _, r := range it.Rows {
		if r.Method == "" {
			left = append(left, r)
			continue
		}
		v, err := it.variant(&r, c)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %s: %w", it.ID, r.Name, err)
		}
		made := v.Set["pseudo_options"] != nil
		switch {
		case made && !c.Clip:
			r.Needs = "a CLIP: --clip MODEL, or builtin for drawn pictures"
		case !c.PseudoLabels && !c.Clip && needsFile(r.Method):
			r.Needs = "pseudo-labels: --clip MODEL makes them, or --pseudo-labels FILE has them"
		case r.First != "" && !c.Weights && v.Set["weights"] == nil:
			r.Needs = "pretrained weights, whose features its first stage trains on: --weights FILE"
		case r.Recipe == "dualcoop" && v.Set["clip"] == nil:
			r.Needs = fmt.Sprintf("a CLIP of its own: --row %q, or --data shapes", r.Name+":clip=RN101.pt")
		case r.Recipe == "" && r.Backbone != "" && v.Set["weights"] == nil:
			r.Needs = fmt.Sprintf("weights of its own: --row %q", r.Name+":weights=FILE")
		}
		if r.Needs != "" {
			left = append(left, r)
			continue
		}
		variants = append(variants, v)
	}
	return variants, left, nil
}

func (it *Item) names() []string {
	var names []string
	for _, r := range it.Rows {
		names = append(names, r.Name)
	}
	return names
}

// variant is a row with its settings: its recipe's where that is another than the item's, then the item's, the row's,
// the point's, the person's for this row.
func (it *Item) variant(r *Row, c Choices) (compare.Variant, error) {
	all, err := compare.Methods([]string{r.Method})
	if err != nil {
		return compare.Variant{}, err
	}
	v := all[0]
	own := v.Set
	v.Set = map[string]any{}
	if c.Column != "" && (r.Recipe != "" || r.Backbone != "") {
		if v.Set, err = it.recipeOf(r, c); err != nil {
			return v, err
		}
	}
	if r.Backbone != "" {
		v.Set["backbone"] = r.Backbone
	}
	if r.Backbone == config.BackboneClip && c.Drawn {
		v.Set["clip"], v.Set["weights"] = config.BuiltinClip, config.BuiltinClip
	}
	if r.Recipe == "dualcoop" {
		v.Set["weights"] = nil // its CLIP is the network
		if !c.Drawn {
			delete(v.Set, "clip") // the recipe's is a file's name, no file
		}
	}
	for _, set := range []map[string]any{own, r.Settings, r.Set, c.Rows[r.Name]} {
		maps.Copy(v.Set, set)
	}
	v.Name = strings.ReplaceAll(r.Name, "/", "-") // it is a folder's name too
	if r.First != "" {
		if v.First, err = it.firstOf(r, c); err != nil {
			return v, err
		}
	}
	return v, nil
}

// recipeOf is what the row's recipe has in place of the item's. A key that only the item's has is nil: compare.Variant
// takes it out.
func (it *Item) recipeOf(r *Row, c Choices) (map[string]any, error) {
	items, err := it.RecipeFor(c.Column)
	if err != nil {
		return nil, err
	}
	id, b := it.Recipe, it.Backbone
	if r.Recipe != "" {
		id = r.Recipe
	}
	if r.Backbone != "" {
		b = r.Backbone
	}
	if b == "" {
		b = "resnet50"
	}
	rows, err := recipe.Get(id + "-" + c.Column + "-" + b)
	if err != nil {
		return nil, err
	}
	set := map[string]any{}
	for _, d := range recipe.Diff(items, rows) {
		given := c.Given != nil && c.Given(d.Key)
		if !given && d.Key != "method" {
			set[d.Key] = d.B.Value
		}
	}
	return set, nil
}

// firstOf are the settings of a row's first stage.
func (it *Item) firstOf(r *Row, c Choices) (map[string]any, error) {
	set := map[string]any{"mode": config.Frozen}
	if c.Column != "" {
		stage := Row{Recipe: r.First, Backbone: it.Backbone}
		var err error
		if set, err = it.recipeOf(&stage, c); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// Line is a row of ours beside the published one.
type Line struct {
	Name       string   `json:"name"`
	Ours       *float64 `json:"ours,omitempty"` // mean over seeds
	SD         float64  `json:"sd,omitempty"`
	Seeds      int      `json:"seeds,omitempty"`
	Published  *float64 `json:"published,omitempty"`
	PrintedSD  float64  `json:"published_sd,omitempty"` // as the paper prints it
	Difference *float64 `json:"difference,omitempty"`
	Needs      string   `json:"needs,omitempty"`
	LeftOut    string   `json:"left_out,omitempty"` // why it could not be trained on this data
}

// Lines lays a table that was trained beside the item's column; data is one of DataSets, or "" for data that no paper
// has.
func (it *Item) Lines(t *compare.Table, data string, left []Row) []Line {
	var out []Line
	for _, r := range it.Rows {
		l := Line{Name: r.Name}
		if p, ok := r.Published[data]; ok {
			l.Published, l.PrintedSD = &p.Mean, p.SD
		}
		for _, x := range t.Rows {
			if x.Name == strings.ReplaceAll(r.Name, "/", "-") {
				if l.LeftOut = x.LeftOut; l.LeftOut == "" && !x.NoTest {
					l.Ours, l.SD, l.Seeds = &x.BestMean, x.BestSD, len(x.Seeds)
				}
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
		if l.LeftOut != "" {
			ours = "left out: " + l.LeftOut
		}
		published := number(l.Published, "%.2f")
		if l.PrintedSD != 0 {
			published += fmt.Sprintf(" ± %.2f", l.PrintedSD)
		}
		if _, err := fmt.Fprintf(w, "| %s | %s | %s | %s |\n", l.Name, ours, published, number(l.Difference, "%+.2f")); err != nil {
			return err
		}
	}
	return nil
}
