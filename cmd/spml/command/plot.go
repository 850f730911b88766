package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/figure"
)

func newPlot() *cobra.Command {
	var out string
	var o figure.Options
	var list strings.Builder
	for _, f := range figure.Figures() {
		fmt.Fprintf(&list, "  %-10s %s\n  %-10s from %s\n", f.ID, f.Title, "", f.Wants)
	}
	cmd := &cobra.Command{
		Use:   "plot PAPER:FIG RUN…",
		Short: "Draw a figure of a paper from runs of yours",
		Long: `Draws what a paper shows of its runs, from run directories or the folder of a sweep, as one SVG file, light or dark as the reader's system is.

` + list.String() + `
  spml plot gr:fig3 runs/an runs/gr --out gr-fig3.svg
  spml sweep vlpl-threshold --data photos --clip M --run sweep && spml plot vlpl:fig3 sweep

The other figures: spml loss plot (GR Fig. 1), spml data stat --svg (GR Fig. 4), spml predict --compare RUN2 --html (VLPL Fig. 4), spml explain (LAC Fig. 6),
spml pseudo-label --html (AEVLP's tiles), spml predict --html (AEVLP's labels).`,
		Args: atLeast(1, "a figure and runs"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := figure.Draw(cmd.Context(), args[0], args[1:], o)
			if err != nil {
				return err
			}
			if out == "" {
				out = strings.ReplaceAll(args[0], ":", "-") + ".svg"
			}
			if err := atomicfile.WriteBytes(out, 0o644, b); err != nil {
				return err
			}
			_, err = plain.Fprintf(cmd.OutOrStdout(), "%s\n", out)
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the file (default: PAPER-FIG.svg)")
	cmd.Flags().SetNormalizeFunc(renamedFlag("preset", "data-set"))
	cmd.Flags().
		StringVar(&o.DataSet, "data-set", "", "data set whose tiles aevlp:supplement-fig1 draws: voc, coco, nus, cub")
	cmd.Flags().
		StringVar(&o.Class, "class", "", "class of em:fig10 (default: the one with the most hidden positives)")
	return cmd
}
