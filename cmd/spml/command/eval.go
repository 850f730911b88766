package command

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/evaluate"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/train"
)

func newEval() *cobra.Command {
	var (
		part, progress string
		asJSON         bool
		share          float64
		o              evaluate.Options
	)
	cmd := &cobra.Command{
		Use:   "eval RUN",
		Short: "Score a run's model on its data",
		Long: `Scores the saved model of a run directory on the test part (or another part) of the run's data, with full labels.

  spml eval runs/em
  spml eval runs/em --part val --json
  spml eval runs/em --data other-photos                       on another set with the same classes
  spml eval runs/em --part train --pseudo-positives 0.1       how good its best-scored unannotated labels would be as positives`,
		Args: exactly(1, "one run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			split, err := data.ParseSplit(part)
			if err != nil {
				return usageError{err}
			}
			r, err := newReporter(cmd.ErrOrStderr(), progress)
			if err != nil {
				return err
			}
			o.Part = split
			if share != 0 {
				return pseudoPositives(cmd, args[0], split, share, r.events())
			}
			rep, err := evaluate.Run(cmd.Context(), args[0], o, r.events())
			r.clear()
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(out).Encode(rep)
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
			plain.Fprintf(w, "class\tpositives\tAP %%\t\n")
			for _, c := range rep.PerClass {
				plain.Fprintf(w, "%s\t%d\t%.2f\t\n", c.Class, c.Positives, c.AP)
			}
			plain.Fprintf(w, "mAP\t%d images\t%.2f\t\n", rep.Images, rep.MAP)
			if err := w.Flush(); err != nil {
				return err
			}
			at := "at the model's threshold of each class"
			if rep.Threshold != 0 {
				at = fmt.Sprintf("at the model's threshold %g", rep.Threshold)
			}
			_, err = plain.Fprintf(out, "F1 %s: micro %.2f %%, macro %.2f %%\n", at, rep.MicroF1, rep.MacroF1)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&part, "part", "test", "train, val or test")
	f.StringVar(&o.Data, "data", "", "another data set, in any format of spml data formats")
	addDataOptions(f, &o.DataOptions)
	f.StringVar(
		&o.Device,
		"device",
		config.DeviceAuto,
		"where to compute: auto (a graphics card where there is one), cpu, cuda or cuda:N",
	)
	f.StringVar(&o.EXIF, "exif", "", "orientation of photos: apply or ignore (default: as the run was trained)")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.StringVar(&progress, "progress", progressAuto, "auto, bar, plain, json or off")
	f.Float64Var(&share, "pseudo-positives", 0, "instead: the precision of this share of each class's unannotated labels, those with the highest scores, as positives")
	return cmd
}

// pseudoPositives prints how good the best-scored labels that are not annotated would be as positives.
func pseudoPositives(cmd *cobra.Command, run string, part data.Split, share float64, ev train.Events) error {
	if !(share > 0 && share <= 1) {
		return usageError{fmt.Errorf("--pseudo-positives %v: want a share above 0 and up to 1", share)}
	}
	ds, sc, err := evaluate.Score(cmd.Context(), run, part, ev)
	if err != nil {
		return err
	}
	if ds.Observed == nil {
		return usageError{fmt.Errorf("%s has no observed labels in its %v part", ds.Name, part)}
	}
	q, err := metric.TopShare(sc.Values, ds.Gather(ds.Labels, sc.Rows), ds.Gather(ds.Observed, sc.Rows), ds.C(), share)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "the highest %g %% of the unannotated labels of each class: %d pseudo-positives, precision %.2f %%, recall %.2f %% of the %d hidden positives\n",
		100*share, q.Pseudo, 100*q.Precision(), 100*q.Recall(), q.Hidden)
	return err
}
