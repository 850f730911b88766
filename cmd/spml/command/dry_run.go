package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/reproduce"
)

// dryFlags are those of the commands that can say what they would do. Without --measure nothing is read, so the answer
// is there at once.
type dryFlags struct{ dry, measure bool }

func (d *dryFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&d.dry, "dry-run", false, "print the settings that every run would have, and stop; reads and writes nothing")
	cmd.Flags().BoolVar(&d.measure, "measure", false, "read the data and take a few steps first, to say what the runs cost")
}

// setting is one of a run's resolved settings; the loss's parameters are params.NAME.
type setting struct {
	key   string
	value any
}

// settingsOf are all settings of a resolved configuration, in the order of the documentation, with every parameter of
// its loss.
func settingsOf(c config.Config) ([]setting, error) {
	params, err := c.LossValues()
	if err != nil {
		return nil, err
	}
	values := c.AsSettings()
	var out []setting
	for _, x := range config.Settings() {
		if x.Key != "params" {
			out = append(out, setting{x.Key, values[x.Key]})
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(params)) {
			out = append(out, setting{"params." + name, params[name]})
		}
	}
	return out, nil
}

// someData stands for the data set in a dry run of a paper's table without --data.
const someData = "(the folder of --data)"

// checkPaths tells what a run would stumble over first: a path that names nothing. A data set may be one of a folder's:
// labels/voc for labels/voc_train.txt.
func checkPaths(c config.Config) error {
	for _, p := range []struct{ flag, path string }{
		{"data", c.Data.Path}, {"weights", c.Model.Weights}, {"clip", c.Pseudo.Clip}, {"init", c.Model.Init},
		{"class-names", c.Pseudo.ClassNames},
	} {
		if p.path == "" || p.path == someData || p.flag == "class-names" && p.path == config.CUBNames || p.path == config.Shapes ||
			p.path == config.BuiltinClip {
			continue
		}
		_, err := os.Stat(p.path)
		if p.flag == "data" && err != nil && len(startingWith(p.path)) > 0 {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			return &config.Error{Msg: fmt.Sprintf("--%s %s: there is no such file or folder", p.flag, p.path)}
		}
	}
	return nil
}

// startingWith are the names in a path's folder that begin with its last part and more.
func startingWith(path string) (names []string) {
	dir, base := filepath.Split(filepath.Clean(path))
	if dir == "" {
		dir = "."
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), base); ok && strings.ContainsAny(rest[:min(len(rest), 1)], "_-") {
			names = append(names, e.Name())
		}
	}
	return names
}

// dryTrain prints what a run of c would have as settings.
func dryTrain(cmd *cobra.Command, c config.Config, asJSON bool) error {
	c, err := c.Resolve()
	if err != nil {
		return err
	}
	if err := checkPaths(c); err != nil {
		return err
	}
	all, err := settingsOf(c)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(asMap(all))
	}
	if err := writeSettings(cmd.OutOrStdout(), all); err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.ErrOrStderr(), "nothing was read or written; --measure takes a few steps and says what the run costs")
	return err
}

func asMap(all []setting) map[string]any {
	m := map[string]any{}
	for _, s := range all {
		m[s.key] = s.value
	}
	return m
}

func writeSettings(out io.Writer, all []setting) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range all {
		plain.Fprintf(w, "  %s:\t%v\n", s.key, s.value)
	}
	return w.Flush()
}

// dryRow is a row of a table with what its runs would have as settings, or what it needs.
type dryRow struct {
	Name     string         `json:"name"`
	Settings map[string]any `json:"settings,omitempty"`
	First    map[string]any `json:"first_stage,omitempty"`
	Needs    string         `json:"needs,omitempty"`
	LeftOut  string         `json:"left_out,omitempty"`

	settings, first []setting
}

// dryRows prints the settings of the rows that o would train and what the rows left out need: what all rows share once,
// then the rest row by row.
func dryRows(cmd *cobra.Command, o compare.Options, left []reproduce.Row, asJSON bool) error {
	rows, err := resolvedRows(o)
	if err != nil {
		return err
	}
	for _, r := range left {
		rows = append(rows, dryRow{Name: r.Name, Needs: r.Needs})
	}
	plain.Fprintf(cmd.ErrOrStderr(), "%s; nothing was read or written; --measure takes a few steps of each kind and says what they cost\n", countRuns(o))
	out := cmd.OutOrStdout()
	if asJSON {
		return json.NewEncoder(out).Encode(rows)
	}
	shared := sharedSettings(rows)
	fmt.Fprintln(out, "every row:")
	if err := writeSettings(out, shared); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Needs != "" {
			plain.Fprintf(out, "%s: needs %s\n", r.Name, r.Needs)
			continue
		}
		if r.LeftOut != "" {
			plain.Fprintf(out, "%s is left out: %s\n", r.Name, r.LeftOut)
			continue
		}
		plain.Fprintf(out, "%s:\n", r.Name)
		if err := writeSettings(out, differing(r.settings, asMap(shared))); err != nil {
			return err
		}
		if r.first == nil {
			continue
		}
		plain.Fprintf(out, "%s, stage 1, where it differs from stage 2:\n", r.Name)
		if err := writeSettings(out, differing(r.first, r.Settings)); err != nil {
			return err
		}
	}
	return nil
}

func resolvedRows(o compare.Options) ([]dryRow, error) {
	resolved, err := o.Resolve()
	if err != nil {
		return nil, err
	}
	var rows []dryRow
	for _, x := range resolved {
		if x.LeftOut != "" {
			rows = append(rows, dryRow{Name: x.Name, LeftOut: x.LeftOut})
			continue
		}
		if err := checkPaths(x.Config); err != nil {
			return nil, err
		}
		r := dryRow{Name: x.Name}
		if r.settings, err = settingsOf(x.Config); err != nil {
			return nil, fmt.Errorf("%s: %w", x.Name, err)
		}
		if o.Dir == "" { // not said yet
			r.settings = slices.DeleteFunc(r.settings, func(s setting) bool { return s.key == "run" || s.key == "stage_one" })
		}
		r.Settings = asMap(r.settings)
		if x.First != nil {
			if r.first, err = settingsOf(*x.First); err != nil {
				return nil, fmt.Errorf("%s, stage 1: %w", x.Name, err)
			}
			r.First = asMap(r.first)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// sharedSettings are those that all rows have with the same value.
func sharedSettings(rows []dryRow) []setting {
	return slices.DeleteFunc(slices.Clone(rows[0].settings), func(s setting) bool {
		return slices.ContainsFunc(rows, func(r dryRow) bool {
			v, ok := r.Settings[s.key]
			return r.Needs == "" && r.LeftOut == "" && (!ok || !reflect.DeepEqual(v, s.value))
		})
	})
}

// differing are the settings that known does not have with the same value.
func differing(all []setting, known map[string]any) []setting {
	return slices.DeleteFunc(slices.Clone(all), func(s setting) bool {
		v, ok := known[s.key]
		return ok && reflect.DeepEqual(v, s.value)
	})
}

func countRuns(o compare.Options) string {
	return fmt.Sprintf("%d methods × %d seeds = %d runs", len(o.Variants), len(o.Seeds), len(o.Variants)*len(o.Seeds))
}
