package command

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/config"
	methods "github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/recipe"
)

// tuning are the flags of compare that choose each method's settings on validation before the methods are compared.
type tuning struct {
	on    bool
	seeds string
	grid  []string
}

func (t *tuning) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&t.on, "tune", false, "choose each method's settings on validation first, over its paper's grid; then "+
		"score test once, with --seeds that the search has not seen")
	f.StringVar(&t.seeds, "tune-seeds", "2", "with --tune: number of seeds of the search (101, 102, …), or a list: 7,8,")
	f.StringArrayVar(&t.grid, "grid", nil, "with --tune: KEY=V,V or the name of a sweep for every method beside its "+
		"own grid, METHOD:KEY=V,V in place of one method's; repeatable")
}

// check refuses flags of the search without one.
func (t *tuning) check(cmd *cobra.Command) error {
	for _, name := range []string{"tune-seeds", "grid"} {
		if !t.on && cmd.Flags().Changed(name) {
			return usageError{fmt.Errorf("--%s belongs to --tune, which is not given", name)}
		}
	}
	return nil
}

// tuning makes the grids of the rows. Settings that a row was given by name stay as they are.
func (t *tuning) tuning(o compare.Options) (*compare.Tuning, error) {
	g := &compare.Tuning{}
	var err error
	if g.Seeds, err = seedList("tune-seeds", t.seeds, func(i int) uint32 { return uint32(101 + i) }); err != nil {
		return nil, usageError{err}
	}
	common := []map[string]any{{}}
	var commonSource []string
	own := map[string]*recipe.Sweep{} // by method, or by a row's name
	shared := &recipe.Sweep{Grid: map[string][]any{}}
	for _, text := range t.grid {
		method, rest := "", text
		if before, after, ok := strings.Cut(text, ":"); ok && !strings.Contains(before, "=") {
			method, rest = before, after
		}
		if !strings.Contains(rest, "=") && method == "" {
			s, err := recipe.GetSweep(rest)
			if err != nil {
				return nil, err
			}
			points, err := s.Points()
			if err != nil {
				return nil, &config.Error{Msg: err.Error()}
			}
			common, commonSource = times(common, points), append(commonSource, s.Source)
			continue
		}
		s := shared
		if method != "" {
			if m, err := methods.Lookup(method); err == nil {
				method = m.ID
			}
			i := slices.IndexFunc(o.Variants, func(v compare.Variant) bool {
				return v.Name == method || v.Set["method"] == method
			})
			if i < 0 {
				return nil, usageError{fmt.Errorf("--grid %q: %s is none of the methods", text, method)}
			}
			if s = own[method]; s == nil {
				s = &recipe.Sweep{Grid: map[string][]any{}, Source: "ours: --grid"}
				own[method] = s
			}
		}
		if err := addGrid(s, rest); err != nil {
			return nil, err
		}
	}
	if len(shared.Grid) > 0 {
		points, err := shared.Points()
		if err != nil {
			return nil, &config.Error{Msg: err.Error()}
		}
		common, commonSource = times(common, points), append(commonSource,
			"--grid "+strings.Join(sortedKeys(anyMap(shared.Grid)), ", "))
	}
	for _, v := range o.Variants {
		grid, err := methodGrid(v, o.Settings, own)
		if err != nil {
			return nil, err
		}
		if len(commonSource) > 0 {
			first := []map[string]any{{}}
			if len(grid.Stages) == 0 {
				grid.Stages = [][]map[string]any{nil}
			}
			grid.Stages[0] = times(append(first, grid.Stages[0]...), common)
			grid.Source = strings.Join(append(slices.DeleteFunc([]string{grid.Source},
				func(s string) bool { return s == noGrid }), commonSource...), "; ")
		}
		for _, stage := range grid.Stages {
			for _, p := range stage {
				maps.DeleteFunc(p, func(k string, _ any) bool { _, given := v.Set[k]; return given })
			}
		}
		g.Grids = append(g.Grids, grid)
	}
	return g, nil
}

// noGrid is the source of a method that has nothing to search.
const noGrid = "none: the paper names no grid and has one value for all data sets"

// methodGrid is a row's own grid: the user's, its paper's, or that of the registry.
func methodGrid(v compare.Variant, settings map[string]any, own map[string]*recipe.Sweep) (compare.Grid, error) {
	method, _ := v.Set["method"].(string)
	var stages []recipe.Sweep
	switch s := own[v.Name]; {
	case s != nil:
		stages = []recipe.Sweep{*s}
	case own[method] != nil:
		stages = []recipe.Sweep{*own[method]}
	default:
		dataSet, _ := v.Over(settings)["data_set"].(string)
		var err error
		if stages, err = recipe.Tuning(method, dataSet); err != nil {
			return compare.Grid{}, &config.Error{Msg: strings.TrimPrefix(err.Error(), "loss: ")}
		}
	}
	grid := compare.Grid{Source: noGrid}
	var sources []string
	for _, s := range stages {
		points, err := s.Points()
		if err != nil {
			return grid, &config.Error{Msg: err.Error()}
		}
		grid.Stages = append(grid.Stages, points)
		sources = append(sources, s.Source)
	}
	if len(sources) > 0 {
		grid.Source = strings.Join(sources, "; then ")
	}
	return grid, nil
}

// times are all pairs of points, the second's settings over the first's.
func times(a, b []map[string]any) (out []map[string]any) {
	for _, x := range a {
		for _, y := range b {
			m := maps.Clone(x)
			maps.Copy(m, y)
			out = append(out, m)
		}
	}
	return out
}

func anyMap(m map[string][]any) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// addGrid reads KEY=VALUE,VALUE into a grid.
func addGrid(s *recipe.Sweep, text string) error {
	key, values, ok := strings.Cut(text, "=")
	if !ok {
		return usageError{fmt.Errorf("--grid %q: want KEY=VALUE,VALUE", text)}
	}
	for _, v := range strings.Split(values, ",") {
		var x any
		var err error
		if strings.HasPrefix(key, "params.") {
			x, err = strconv.ParseFloat(v, 64)
		} else {
			x, err = config.Parse(key, v)
		}
		if err != nil {
			return usageError{fmt.Errorf("--grid %q: %w", text, err)}
		}
		s.Grid[key] = append(s.Grid[key], x)
	}
	return nil
}

// seedList reads a number of seeds, of which the i-th is nth(i), or a list of seeds.
func seedList(flag, text string, nth func(i int) uint32) ([]uint32, error) {
	if n, err := strconv.Atoi(text); err == nil {
		if n < 1 || n > 1000 {
			return nil, fmt.Errorf("--%s %d: want 1 to 1000", flag, n)
		}
		out := make([]uint32, n)
		for i := range out {
			out[i] = nth(i)
		}
		return out, nil
	}
	var out []uint32
	for _, f := range strings.Split(strings.TrimSuffix(text, ","), ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(f), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("--%s %q: want a number of seeds, or seeds with commas between", flag, text)
		}
		out = append(out, uint32(n))
	}
	return out, nil
}
