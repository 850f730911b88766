package command

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/spml/train"
)

func newVerify() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify RUN",
		Short: "Replay a run's first steps and compare the weights",
		Long: `Trains the first steps of a run again (20 at most), in memory, and compares the hash of all weights after each step with the
run's record. The same data, settings, program, libtorch, CPU capability and number of threads give the same bits.

  spml verify runs/em`,
		Args: exactly(1, "one run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := train.Verify(cmd.Context(), args[0], train.Events{})
			if err != nil {
				return err
			}
			if asJSON {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(v); err != nil {
					return err
				}
			} else if v.Differs == 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "%d steps replayed, weights equal to the bit (%.16s…)\n", v.Steps, v.Hash)
			}
			if v.Differs != 0 {
				return fmt.Errorf("%w: step %d of %s gives other weights; env.json says on what it was trained", train.ErrData, v.Differs, args[0])
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
