package command

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/train"
)

func newEval() *cobra.Command {
	var (
		part, progress string
		asJSON         bool
		o              train.EvalOptions
	)
	cmd := &cobra.Command{
		Use:   "eval RUN",
		Short: "Score a run's model on its data",
		Long: `Scores the saved model of a run directory on the test part (or another part) of the run's data, with full labels.

  spml eval runs/em
  spml eval runs/em --part val --json
  spml eval runs/em --data other-photos                       on another set with the same classes`,
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
			rep, err := train.EvaluateOn(cmd.Context(), args[0], o, r.events())
			r.clear()
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if asJSON {
				return json.NewEncoder(out).Encode(rep)
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
			fmt.Fprintf(w, "class\tpositives\tAP %%\t\n")
			for _, c := range rep.PerClass {
				fmt.Fprintf(w, "%s\t%d\t%.2f\t\n", c.Class, c.Positives, c.AP)
			}
			fmt.Fprintf(w, "mAP\t%d images\t%.2f\t\n", rep.Images, rep.MAP)
			return w.Flush()
		},
	}
	f := cmd.Flags()
	f.StringVar(&part, "part", "test", "train, val or test")
	f.StringVar(&o.Data, "data", "", "another data set, in any format of spml data formats")
	f.StringVar(&o.DataOptions, "data-options", "", dataOptionHelp)
	f.StringVar(&o.Device, "device", train.DeviceAuto, "where to compute: auto (a graphics card where there is one), cpu, cuda or cuda:N")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.StringVar(&progress, "progress", progressAuto, "auto, bar, plain, json or off")
	return cmd
}
