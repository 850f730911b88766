package command

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/train"
)

func newPlan() *cobra.Command {
	var (
		progress string
		asJSON   bool
	)
	var s *settingFlags
	cmd := &cobra.Command{
		Use:   "plan [flags of train]",
		Short: "What a run would take: time, memory, disk",
		Long: `Reads the data, builds the model, takes three real steps and one batch of scoring, and says how long the run would take and how much
memory and disk it would need. Nothing is written.

  spml plan --data photos --weights mobilenet_v2.safetensors --method em`,
		Args: exactly(0, "only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := newReporter(cmd.ErrOrStderr(), progress)
			if err != nil {
				return err
			}
			c, _, err := s.configuration()
			if err != nil {
				return err
			}
			return plan(cmd, cmd.OutOrStdout(), c, r, asJSON)
		},
	}
	s = addSettings(cmd.Flags())
	cmd.Flags().StringVar(&progress, "progress", progressAuto, "auto, bar, plain, json or off")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// coresBesideCard is how many cores a machine commonly has for each of its cards.
const coresBesideCard = 16

func plan(cmd *cobra.Command, out io.Writer, c config.Config, r *reporter, asJSON bool) error {
	p, err := train.Estimate(cmd.Context(), c, r.events())
	r.clear()
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(out).Encode(p)
	}
	mb := func(b int64) string { return fmt.Sprintf("%.0f MB", float64(b)/1e6) }
	plain.Fprintf(out, "steps        %d in %d epochs, %d images in each\n", p.Steps, p.Epochs, p.TrainImages)
	plain.Fprintf(out, "time         %v (%.3f s a step, %.3f s to score 32 images), measured on %d steps\n", time.Duration(p.Seconds*float64(time.Second)).Round(time.Second), p.StepSeconds, p.ScoreSeconds, p.Measured)
	if f := p.First; f != nil {
		plain.Fprintf(out, "stage 1      %v of that: %d steps, %.3f s each\n", time.Duration(f.Seconds*float64(time.Second)).Round(time.Second), f.Steps, f.StepSeconds)
	}
	plain.Fprintf(out, "memory       %s at most in these steps, up to %s with the decoded images\n", mb(p.PeakBytes), mb(p.MemoryBytes))
	if c := p.Card; c != nil {
		plain.Fprintf(out, "card         %s; %s at most in these steps, %s of them for decoded photos; %s of %s free\n",
			c.Device, mb(c.Peak), mb(c.Photos), mb(c.Free), mb(c.Total))
		if c.Driver != "" {
			plain.Fprintf(out, "             driver %s, %s\n", c.Driver, c.Code)
		}
	}
	if p.FeedPerSecond > 0 {
		plain.Fprintf(out, "photos       %.0f a second from %d cores, the steps take %.0f\n", p.FeedPerSecond, p.Cores,
			p.StepPerSecond)
	}
	if s := p.Feeding(coresBesideCard); s != "" {
		plain.Fprintf(out, "             %s\n", s)
	}
	if s := p.Limits(); s != "" {
		plain.Fprintf(out, "             %s\n", s)
	}
	plain.Fprintf(out, "disk         %s: %d checkpoints of %s, the model of %s\n", mb(p.DiskBytes), p.Checkpoints, mb(p.CheckpointBytes), mb(p.ModelBytes))
	_, err = fmt.Fprintln(out, "nothing was written")
	return err
}
