// Package recipe holds the papers' training settings, each number with its source: the paper, the released code, or us.
//
// A recipe is named paper-data-backbone: the form that the paper prints, filled up from the released code where the
// paper is silent. With -code at the end it is the released form where the two differ: em-voc-resnet50,
// vlpl-cub-resnet50-code. Its values are settings of package train by key; the loss's own parameters come from the loss
// registry, whose numbers of the data set the recipe chooses.
//
//	r, err := recipe.Get("gr-coco-resnet50")
//	c, err := train.FromSettings(r.Settings())
//
// Everything is read only; functions return errors.
package recipe

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/config"
	methods "github.com/gospml/gospml/spml/method"
)

//go:embed papers/*.yaml sweeps/*.yaml
var files embed.FS

// Kinds of sources.
const (
	FromPaper = "paper" // the text of the paper; the place is its section or table and what it calls the number
	FromCode  = "code"  // the released program; the place is a file of the recipe's repository and commit
	FromUs    = "ours"  // neither says it; the place is our reason
)

// Value is a setting with where it comes from.
type Value struct {
	Value any    `json:"value"`
	Kind  string `json:"kind"`  // FromPaper, FromCode or FromUs
	Place string `json:"place"` // where in that source
}

// Source is kind and place in words; "" where there is no value.
func (v Value) Source() string {
	if v.Kind == "" {
		return ""
	}
	return v.Kind + ", " + v.Place
}

// UnmarshalYAML reads [value, kind, place].
func (v *Value) UnmarshalYAML(n *yaml.Node) error {
	var parts []any
	if err := n.Decode(&parts); err != nil {
		return err
	}
	if len(parts) == 3 {
		kind, _ := parts[1].(string)
		place, _ := parts[2].(string)
		if slices.Contains([]string{FromPaper, FromCode, FromUs}, kind) && place != "" {
			*v = Value{parts[0], kind, place}
			return nil
		}
	}
	return fmt.Errorf("line %d: want [value, paper|code|ours, place]", n.Line)
}

// Recipe is one paper's settings for a data set and a backbone.
type Recipe struct {
	Name       string           `json:"name"`
	Paper      string           `json:"paper"`
	Index      string           `json:"index,omitempty"` // the paper's name in the inventory of the five papers' texts
	Code       string           `json:"code"`
	Data       string           `json:"data"` // voc, coco, nus, cub
	Backbone   string           `json:"backbone"`
	Released   bool             `json:"released"`      // the form of the released code
	Methods    []string         `json:"methods"`       // ids whose results the paper has; the first is its own
	Own        []string         `json:"own,omitempty"` // those of Methods that Values' form is about: others keep their default one
	Deviations []string         `json:"deviations"`
	Values     map[string]Value `json:"values"`
}

// paper is a file.
type paper struct {
	ID         string                      `yaml:"id"`
	Paper      string                      `yaml:"paper"`
	Index      string                      `yaml:"index"`
	Code       string                      `yaml:"code"`
	Methods    []string                    `yaml:"methods"`
	Own        []string                    `yaml:"own"`
	Deviations []string                    `yaml:"deviations"`
	Settings   map[string]Value            `yaml:"settings"`
	Data       map[string]map[string]Value `yaml:"data"`
	Backbones  []string                    `yaml:"backbones"`
	ByBackbone map[string]map[string]Value `yaml:"backbone_settings"`
	CodeForm   map[string]Value            `yaml:"code_form"`
	CodeData   map[string]map[string]Value `yaml:"code_data"`
}

var dataSets = []string{"voc", "coco", "nus", "cub"}

