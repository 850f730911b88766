package command

import (
	"fmt"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/train"
)

// demoMethods are the rows of the demo's table with the learning rates that results/shapes_grid.csv found best on validation.
var demoMethods = []struct {
	id, title string
	lr        float64
}{
	{"bce", "BCE, all labels (upper bound)", 3e-3},
	{"em", "EM, one label per picture", 3e-3},
	{"an", "AN, one label per picture", 3e-3},
}

func newDemo() *cobra.Command {
	var (
		quick bool
		dir   string
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Train three methods on built-in pictures and print a table",
		Long: `Trains full-label BCE (the upper bound), EM and AN on drawn pictures with 12 labels, of which training sees one per
picture, with three seeds each, and prints the mean average precision on held-out pictures.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			seeds, epochs := []uint32{1, 2, 3}, 0
			if quick {
				seeds, epochs = seeds[:1], 2
			}
			r, err := newReporter(cmd.ErrOrStderr(), progressAuto)
			if err != nil {
				return err
			}
			start := time.Now()
			chance, err := chanceLevel(seeds[0])
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintf(w, "method\ttest mAP %%\tsd\tbest epochs\n")
			for _, m := range demoMethods {
				var maps []float64
				var best []int
				for _, seed := range seeds {
					c := train.Config{Data: train.ShapesName, Method: m.id, LR: m.lr, Seed: seed, Epochs: epochs}
					if dir != "" {
						c.Run = filepath.Join(dir, fmt.Sprintf("%s-%d", m.id, seed))
					}
					r.label, r.quiet = fmt.Sprintf("%s seed %d  ", m.id, seed), r.kind == progressBar
					res, err := train.Run(cmd.Context(), c, r.events())
					if err != nil {
						return err
					}
					maps, best = append(maps, res.Best.TestMAP), append(best, res.Best.Epoch)
				}
				r.clear()
				mean, sd := stat.MeanStdDev(maps, nil)
				spread := "-"
				if len(maps) > 1 {
					spread = fmt.Sprintf("± %.2f", sd)
				}
				fmt.Fprintf(w, "%s\t%.2f\t%s\t%v\n", m.title, mean, spread, best)
			}
			fmt.Fprintf(w, "chance (mean share of positives)\t%.2f\t\t\n", chance)
			fmt.Fprintf(cmd.OutOrStdout(), "\n12 labels on drawn pictures; test mAP of the epoch with the best validation mAP, mean and sd of %d seed(s)\n\n", len(seeds))
			if err := w.Flush(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "\n%d runs in %s. Your own photos: spml train --help\n", len(seeds)*len(demoMethods), time.Since(start).Round(time.Second))
			return err
		},
	}
	cmd.Flags().BoolVar(&quick, "quick", false, "one seed and two epochs, to see that everything works")
	cmd.Flags().StringVar(&dir, "run", "", "folder to keep the runs in")
	return cmd
}

// chanceLevel is the mAP of random scores on the test pictures of a seed: the mean share of positives over the classes, in percent.
func chanceLevel(seed uint32) (float64, error) {
	c, err := train.Config{Data: train.ShapesName, Method: "an", Seed: seed}.Resolve()
	if err != nil {
		return 0, err
	}
	ds, err := train.Open(c)
	if err != nil {
		return 0, err
	}
	defer ds.Close()
	rows, positives := ds.Rows(data.Test), 0
	for _, y := range ds.Gather(ds.Labels, rows) {
		positives += int(y)
	}
	return 100 * float64(positives) / float64(len(rows)*ds.C()), nil
}
