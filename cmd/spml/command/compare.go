package command

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/recipe"
	"github.com/gospml/gospml/torch/dist"
)

// referenceSeeds are the papers' and those of the reference runs.
var referenceSeeds = []uint32{1200, 1, 2, 3, 4}

// comparison are the flags that compare and sweep share.
type comparison struct {
	s          *settingFlags
	dir, form  string
	seeds      string
	jobs, reps int
	dry        dryFlags
	progress   string
	reporter   *reporter
	rows       []string // of reproduce: settings of single rows
	tune       tuning   // of compare
	beside     string   // likewise
	valFirst   bool     // of sweep
}

func (c *comparison) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	c.s = addSettings(f, "seed", "run", "method")
	f.StringVar(&c.dir, "run", "", "folder for the runs; what is done there is not done again")
	f.StringVar(&c.seeds, "seeds", "5", "number of seeds (of 1200, 1, 2, 3, 4, 5, …), or a list: 7,8,")
	f.IntVar(&c.jobs, "jobs", 0, "runs at once (default: as many as cores on features, else 1)")
	f.IntVar(&c.reps, "replicates", 0, "bootstrap replicates (default 1000; 200 where the scores are many)")
	f.StringVar(&c.form, "format", "md", "table on the output: md, csv, latex, json or svg; all are in the folder")
	f.StringVar(&c.progress, "progress", progressAuto, "auto, bar, plain, json or off")
	c.dry.add(cmd)
	run := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) (err error) {
		if c.reporter, err = newReporter(cmd.ErrOrStderr(), c.progress); err != nil || run == nil {
			return err
		}
		return run(cmd, args)
	}
}

func (c *comparison) run(cmd *cobra.Command, variants []compare.Variant) error {
	seeds, err := parseSeeds(c.seeds)
	if err != nil {
		return usageError{err}
	}
	if env, err := dist.FromEnv(); err == nil && env.WorldSize > 1 && env.Launcher != "slurm" {
		return usageError{fmt.Errorf("%s runs in one process, %s started %d; start it without a launcher: it runs several trainings at once by itself (--jobs)", cmd.Name(), env.Launcher, env.WorldSize)}
	}
	l, err := c.s.layers(os.Environ())
	if err != nil {
		return err
	}
	l.forms(variants)
	o := c.options(cmd, l.values, variants, seeds)
	var search *compare.Tuning
	if c.tune.on {
		if search, err = c.tune.tuning(o); err != nil {
			return err
		}
	}
	var numbers []compare.Number
	if c.beside != "" {
		if numbers, err = compare.ReadNumbers(c.beside); err != nil {
			return err
		}
	}
	if search != nil && (c.dry.dry || c.dry.measure) {
		if err := c.planSearch(cmd, o, *search); err != nil || c.dry.dry {
			return err
		}
	}
	switch {
	case search != nil:
	case c.dry.measure:
		if err := fitCost(cmd, o); err != nil || c.dry.dry {
			return err
		}
	case c.dry.dry:
		return dryRows(cmd, o, nil, c.form == "json")
	}
	if c.dir == "" {
		return usageError{fmt.Errorf("--run FOLDER is missing: the runs of a comparison are kept there")}
	}
	var t *compare.Table
	if search != nil {
		t, err = compare.Tune(cmd.Context(), o, *search)
	} else {
		t, err = compare.Run(cmd.Context(), o)
	}
	if err != nil {
		return err
	}
	t.Lay(numbers)
	for _, format := range compare.Formats {
		var b bytes.Buffer
		if err := t.Write(&b, format); err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(filepath.Join(c.dir, tableFile(format)), 0o644, b.Bytes()); err != nil {
			return err
		}
	}
	out := cmd.OutOrStdout()
	if c.form == "md" {
		out = plain.Writer{W: out}
	}
	if err := t.Write(out, c.form); err != nil {
		return err
	}
	_, err = plain.Fprintf(cmd.ErrOrStderr(), "next: spml report %s\n", c.dir)
	return err
}

func (c *comparison) options(cmd *cobra.Command, settings map[string]any, variants []compare.Variant, seeds []uint32) compare.Options {
	p := &runsReporter{r: c.reporter}
	return compare.Options{
		Settings: settings, Variants: variants, Seeds: seeds, Dir: c.dir, Jobs: c.jobs, Replicates: c.reps,
		Note: p.note, Watch: p.watch, ValFirst: c.valFirst,
	}
}

// planSearch says what a search would take: its runs and those of the test, and what each would train.
func (c *comparison) planSearch(cmd *cobra.Command, o compare.Options, g compare.Tuning) error {
	settings, runs := g.Budget(o)
	plain.Fprintf(cmd.ErrOrStderr(), "budget: up to %d settings × %d seeds = %d runs on validation, then %d rows × "+
		"%d seeds = %d runs on test\n",
		settings, len(g.Seeds), runs, len(o.Variants), len(o.Seeds), len(o.Variants)*len(o.Seeds))
	all, err := g.Options(o)
	if err != nil {
		return err
	}
	if !c.dry.measure {
		return dryRows(cmd, all, nil, c.form == "json")
	}
	if err := fitCost(cmd, all); err != nil {
		return err
	}
	return fitCost(cmd, o)
}

// tableFile names the file of a table in one of compare.Formats.
func tableFile(format string) string {
	if format == "latex" {
		return "table.tex"
	}
	return "table." + format
}

// parseSeeds reads --seeds.
func parseSeeds(s string) ([]uint32, error) {
	return seedList("seeds", s, func(i int) uint32 {
		if i < len(referenceSeeds) {
			return referenceSeeds[i]
		}
		return uint32(i)
	})
}