// List gives all recipes by name.
func List() ([]Recipe, error) {
	entries, err := files.ReadDir("papers")
	if err != nil {
		return nil, err
	}
	var out []Recipe
	for _, e := range entries {
		b, err := files.ReadFile("papers/" + e.Name())
		if err != nil {
			return nil, err
		}
		p, err := parse(b)
		if err != nil {
			return nil, fmt.Errorf("recipe: %s: %w", e.Name(), err)
		}
		for _, data := range dataSets {
			if _, ok := p.Data[data]; !ok {
				continue
			}
			for _, b := range p.Backbones {
				out = append(out, p.recipe(data, b, false))
				if p.CodeForm != nil {
					out = append(out, p.recipe(data, b, true))
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Recipe) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func parse(b []byte) (paper, error) {
	var p paper
	d := yaml.NewDecoder(strings.NewReader(string(b)))
	d.KnownFields(true)
	if err := d.Decode(&p); err != nil {
		return p, err
	}
	layers := []map[string]Value{p.Settings, p.CodeForm}
	for _, v := range p.Data {
		layers = append(layers, v)
	}
	for _, v := range p.CodeData {
		layers = append(layers, v)
	}
	for _, v := range p.ByBackbone {
		layers = append(layers, v)
	}
	for _, l := range layers {
		for k := range l {
			if err := config.CheckKey(k); err != nil {
				return p, err
			}
		}
	}
	for _, m := range p.Methods {
		if _, err := methods.Lookup(m); err != nil {
			return p, err
		}
	}
	if len(p.Methods) == 0 {
		return p, fmt.Errorf("no methods")
	}
	for _, m := range p.Own {
		if !slices.Contains(p.Methods, m) {
			return p, fmt.Errorf("%s is not among the methods", m)
		}
	}
	for _, b := range p.Backbones {
		if b != config.BackboneClip && !slices.Contains(backbone.Names(), b) {
			return p, fmt.Errorf("no backbone is called %q", b)
		}
	}
	return p, nil
}

func (p *paper) recipe(data, backbone string, code bool) Recipe {
	r := Recipe{
		Name: p.ID + "-" + data + "-" + backbone, Paper: p.Paper, Index: p.Index, Code: p.Code, Data: data, Backbone: backbone, Released: code,
		Methods: p.Methods, Own: p.Own, Deviations: p.Deviations, Values: map[string]Value{},
	}
	layers := []map[string]Value{p.Settings, p.Data[data], p.ByBackbone[backbone]}
	if code {
		r.Name += "-code"
		layers = append(layers, p.CodeForm, p.CodeData[data])
	}
	for _, l := range layers {
		maps.Copy(r.Values, l)
	}
	r.Values["backbone"] = Value{backbone, FromUs, "the recipe's name"}
	r.Values["data_set"] = Value{
		data,
		FromUs,
		"the recipe's name: the loss's parameters for this data set, docs/methods.md",
	}
	r.Values["method"] = Value{p.Methods[0], FromUs, "the paper's own method"}
	return r
}

// Get finds a recipe by name; the error of an unknown name has the nearest ones.
func Get(name string) (*Recipe, error) {
	all, err := List()
	if err != nil {
		return nil, err
	}
	var near []string
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
		if p, _, _ := strings.Cut(name, "-"); strings.HasPrefix(all[i].Name, p) && p != "" {
			near = append(near, all[i].Name)
		}
	}
	if near == nil {
		for _, r := range all {
			near = append(near, r.Name)
		}
	}
	return nil, &config.Error{Msg: fmt.Sprintf("no recipe is called %q; there are %s", name, strings.Join(near, ", "))}
}

// Settings are the values alone.
func (r *Recipe) Settings() map[string]any {
	m := map[string]any{}
	for k, v := range r.Values {
		m[k] = v.Value
	}
	return m
}

// SetsForm says whether the recipe's form is meant for a method: the printed form of its own methods is no other's.
func (r *Recipe) SetsForm(method string) bool {
	if m, err := methods.Lookup(method); err == nil {
		method = m.ID
	}
	return r.Released || r.Own == nil || slices.Contains(r.Own, method)
}

// Keys are the settings' names in the order of package train.
func (r *Recipe) Keys() []string {
	var keys []string
	for _, s := range config.Settings() {
		if _, ok := r.Values[s.Key]; ok {
			keys = append(keys, s.Key)
		}
	}
	return keys
}

// Difference is a setting that two recipes do not share; an absent one has no source.
type Difference struct {
	Key  string `json:"key"`
	A, B Value
}

// Diff lists what differs between two recipes.
func Diff(a, b *Recipe) []Difference {
	var out []Difference
	for _, s := range config.Settings() {
		x, y := a.Values[s.Key], b.Values[s.Key]
		if fmt.Sprint(x.Value) != fmt.Sprint(y.Value) {
			out = append(out, Difference{s.Key, x, y})
		}
	}
	return out
}
