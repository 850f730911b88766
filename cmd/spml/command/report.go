package command

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/report"
)

func newReport() *cobra.Command {
	var out string
	var o report.Options
	cmd := &cobra.Command{
		Use:   "report RUN… [--out report.html]",
		Short: "One HTML file of what came out: curves, classes, scores, photos, thresholds",
		Long: `Writes one HTML file that needs nothing else, of a run, of several runs, or of the folder of spml compare: curves, average precision by class, where the scores of
known, hidden and pseudo-positive labels lie in each epoch, photos with what the model looked at, a threshold to move, the environment and the command that repeats it. Several
runs are compared: mean and deviation over seeds, differences with a paired bootstrap, cost. It is light or dark as the reader's system is.

  spml report runs/em                                      writes runs/em/report.html
  spml report runs/an runs/em --out compared.html          the first is the baseline
  spml report cmp                                          a folder of spml compare`,
		Args: atLeast(1, "a run directory, several, or the folder of a comparison"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("photos") && o.Photos <= 0 {
				o.Photos = -1
			}
			return writeReport(cmd, args, out, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "the file (default: report.html in the folder of the first argument, or here for several runs)")
	f.StringVar(&o.Title, "title", "", "heading of the page")
	f.IntVar(&o.Photos, "photos", 4, "best and worst photos, so many of each (0: none)")
	f.IntVar(&o.Replicates, "replicates", 0, "resamples of the bootstrap (0: 1000)")
	return cmd
}

func writeReport(cmd *cobra.Command, paths []string, out string, o report.Options) error {
	if out == "" {
		if out = "report.html"; len(paths) == 1 {
			out = filepath.Join(paths[0], out)
		}
	}
	for _, p := range paths {
		if _, err := os.Stat(p); err != nil {
			return &config.Error{Msg: fmt.Sprintf("%s: %v; train a run with `spml train --run %s …`", p, err, p)}
		}
	}
	b, err := report.Make(cmd.Context(), paths, o)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(out, 0o644, b); err != nil {
		return err
	}
	_, err = plain.Fprintf(cmd.OutOrStdout(), "%s: %.2f MB\n", out, float64(len(b))/(1<<20))
	return err
}
