package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/report"
)

// demoMethods are the rows of the demo's table; AN is the baseline. VLPL's temperature and threshold are those of
// results/vlm_shapes.csv.
var demoMethods = []struct {
	title   string
	variant compare.Variant
}{
	{"AN: what is not known is absent", compare.Variant{Name: "an", Set: map[string]any{"method": "an"}}},
	{"AN-LS: AN with label smoothing", compare.Variant{Name: "an-ls", Set: map[string]any{"method": "an-ls"}}},
	{"ROLE: labels estimated beside the model", compare.Variant{Name: "role", Set: map[string]any{"method": "role"}}},
	{"GR: a loss for false negatives", compare.Variant{Name: "gr", Set: map[string]any{"method": "gr"}}},
	{"EM: what is not known stays unknown", compare.Variant{Name: "em", Set: map[string]any{"method": "em"}}},
	{
		"EM on LAC's label-wise decoder",
		compare.Variant{
			Name: demoDecoder,
			Set: map[string]any{"method": "em", "head": "decoder", "decoder_dim": int64(64), "lr": 1e-3,
				"optimizer": "adamw", "weight_decay": 0.01, "schedule": "onecycle", "pct_start": 0.2},
		},
	},
	{
		"VLPL: labels from the small CLIP",
		compare.Variant{
			Name: "vlpl",
			Set:  map[string]any{"method": "vlpl", "clip": config.BuiltinClip, "pseudo_options": "tau=0.05;theta=0.15"},
		},
	},
	{"BCE: all labels (upper bound)", compare.Variant{Name: "bce", Set: map[string]any{"method": "bce"}}},
}

// demoDecoder is the row whose attention is drawn.
const demoDecoder = "em-decoder"

func newDemo() *cobra.Command {
	var (
		quick bool
		dir   string
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Compare eight methods on built-in pictures: a table, a report, pictures of attention",
		Long: `Trains eight methods on drawn pictures with 12 labels, of which training sees one per picture, and prints the mean average precision on held-out
pictures: from AN to VLPL with the small built-in CLIP, and full-label BCE as the upper bound. It leaves report.html, and in explained/ where the label-wise decoder looked. Stopped, it goes on
where it was.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				dir = "spml-demo"
			}
			settings, seeds := map[string]any{"data": config.Shapes, "epochs": int64(5), "threads": int64(1)}, []uint32{1, 2}
			if quick {
				dir += "-quick"
				settings["epochs"], seeds = int64(1), seeds[:1]
			}
			return demo(cmd, dir, settings, seeds)
		},
	}
	cmd.Flags().BoolVar(&quick, "quick", false, "one seed and one epoch, to see that everything works")
	cmd.Flags().StringVar(&dir, "run", "", "folder for the runs and the report (default spml-demo; --quick adds -quick to its name)")
	return cmd
}

func demo(cmd *cobra.Command, dir string, settings map[string]any, seeds []uint32) error {
	start := time.Now()
	o := compare.Options{Settings: settings, Seeds: seeds, Dir: dir, Jobs: runtime.NumCPU(), Replicates: 400, Note: func(text string) { plain.Fprintf(cmd.ErrOrStderr(), "%s\n", text) }}
	for _, m := range demoMethods {
		o.Variants = append(o.Variants, m.variant)
	}
	t, err := compare.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	for _, form := range []string{"json", "svg"} {
		write := func(w io.Writer) error { return t.Write(w, form) }
		if err := atomicfile.WriteFile(filepath.Join(dir, "table."+form), 0o644, write); err != nil {
			return err
		}
	}
	out := cmd.OutOrStdout()
	plain.Fprintf(out, "\n%d labels on drawn pictures, one of each picture's seen in training; test mAP of the epoch with the best validation mAP, %d seed(s)\n\n", t.Classes, len(seeds))
	if err := demoTable(out, t); err != nil {
		return err
	}
	b, err := report.Make(cmd.Context(), []string{dir}, report.Options{Title: "Eight methods on drawn pictures", Replicates: o.Replicates})
	if err != nil {
		return err
	}
	page := filepath.Join(dir, "report.html")
	if err := atomicfile.WriteBytes(page, 0o644, b); err != nil {
		return err
	}
	sheet, err := demoAttention(cmd.Context(), cmd.ErrOrStderr(), dir, seeds[0])
	if err != nil {
		return err
	}
	_, err = plain.Fprintf(out, "\n%d runs in %s. Open %s; where the decoder looked: %s\nYour own photos: spml train --help\n", len(seeds)*len(demoMethods), time.Since(start).Round(time.Second), page, sheet)
	return err
}

// demoTable prints the rows with their titles, the image-text model alone and chance.
func demoTable(out io.Writer, t *compare.Table) error {
	chance, err := chanceLevel(t.Rows[0].Seeds[0])
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	plain.Fprintf(w, "method\ttest mAP %%\tsd\t− AN\t95 %% interval\ts/run\n")
	for i, r := range t.Rows {
		title := "the small CLIP alone, zero-shot"
		if i < len(demoMethods) {
			title = demoMethods[i].title
		}
		sd, difference, interval, seconds := "-", "", "", ""
		if len(r.Seeds) > 1 {
			sd = fmt.Sprintf("± %.2f", r.BestSD)
		}
		if d := r.Difference; d != nil {
			difference, interval = fmt.Sprintf("%+.2f", d.Difference.Value), fmt.Sprintf("%+.2f … %+.2f", d.Difference.Low, d.Difference.High)
		}
		if r.Seconds > 0 {
			seconds = fmt.Sprintf("%.0f", r.Seconds)
		}
		plain.Fprintf(w, "%s\t%.2f\t%s\t%s\t%s\t%s\n", title, r.BestMean, sd, difference, interval, seconds)
	}
	plain.Fprintf(w, "chance (mean share of positives)\t%.2f\t\t\t\t\n", chance)
	return w.Flush()
}

// demoAttention draws where the decoder looked in the first test pictures.
func demoAttention(ctx context.Context, errs io.Writer, dir string, seed uint32) (sheet string, err error) {
	const photos = 6
	run := filepath.Join(dir, demoDecoder, fmt.Sprintf("seed-%d", seed))
	to := filepath.Join(dir, "explained")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return "", err
	}
	all, done, err := runPhotos(run, "test")
	if err != nil {
		return "", err
	}
	defer done()
	var files []photo
	for p, err := range all {
		if err != nil {
			return "", err
		}
		if files = append(files, p); len(files) == photos {
			break
		}
	}
	t, err := model.OpenTagger(run, model.TaggerOptions{})
	if err != nil {
		return "", err
	}
	defer t.Close()
	e := explainer{t: t, out: to, top: 4, say: io.Discard}
	return filepath.Join(to, "sheet.png"), e.all(ctx, errs, files)
}

// chanceLevel is the mAP of random scores on the test pictures of a seed: the mean share of positives over the classes,
// in percent.
func chanceLevel(seed uint32) (float64, error) {
	c, err := config.Config{
		Data:   config.Data{Path: config.Shapes},
		Method: config.Method{ID: "an"},
		Run:    config.Run{Seed: seed},
	}.Resolve()
	if err != nil {
		return 0, err
	}
	ds, err := c.Data.Open()
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
