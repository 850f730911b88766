package command

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/compare"
)

func newDiff() *cobra.Command {
	var asJSON bool
	var classes, replicates int
	cmd := &cobra.Command{
		Use:   "diff RUN1 RUN2",
		Short: "What differs between two runs: settings, curves, classes",
		Long: `Prints the settings and the environment that differ, test mAP over the epochs, and for the best epochs the difference of mAP and of each class's average
precision with intervals from a paired bootstrap over the test images. "clear" marks classes whose interval does not hold 0.

  spml diff runs/an runs/em
  spml diff runs/an runs/em --classes 0 --json`,
		Args: exactly(2, "two run directories"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := compare.Diff(args[0], args[1], replicates)
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(d)
			}
			return d.Write(plain.Writer{W: cmd.OutOrStdout()}, classes)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON, with every class")
	f.IntVar(&classes, "classes", 15, "rows of classes, the most changed first (0: all)")
	f.IntVar(&replicates, "replicates", 0, "resamples of the bootstrap (0: 1000)")
	return cmd
}
