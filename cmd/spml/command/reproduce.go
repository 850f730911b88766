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
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/reproduce"
	"github.com/gospml/gospml/spml/train"
)

func newReproduce() *cobra.Command {
	var (
		dry, asJSON bool
		as, photo   string
		from        []string
		only        []string
	)
	c := &comparison{}
	cmd := &cobra.Command{
		Use:   "reproduce list | PAPER:TABLE [--data PATH --as voc --run FOLDER]",
		Short: "Make a table or a figure of a paper, beside the published numbers",
		Long: `Trains what a table of a paper holds by the paper's recipe and prints our numbers beside the published ones. What it costs is said first; stopped, it goes
on where it was. --as names the column (voc, coco, nus, cub) and with it the recipe; without it the same methods are compared on any data, by your settings.

  spml reproduce list
  spml reproduce gr:table2 --data VOCdevkit/VOC2012 --as voc --weights resnet50.safetensors --seeds 3 --run gr-table2 --dry-run
  spml reproduce lac:ablation --data shapes --seeds 2 --epochs 5 --run ablation
  spml reproduce em:table --data photos --weights mobilenet_v2.safetensors --frozen --only AN,EM,EM+APL --run em
  spml reproduce gr:fig1
  spml reproduce vlpl:table3 --data shapes --clip builtin --seeds 1 --epochs 3 --run vlpl-table3
  spml reproduce lac:fig6 --from runs/lac --photo photo.jpg`,
		Args: exactly(1, "one table or figure; spml reproduce list names them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "list" {
				return listPapers(cmd, asJSON)
			}
			it, err := reproduce.Get(args[0])
			if err != nil {
				return err
			}
			switch {
			case it.Needs != "":
				return usageError{fmt.Errorf("%s (%s) needs %s", it.ID, it.Title, it.Needs)}
			case len(it.Command) > 0:
				if dry {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: no training; runs spml %s\n", it.ID, strings.Join(it.Command, " "))
					return nil
				}
				return runItem(cmd, it, map[string]string{"$DATA": c.s.values["data"].text, "$CLIP": c.s.values["clip"].text, "$PHOTO": photo}, from)
			}
			return c.reproduce(cmd, it, as, only, dry, asJSON)
		},
	}
	c.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&from, "from", nil, "finished runs of which a figure is made")
	f.StringVar(&photo, "photo", "", "the photo of a figure")
	f.StringVar(&as, "as", "", "column of the table, and with it the recipe: voc, coco, nus, cub")
	f.StringSliceVar(&only, "only", nil, "rows by their names in the paper; the first is the baseline")
	f.BoolVar(&dry, "dry-run", false, "say what it would cost and stop")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
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
		what := fmt.Sprintf("%d rows", len(it.Rows))
		if len(it.Sweeps) > 0 {
			what = fmt.Sprintf("%d points", len(it.Rows))
		}
		if len(it.Command) > 0 {
			what = "writes " + it.Writes
		} else if it.Needs != "" {
			what = "needs more"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", strings.Join(append([]string{it.ID}, it.Also...), ", "), what, it.Title)
	}
	return w.Flush()
}

// runItem runs the command of a figure with what its words in capitals stand for.
func runItem(cmd *cobra.Command, it *reproduce.Item, values map[string]string, runs []string) error {
	for i, run := range runs {
		name := "$RUN"
		if i > 0 {
			name += strconv.Itoa(i + 1)
		}
		values[name] = run
	}
	flags := map[string]string{"$DATA": "--data PATH", "$CLIP": "--clip MODEL", "$PHOTO": "--photo FILE", "$RUN": "--from RUN", "$RUN2": "--from RUN,RUN2"}
	args := slices.Clone(it.Command)
	for i, a := range args {
		if !strings.HasPrefix(a, "$") {
			continue
		}
		if args[i] = values[a]; args[i] == "" {
			err := fmt.Errorf("%s wants %s", it.ID, flags[a])
			if it.First != "" && strings.HasPrefix(a, "$RUN") {
				err = fmt.Errorf("%w; for instance of %s", err, it.First)
			}
			return usageError{err}
		}
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "spml "+strings.Join(args, " "))
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(cmd.OutOrStdout())
	root.SetErr(cmd.ErrOrStderr())
	return root.ExecuteContext(cmd.Context())
}

