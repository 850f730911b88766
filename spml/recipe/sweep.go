package recipe

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/loss"
)

// Sweep is a grid of settings; a parameter of the loss is params.NAME.
type Sweep struct {
	Name     string                    `yaml:"-" json:"name"`
	Source   string                    `yaml:"source" json:"source"`
	Method   string                    `yaml:"method" json:"method,omitempty"` // "" = any
	Grid     map[string][]any          `yaml:"grid" json:"grid,omitempty"`
	Named    map[string]map[string]any `yaml:"points" json:"points,omitempty"`     // in place of a grid: the settings of each point by its name
	Together map[string]string         `yaml:"together" json:"together,omitempty"` // key: takes the value of another key
	// Tunes are the methods whose tuning searches it, each with its place among the method's grids, from 1. Data is the
	// one of the papers' data sets that it is for; "" = any.
	Tunes map[string]int `yaml:"tunes" json:"tunes,omitempty"`
	Data  string         `yaml:"data" json:"data,omitempty"`
}

// Sweeps lists the papers' grids.
func Sweeps() ([]Sweep, error) {
	names, err := fs.Glob(files, "sweeps/*.yaml")
	if err != nil {
		return nil, err
	}
	var out []Sweep
	for _, path := range names {
		b, err := files.ReadFile(path)
		if err != nil {
			return nil, err
		}
		s := Sweep{}
		d := yaml.NewDecoder(strings.NewReader(string(b)))
		d.KnownFields(true)
		if err := d.Decode(&s); err != nil {
			return nil, fmt.Errorf("recipe: %s: %w", path, err)
		}
		s.Name = strings.TrimSuffix(strings.TrimPrefix(path, "sweeps/"), ".yaml")
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("recipe: %s: %w", path, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// GetSweep finds a sweep by name.
func GetSweep(name string) (*Sweep, error) {
	all, err := Sweeps()
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
		names = append(names, all[i].Name)
	}
	return nil, &config.Error{Msg: fmt.Sprintf("no sweep is called %q; there are %s", name, strings.Join(names, ", "))}
}

// Names are those of the points where they have any.
func (s *Sweep) Names() []string { return slices.Sorted(maps.Keys(s.Named)) }

func (s *Sweep) check() error {
	if (len(s.Grid) == 0) == (len(s.Named) == 0) {
		return fmt.Errorf("want either a grid or points")
	}
	for name, set := range s.Named {
		for k := range set {
			if strings.HasPrefix(k, "params.") {
				continue
			}
			if err := config.CheckKey(k); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	for k, v := range s.Grid {
		if !strings.HasPrefix(k, "params.") {
			if err := config.CheckKey(k); err != nil {
				return err
			}
		}
		if len(v) == 0 {
			return fmt.Errorf("%s has no values", k)
		}
	}
	for id, place := range s.Tunes {
		if e, err := loss.Lookup(id); err != nil || e.ID != id || place < 1 {
			return fmt.Errorf("tunes %s: %d: want the id of a method and a place from 1", id, place)
		}
	}
	for k, from := range s.Together {
		if err := config.CheckKey(k); err != nil {
			return err
		}
		if _, ok := s.Grid[from]; !ok {
			return fmt.Errorf("%s follows %s, which is not in the grid", k, from)
		}
	}
	return nil
}

// Points are all combinations, the last key in sorted order changing fastest, or the named points in the order of their names.
func (s *Sweep) Points() ([]map[string]any, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if len(s.Named) > 0 {
		var points []map[string]any
		for _, name := range s.Names() {
			p := maps.Clone(s.Named[name])
			if p == nil {
				p = map[string]any{}
			}
			points = append(points, p)
		}
		return points, nil
	}
	points := []map[string]any{{}}
	for _, k := range slices.Sorted(maps.Keys(s.Grid)) {
		var next []map[string]any
		for _, p := range points {
			for _, v := range s.Grid[k] {
				q := maps.Clone(p)
				q[k] = v
				next = append(next, q)
			}
		}
		points = next
	}
	for _, p := range points {
		for k, from := range s.Together {
			p[k] = p[from]
		}
	}
	return points, nil
}
