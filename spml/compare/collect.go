package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
)

// Group is a row of a comparison with its runs.
type Group struct {
	Name string
	Runs []*rundir.Record // one for each seed
}

// Collect finds the finished runs behind a comparison: a folder that Run wrote, with its table, or run directories that
// were trained one by one. Runs whose settings differ in nothing but seeds make a row; the first is the baseline.
func Collect(paths []string, replicates int) (*Table, []Group, error) {
	if len(paths) == 1 && !rundir.Exists(paths[0]) {
		return collectFolder(paths[0])
	}
	var groups []Group
	keys := map[string]int{}
	for _, p := range paths {
		r, err := finished(p)
		if err != nil {
			return nil, nil, err
		}
		if len(groups) > 0 {
			if first := groups[0].Runs[0]; !sameData(first, r) {
				return nil, nil, &config.Error{
					Msg: fmt.Sprintf(
						"%s was trained on %s, %s on %s (photos, labels or parts differ): their scores do not compare; give runs of "+
							"one data set",
						first.Dir,
						first.Config.Data.Path,
						r.Dir,
						r.Config.Data.Path,
					),
				}
			}
		}
		m := r.Config.AsSettings()
		for _, k := range []string{"run", "seed", "data_seed", "stage_one", "init"} {
			delete(m, k)
		}
		key := fmt.Sprint(m)
		i, ok := keys[key]
		if !ok {
			i = len(groups)
			keys[key] = i
			groups = append(groups, Group{})
		}
		if slices.ContainsFunc(
			groups[i].Runs,
			func(x *rundir.Record) bool { return x.Config.Run.Seed == r.Config.Run.Seed },
		) {
			return nil, nil, &config.Error{Msg: fmt.Sprintf("%s has the settings and the seed of a run before it", p)}
		}
		groups[i].Runs = append(groups[i].Runs, r)
	}
	name(groups)
	t, err := tableOf(groups, replicates)
	return t, groups, err
}

// sameData says whether two runs saw the same photos, labels and parts. Drawn pictures are others for each seed and one
// data set all the same.
func sameData(a, b *rundir.Record) bool {
	if a.Config.Data.Path == config.Shapes {
		return b.Config.Data.Path == config.Shapes && a.Config.Data.Options.String() == b.Config.Data.Options.String()
	}
	return a.Environment.DataSHA256 == b.Environment.DataSHA256
}

// name calls groups by their methods, and where those are not enough by the settings that differ.
func name(groups []Group) {
	count := map[string]int{}
	for _, g := range groups {
		count[g.Runs[0].Config.Method.ID]++
	}
	for i := range groups {
		c := groups[i].Runs[0].Config
		groups[i].Name = c.Method.ID
		if count[c.Method.ID] < 2 {
			continue
		}
		var differ []string
		mine := c.AsSettings()
		for _, s := range config.Settings() {
			if s.Key == "run" || s.Key == "seed" || s.Key == "data_seed" {
				continue
			}
			for _, o := range groups {
				if o.Runs[0].Config.Method.ID == c.Method.ID &&
					fmt.Sprint(o.Runs[0].Config.AsSettings()[s.Key]) != fmt.Sprint(mine[s.Key]) {
					v := mine[s.Key]
					if v == nil {
						v = "–"
					}
					differ = append(differ, fmt.Sprintf("%s=%v", s.Key, v))
					break
				}
			}
		}
		groups[i].Name += " " + strings.Join(differ, ", ")
	}
}

func collectFolder(dir string) (*Table, []Group, error) {
	path := filepath.Join(dir, "table.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &config.Error{
			Msg: fmt.Sprintf(
				"%s is neither a run (no run.yaml) nor a finished comparison (no table.json); give run directories, or the "+
					"folder of `spml compare`",
				dir,
			),
		}
	}
	if err != nil {
		return nil, nil, err
	}
	var t Table
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", train.ErrData, path, err)
	}
	var groups []Group
	for _, row := range t.Rows {
		g := Group{Name: row.Name}
		for _, seed := range row.Seeds {
			if row.Name == ZeroShotRow || row.LeftOut != "" {
				break
			}
			r, err := finished(filepath.Join(dir, row.Name, fmt.Sprintf("seed-%d", seed)))
			if err != nil {
				return nil, nil, err
			}
			g.Runs = append(g.Runs, r)
		}
		groups = append(groups, g)
	}
	return &t, groups, nil
}

// tableOf makes the table of runs that are there. A row is compared with the first over the seeds that both have, on
// the same test images.
func tableOf(groups []Group, replicates int) (*Table, error) {
	first := groups[0].Runs[0]
	t := &Table{
		Data: first.Environment.Data, Test: first.Environment.Rows[data.Test], Mode: first.Config.Model.Mode,
		Hidden: first.Config.Data.NoTest,
	}
	o := &Options{Replicates: replicates}
	for i, g := range groups {
		r := Row{Name: g.Name, Settings: map[string]any{"method": g.Runs[0].Config.Method}}
		for _, x := range g.Runs {
			r.Seeds = append(r.Seeds, x.Config.Run.Seed)
			r.add(x.Result)
			for _, e := range x.Result.Epochs {
				r.Seconds += e.Seconds / float64(len(g.Runs))
			}
		}
		r.means()
		if i > 0 && !r.NoTest {
			if err := o.difference(t, &r, groups[0], g); err != nil {
				return nil, fmt.Errorf("%s: %w", g.Name, err)
			}
		}
		t.Rows = append(t.Rows, r)
	}
	return t, nil
}

// difference fills the difference of a row to the first; it stays nil where they share no seed, data or test images.
func (o *Options) difference(t *Table, r *Row, first, g Group) error {
	var truth [][]int8
	var a, b []*train.Scores
	for _, x := range first.Runs {
		i := slices.IndexFunc(g.Runs, func(y *rundir.Record) bool { return y.Config.Run.Seed == x.Config.Run.Seed })
		if i < 0 || g.Runs[i].Environment.DataSHA256 != x.Environment.DataSHA256 {
			continue
		}
		p, err := rundir.ReadTestScores(x.Dir)
		if err != nil {
			return fmt.Errorf("the scores of %s: %w", x.Dir, err)
		}
		q, err := rundir.ReadTestScores(g.Runs[i].Dir)
		if err != nil {
			return fmt.Errorf("the scores of %s: %w", g.Runs[i].Dir, err)
		}
		if !slices.Equal(p.Rows, q.Rows) || len(a) > 0 && !slices.Equal(p.Rows, a[0].Rows) {
			continue
		}
		ds, err := x.Config.Data.Open()
		if err != nil {
			return err
		}
		if t.Classes = ds.C(); ds.Fingerprint() == x.Environment.DataSHA256 {
			truth, a, b = append(truth, ds.Gather(ds.Labels, p.Rows)), append(a, p), append(b, q)
		}
		if err := ds.Close(); err != nil {
			return err
		}
	}
	if len(a) == 0 {
		return nil
	}
	var err error
	r.Difference, err = o.paired(truth, t.Classes, a, b)
	return err
}
