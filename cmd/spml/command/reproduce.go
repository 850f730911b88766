package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/reproduce"
	"github.com/gospml/gospml/spml/train"
)

func newReproduce() *cobra.Command {
	var (
		asJSON    bool
		as, photo string
		from      []string
		only      []string
	)
	c := &comparison{}
	cmd := &cobra.Command{
		Use:   "reproduce list | PAPER:TABLE [--data PATH --as voc --run FOLDER]",
		Short: "Make a table or a figure of a paper, beside the published numbers",
		Long: `Trains what a table of a paper holds by the paper's recipe and prints our numbers beside the published ones. Stopped, it goes on where it was. --dry-run
prints the settings of every row at once, --measure takes a few steps of each kind of row first and says what all cost; with both nothing is trained. --as names the column (voc, coco, nus, cub) and with it the recipe; without it the same methods are compared on any data, by your settings.
A figure of runs trains them first, one seed each, unless --from names them; a sweep's figure is drawn beside its table.

  spml reproduce list
  spml reproduce gr:table2 --data VOCdevkit/VOC2012 --as voc --weights resnet50.safetensors --seeds 3 --run gr-table2 --dry-run
  spml reproduce lac:ablation --data shapes --seeds 2 --epochs 5 --run ablation
  spml reproduce em:table --data photos --weights mobilenet_v2.safetensors --frozen --only AN,EM,EM+APL --run em
  spml reproduce gr:fig1
  spml reproduce gr:fig3 --data shapes --run gr-fig3                        trains AN and GR, then draws
  spml reproduce gr:fig3 --from runs/an,runs/gr                             draws runs of yours
  spml reproduce vlpl:table3 --data shapes --clip builtin --seeds 1 --epochs 3 --run vlpl-table3
  spml reproduce lac:fig6 --from runs/lac --photo photo.jpg`,
		Args: exactly(1, "one table or figure; spml reproduce list names them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "list" {
				return listPapers(cmd, asJSON)
			}
			it, err := reproduce.Get(args[0])
			if err == nil {
				it, err = it.For(as)
			}
			if err != nil {
				return err
			}
			if len(from) > 0 && len(it.Command) > 0 { // runs are there: only draw
				it.Rows = nil
			}
			values := map[string]string{"$AS": as, "$DATA": c.s.values["data"].text, "$CLIP": c.s.values["clip"].text, "$PHOTO": photo, "$OUT": c.dir, "$FOLDER": c.dir}
			if values["$OUT"] == "" {
				values["$OUT"] = "."
			}
			for i, name := range []string{"$RUN", "$RUN2"} {
				if i < len(from) {
					values[name], values["$FOLDER"] = from[i], from[0]
				}
			}
			if len(it.Rows) == 0 {
				return draw(cmd, it, values, c.dry.dry)
			}
			if len(it.Command) > 0 && len(it.Sweeps) == 0 && !cmd.Flags().Changed("seeds") {
				c.seeds = "1" // a figure shows one run of each method
			}
			runs, err := c.reproduce(cmd, it, as, only, asJSON)
			if err != nil || c.dry.dry || len(it.Command) == 0 {
				return err
			}
			for i, name := range []string{"$RUN", "$RUN2"} {
				if i < len(runs) {
					values[name] = runs[i]
				}
			}
			return draw(cmd, it, values, false)
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&from, "from", nil, "finished runs of which a figure is made, in place of training them")
	f.StringVar(&photo, "photo", "", "the photo of a figure")
	f.StringVar(&as, "as", "", "column of the table, and with it the recipe: voc, coco, nus, cub")
	f.StringSliceVar(&only, "only", nil, "rows by their names in the paper; the first is the baseline")
	f.StringArrayVar(&c.rows, "row", nil, "a setting of one row, NAME:KEY=VALUE (a parameter of its loss: params.NAME); repeatable")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// rowSettings reads NAME:KEY=VALUE.
func rowSettings(texts []string) (map[string]map[string]any, error) {
	rows := map[string]map[string]any{}
	for _, text := range texts {
		name, rest, ok := strings.Cut(text, ":")
		key, value, is := strings.Cut(rest, "=")
		if !ok || !is {
			return nil, fmt.Errorf("--row %q: want NAME:KEY=VALUE, for instance \"EM:epochs=5\"", text)
		}
		var v any
		var err error
		if param, ok := strings.CutPrefix(key, "params."); ok {
			if v, err = config.Parse("params", param+"="+value); err == nil {
				v = v.(map[string]any)[param]
			}
		} else {
			v, err = config.Parse(key, value)
		}
		if err != nil {
			return nil, fmt.Errorf("--row %q: %w", text, err)
		}
		if rows[name] == nil {
			rows[name] = map[string]any{}
		}
		rows[name][key] = v
	}
	return rows, nil
}

func listPapers(cmd *cobra.Command, asJSON bool) error {
	items, err := reproduce.Items()
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(items)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, it := range items {
		var parts []string
		if len(it.Sweeps) > 0 {
			parts = append(parts, fmt.Sprintf("%d points", len(it.Rows)))
		} else if len(it.Rows) > 0 {
			parts = append(parts, fmt.Sprintf("%d rows", len(it.Rows)))
		}
		if len(it.Command) > 0 {
			parts = append(parts, it.Writes)
		}
		what := strings.Join(parts, ", ")
		plain.Fprintf(w, "%s\t%s\t%s\n", strings.Join(append([]string{it.ID}, it.Also...), ", "), what, it.Title)
	}
	return w.Flush()
}

// draw runs the command of a figure.
func draw(cmd *cobra.Command, it *reproduce.Item, values map[string]string, dry bool) error {
	if dry {
		plain.Fprintf(cmd.ErrOrStderr(), "%s: no training; runs spml %s\n", it.ID, reproduce.Plain(it.Command))
		return nil
	}
	args, err := it.Arguments(values)
	if missing := (*reproduce.MissingError)(nil); errors.As(err, &missing) {
		flag := map[string]string{"$AS": "--as voc, coco, nus or cub", "$DATA": "--data PATH", "$CLIP": "--clip MODEL", "$PHOTO": "--photo FILE", "$RUN": "--from RUN", "$RUN2": "--from RUN,RUN2", "$FOLDER": "--run FOLDER"}[missing.Variable]
		return usageError{fmt.Errorf("%s wants %s", it.ID, flag)}
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(values["$OUT"], 0o755); err != nil {
		return err
	}
	plain.Fprintf(cmd.ErrOrStderr(), "spml %s\n", strings.Join(args, " "))
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(cmd.OutOrStdout())
	root.SetErr(cmd.ErrOrStderr())
	return root.ExecuteContext(cmd.Context())
}

// reproduce trains the rows of a table and gives the run directory of each, of the first seed.
func (c *comparison) reproduce(cmd *cobra.Command, it *reproduce.Item, as string, only []string, asJSON bool) ([]string, error) {
	if len(only) > 0 {
		rows := it.Rows
		it.Rows = nil
		for _, name := range only {
			i := slices.IndexFunc(rows, func(r reproduce.Row) bool { return strings.EqualFold(r.Name, strings.TrimSpace(name)) })
			if i < 0 {
				var names []string
				for _, r := range rows {
					names = append(names, r.Name)
				}
				return nil, usageError{fmt.Errorf("%s has no row %q; there are %s", it.ID, name, strings.Join(names, ", "))}
			}
			it.Rows = append(it.Rows, rows[i])
		}
	}
	var deviations []string
	if as != "" {
		r, err := it.RecipeFor(as)
		if err != nil {
			return nil, err
		}
		c.s.recipe, deviations = r.Name, r.Deviations
	}
	l, err := c.s.layers(os.Environ())
	if err != nil {
		return nil, err
	}
	settings := maps.Clone(l.values)
	for k, v := range it.Settings {
		if _, ok := settings[k]; !ok {
			settings[k] = v
		}
	}
	if c.dry.dry && !c.dry.measure && settings["data"] == nil {
		settings["data"] = someData // what the rows' settings are does not hang on the photos
	}
	own, err := rowSettings(c.rows)
	if err != nil {
		return nil, usageError{err}
	}
	drawn := settings["data"] == config.Shapes
	variants, left, err := it.Variants(reproduce.Choices{
		Column: as, PseudoLabels: settings["pseudo_labels"] != nil, Clip: settings["clip"] != nil || drawn, Drawn: drawn, Rows: own, Weights: settings["weights"] != nil || settings["features"] != nil,
		Given: func(key string) bool { return l.origin[key] != "" && !strings.HasPrefix(l.origin[key], "recipe") },
	})
	if err != nil {
		return nil, err
	}
	l.forms(variants)
	if len(left) > 0 && len(it.Command) > 0 && len(it.Sweeps) == 0 {
		return nil, usageError{fmt.Errorf("%s shows %s, which needs %s", it.ID, left[0].Name, left[0].Needs)}
	}
	if len(variants) == 0 {
		return nil, usageError{fmt.Errorf("no row of %s can be trained: %s needs %s", it.ID, left[0].Name, left[0].Needs)}
	}
	seeds, err := parseSeeds(c.seeds)
	if err != nil {
		return nil, usageError{err}
	}
	o := c.options(cmd, settings, variants, seeds)
	if c.dry.dry && !c.dry.measure {
		return nil, dryRows(cmd, o, left, asJSON)
	}
	switch {
	case c.dry.measure:
		if err := fitCost(cmd, o); err != nil || c.dry.dry {
			return nil, err
		}
	}
	if c.dir == "" {
		return nil, usageError{errors.New("--run FOLDER is missing: the runs are kept there")}
	}
	t, err := compare.Run(cmd.Context(), o)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, format := range compare.Formats {
		b.Reset()
		if err := t.Write(&b, format); err != nil {
			return nil, err
		}
		if err := atomicfile.WriteBytes(filepath.Join(c.dir, tableFile(format)), 0o644, b.Bytes()); err != nil {
			return nil, err
		}
	}
	lines := it.Lines(t, as, left)
	b.Reset()
	if err := reproduce.WriteLines(&b, lines); err != nil {
		return nil, err
	}
	plain.Fprintf(&b, "\n%s: %s. Ours: %s, %d test images, %d seeds, test mAP of the epoch that validation chose.\n", it.ID, it.Title, t.Data, t.Test, len(seeds))
	if as == "" {
		fmt.Fprintln(&b, "No paper reports this data set; --as voc, coco, nus or cub lays its column beside ours.")
	}
	for _, d := range deviations {
		plain.Fprintf(&b, "Deviation: %s\n", d)
	}
	if err := atomicfile.WriteBytes(filepath.Join(c.dir, strings.ReplaceAll(it.ID, ":", "-")+".md"), 0o644, b.Bytes()); err != nil {
		return nil, err
	}
	var runs []string
	for _, v := range variants {
		if i := slices.IndexFunc(t.Rows, func(r compare.Row) bool { return r.Name == v.Name && r.LeftOut != "" }); i >= 0 {
			if len(it.Command) > 0 && len(it.Sweeps) == 0 {
				return nil, &config.Error{Msg: fmt.Sprintf("%s shows %s, which is left out: %s", it.ID, v.Name, t.Rows[i].LeftOut)}
			}
			continue
		}
		runs = append(runs, filepath.Join(c.dir, v.Name, fmt.Sprintf("seed-%d", seeds[0])))
	}
	if asJSON {
		return runs, json.NewEncoder(cmd.OutOrStdout()).Encode(lines)
	}
	_, err = b.WriteTo(cmd.OutOrStdout())
	return runs, err
}

// fitCost is cost of the rows that can be trained.
func fitCost(cmd *cobra.Command, o compare.Options) error {
	left, err := o.Fit()
	if err != nil {
		return err
	}
	for _, r := range left {
		o.Note(fmt.Sprintf("%s is left out: %s", r.Name, r.LeftOut))
	}
	return cost(cmd, o)
}

// cost measures the first steps of each kind of row and says what all rows take: methods that differ in their loss
// alone take the same.
func cost(cmd *cobra.Command, o compare.Options) error {
	var (
		measured     = map[string]*train.Plan{}
		seconds      float64
		disk, memory int64
		rows         []string
		seeds        = len(o.Seeds)
	)
	for _, v := range o.Variants {
		m := v.Over(o.Settings)
		delete(m, "run")
		kind, err := workOf(m)
		if err != nil {
			return err
		}
		p := measured[kind]
		if p == nil {
			settings, err := config.FromSettings(m)
			if err != nil {
				return err
			}
			if p, err = train.Estimate(cmd.Context(), settings, train.Events{}); err != nil {
				return fmt.Errorf("%s: %w", v.Name, err)
			}
			measured[kind] = p
			rows = append(rows, fmt.Sprintf("%s %.3f s a step", v.Name, p.StepSeconds))
		}
		seconds += float64(seeds) * p.Seconds
		disk += int64(seeds) * p.DiskBytes
		memory = max(memory, p.MemoryBytes)
	}
	total := time.Duration(seconds * float64(time.Second))
	plain.Fprintf(cmd.ErrOrStderr(), "%s: about %v one after the other (measured: %s), memory to %.1f GB, disk %.1f GB\n",
		countRuns(o), total.Round(time.Second), strings.Join(rows, ", "), float64(memory)/1e9, float64(disk)/1e9)
	return nil
}

// workOf tells apart runs whose steps take different work: other views, an image-text model in the loop, another head,
// two stages, other sizes.
func workOf(m map[string]any) (string, error) {
	of, err := method.Lookup(fmt.Sprint(m["method"]))
	if err != nil {
		return "", &config.Error{Msg: err.Error()}
	}
	if of.Head != "" {
		return of.ID, nil
	}
	e := of.Loss
	estimator := ""
	if e.Estimator != "schedule" && e.Estimator != "large-loss" { // these two cost nothing
		estimator = e.Estimator
	}
	kind := fmt.Sprint(e.Needs&^(loss.Observed|loss.Full|loss.Epoch), estimator)
	for _, k := range slices.Sorted(maps.Keys(m)) {
		switch {
		case k == "pseudo_options" && !strings.Contains(fmt.Sprint(m[k]), "grid"):
		case !slices.Contains([]string{"method", "params", "lr", "head_lr", "seed", "queue_size"}, k):
			kind += fmt.Sprintf(" %s=%v", k, m[k])
		}
	}
	return kind, nil
}