func newCompare() *cobra.Command {
	var methods []string
	c := &comparison{}
	cmd := &cobra.Command{
		Use:   "compare --data DIR --methods an,em,gr --run FOLDER",
		Short: "Train several methods with several seeds and print a table",
		Long: `Trains every method with every seed, shares features and decoded images between the runs, and prints mean and standard deviation, the
difference to the first method with a paired bootstrap over the test images, and the cost. What cannot be trained is left out before the first run
and stands in the table with the reason. Stopped, it goes on where it was: give the same command again.

--tune chooses each method's settings by validation mAP first: over its paper's grid, or where the paper names none over
the values that its authors have for their data sets. Test rows are neither scored nor written until every choice is
made; then each method is trained with --seeds, which the search has not seen, and scored once. The budget is printed
before and after, and the table says what was chosen.

--beside FILE lays numbers from elsewhere beside ours: CSV with a head of method,metric,mean,interval,source, or the
same as JSON or YAML.

  spml compare --data photos --weights mobilenet_v2.safetensors --frozen --methods an,em,em-apl,gr --seeds 5 --run cmp
  spml compare --data photos --features f.npy --frozen --methods all --seeds 5 --run cmp
  spml compare --data photos --features f.npy --frozen --methods an,role:k=1.2 --seeds 7,8, --run cmp --format latex
  spml compare --data photos --features f.npy --frozen --methods all --tune --grid lr=1e-3,1e-4 --run cmp
  spml compare --data photos --features f.npy --frozen --methods an,em --beside published.csv --run cmp
  spml compare --data shapes --head decoder --methods an,plc,lac:stages=1,lac:queue_size=-1,lac --run lac      LAC's ablation`,
		Args: exactly(0, "only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.tune.check(cmd); err != nil {
				return err
			}
			if len(methods) == 0 {
				return usageError{fmt.Errorf("--methods is missing, for instance --methods an,em,gr, or all")}
			}
			var names []string
			for _, m := range methods {
				if strings.Contains(m, "=") && !strings.Contains(m, ":") && len(names) > 0 { // role:k=1.2,x=1 was cut at its comma
					names[len(names)-1] += "," + m
					continue
				}
				switch m {
				case "all":
					names = append(names, compare.AllMethods(true)...)
				case "all-single":
					names = append(names, compare.AllMethods(false)...)
				default:
					names = append(names, m)
				}
			}
			v, err := compare.Methods(names)
			if err != nil {
				return err
			}
			return c.run(cmd, v)
		},
	}
	c.flags(cmd)
	c.tune.flags(cmd)
	cmd.Flags().StringVar(&c.beside, "beside", "", "file of published and other programs' numbers (CSV, JSON, YAML) "+
		"to lay beside ours")
	cmd.Flags().StringSliceVar(&methods, "methods", nil, "methods, the first is the baseline; all: every method that needs no further files; all-single: those without full labels")
	return cmd
}

func newSweep() *cobra.Command {
	var (
		grid   []string
		method string
	)
	c := &comparison{valFirst: true}
	cmd := &cobra.Command{
		Use:   "sweep [SWEEP] --data DIR --method NAME --run FOLDER [--grid KEY=V,V]",
		Short: "Train one method over a grid of settings",
		Long: `Trains a method at every point of a grid, one of the papers' or your own, and prints the table, validation mAP
first: choose the point by it. --no-test leaves the test part alone until you have chosen. Stopped, it goes on where it
was.

  spml sweep cole-grid --data photos --weights resnet50.safetensors --method an --run sweep
  spml sweep --data photos --features f.npy --frozen --method em --grid params.alpha=0.05,0.1,0.2 --grid lr=1e-3,1e-4 --seeds 2 --run sweep
  spml sweep list`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("sweep wants one name at most, got %d", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "list" {
				all, err := recipe.Sweeps()
				if err != nil {
					return err
				}
				for _, s := range all {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", s.Name, s.Source)
				}
				return nil
			}
			s := &recipe.Sweep{Grid: map[string][]any{}}
			if len(args) == 1 {
				named, err := recipe.GetSweep(args[0])
				if err != nil {
					return err
				}
				s = named
			}
			for _, g := range grid {
				if err := addGrid(s, g); err != nil {
					return err
				}
			}
			if method == "" {
				method = s.Method
			}
			if method == "" {
				return usageError{fmt.Errorf("--method is missing")}
			}
			points, err := s.Points()
			if err != nil {
				return &config.Error{Msg: err.Error()}
			}
			var v []compare.Variant
			for i, p := range points {
				name := pointName(method, p)
				if names := s.Names(); names != nil {
					name = method + " " + names[i]
				}
				p["method"] = method
				v = append(v, compare.Variant{Name: name, Set: p})
			}
			return c.run(cmd, v)
		},
	}
	c.flags(cmd)
	cmd.Flags().StringVar(&method, "method", "", "method that is trained")
	cmd.Flags().StringArrayVar(&grid, "grid", nil, "setting or params.NAME with its values: lr=1e-3,1e-4; repeatable")
	return cmd
}

// pointName is the method and the point's settings in one word.
func pointName(method string, p map[string]any) string {
	parts := []string{method}
	for _, k := range sortedKeys(p) {
		if k != "method" {
			parts = append(parts, fmt.Sprintf("%s=%v", strings.TrimPrefix(k, "params."), p[k]))
		}
	}
	return strings.Join(parts, " ")
}