// reproduce trains the rows of a table.
func (c *comparison) reproduce(cmd *cobra.Command, it *reproduce.Item, as string, only []string, dry, asJSON bool) error {
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
				return usageError{fmt.Errorf("%s has no row %q; there are %s", it.ID, name, strings.Join(names, ", "))}
			}
			it.Rows = append(it.Rows, rows[i])
		}
	}
	var deviations []string
	if as != "" {
		r, err := it.RecipeFor(as)
		if err != nil {
			return err
		}
		c.s.recipe, deviations = r.Name, r.Deviations
	}
	l, err := c.s.layers(os.Environ())
	if err != nil {
		return err
	}
	settings := maps.Clone(l.values)
	for k, v := range it.Settings {
		if _, ok := settings[k]; !ok {
			settings[k] = v
		}
	}
	variants, left, err := it.Variants(settings["pseudo_labels"] != nil, settings["clip"] != nil || settings["data"] == train.ShapesName)
	if err != nil {
		return err
	}
	if len(variants) == 0 {
		return usageError{fmt.Errorf("no row of %s can be trained: %s needs %s", it.ID, left[0].Name, left[0].Needs)}
	}
	seeds, err := parseSeeds(c.seeds)
	if err != nil {
		return usageError{err}
	}
	if err := c.cost(cmd, settings, variants, len(seeds)); err != nil || dry {
		return err
	}
	if c.dir == "" {
		return usageError{errors.New("--run FOLDER is missing: the runs are kept there")}
	}
	t, err := compare.Run(cmd.Context(), compare.Options{
		Settings: settings, Variants: variants, Seeds: seeds, Dir: c.dir, Jobs: c.jobs, Replicates: c.reps,
		Note: func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), text) },
	})
	if err != nil {
		return err
	}
	lines := it.Lines(t, as, left)
	var b bytes.Buffer
	if err := reproduce.WriteLines(&b, lines); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%s: %s. Ours: %s, %d test images, %d seeds, test mAP of the epoch that validation chose.\n", it.ID, it.Title, t.Data, t.Test, len(seeds))
	if as == "" {
		fmt.Fprintln(&b, "No paper reports this data set; --as voc, coco, nus or cub lays its column beside ours.")
	}
	for _, d := range deviations {
		fmt.Fprintf(&b, "Deviation: %s\n", d)
	}
	if err := atomicfile.WriteBytes(filepath.Join(c.dir, strings.ReplaceAll(it.ID, ":", "-")+".md"), 0o644, b.Bytes()); err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(lines)
	}
	_, err = b.WriteTo(cmd.OutOrStdout())
	return err
}

// cost measures the first row's first steps and says what all rows take.
func (c *comparison) cost(cmd *cobra.Command, settings map[string]any, variants []compare.Variant, seeds int) error {
	m := maps.Clone(settings)
	for k, v := range variants[0].Set {
		if !strings.HasPrefix(k, "params.") {
			m[k] = v
		}
	}
	delete(m, "run")
	config, err := train.FromSettings(m)
	if err != nil {
		return err
	}
	p, err := train.Estimate(cmd.Context(), config, train.Events{})
	if err != nil {
		return err
	}
	runs := len(variants) * seeds
	total := time.Duration(float64(runs) * p.Seconds * float64(time.Second))
	fmt.Fprintf(cmd.ErrOrStderr(), "%d methods × %d seeds = %d runs: about %v one after the other at the speed of %s (%.3f s a step), memory to %.1f GB, disk %.1f GB\n",
		len(variants), seeds, runs, total.Round(time.Second), variants[0].Name, p.StepSeconds, float64(p.MemoryBytes)/1e9, float64(runs)*float64(p.DiskBytes)/1e9)
	return nil
}
