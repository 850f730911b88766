package command

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/internal/screen"
	"github.com/gospml/gospml/spml/rundir"
)

func newWatch() *cobra.Command {
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "watch [RUN…]",
		Short: "How runs go on, live, several side by side",
		Long: `Shows how far runs are, a row each, and draws the rows anew as epochs end, on any terminal and over
ssh. It ends when no run is being written any more, or by Ctrl-C; the runs are not touched. Without names they
are those of ./runs that are being written. Where there is no terminal it prints a line for each epoch.

  spml watch runs/em runs/gr`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if every < 100*time.Millisecond || every > time.Hour {
				return usageError{fmt.Errorf("--every %v, want 100ms to 1h", every)}
			}
			if len(args) == 0 {
				all, err := runsOf(nil)
				if err != nil {
					return err
				}
				for _, s := range all {
					if s.State == rundir.Running {
						args = append(args, s.Dir)
					}
				}
				if len(args) == 0 {
					plain.Fprintf(cmd.OutOrStdout(), "no run of %s is being written; spml runs list shows all\n", runsFolder)
					return nil
				}
			}
			for _, dir := range args {
				if _, err := rundir.Read(dir); err != nil {
					return err
				}
			}
			return watch(cmd, args, every)
		},
		ValidArgsFunction: runsThenFiles(1 << 10),
	}
	cmd.Flags().DurationVar(&every, "every", time.Second, "time between two looks")
	return cmd
}

// watch looks again and again until no run is written.
func watch(cmd *cobra.Command, dirs []string, every time.Duration) error {
	out, live := cmd.OutOrStdout(), screen.IsTerminal(cmd.OutOrStdout())
	tick := time.NewTicker(every)
	defer tick.Stop()
	var drawn int
	said := map[string]int{}
	for {
		all := make([]rundir.Summary, len(dirs))
		running := false
		for i, dir := range dirs {
			all[i] = rundir.Summarize(dir)
			running = running || all[i].State == rundir.Running
		}
		if live {
			text := watched(all, max(20, screen.Columns(out)-1), screen.HasColor(out))
			if drawn > 0 {
				fmt.Fprintf(out, "\x1b[%dA\r\x1b[J", drawn)
			}
			fmt.Fprint(out, text)
			drawn = strings.Count(text, "\n")
		} else {
			said = sayEpochs(out, all, said)
		}
		if !running {
			if !live {
				for _, s := range all {
					plain.Fprintf(out, "%s  %s at epoch %s, val mAP %s, test mAP %s\n", s.Dir, s.State, epochs(s), score(s.Val),
						score(s.Test))
				}
			}
			return nil
		}
		select {
		case <-cmd.Context().Done():
			return nil // who looks has seen enough
		case <-tick.C:
		}
	}
}

// sayEpochs prints the epochs that have ended since the last call.
func sayEpochs(out io.Writer, all []rundir.Summary, said map[string]int) map[string]int {
	for _, s := range all {
		for _, e := range s.Curve {
			if e.Epoch > said[s.Dir] {
				plain.Fprintf(out, "%s  epoch %d/%d  loss %.6f  val mAP %s  test mAP %s\n", s.Dir, e.Epoch, s.Epochs, e.Loss,
					e.Val(), e.Test())
				said[s.Dir] = e.Epoch
			}
		}
	}
	return said
}

// watched are the rows of a terminal.
func watched(all []rundir.Summary, columns int, color bool) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "run\tstate\tepoch\tloss\tval\tbest\tleft\tval mAP by epoch")
	for _, s := range all {
		loss, val, best, left := "", "", "", ""
		if n := len(s.Curve); n > 0 {
			loss, val = fmt.Sprintf("%.5f", s.Curve[n-1].Loss), s.Curve[n-1].Val()
			if s.State == rundir.Running {
				left = (time.Duration(s.Seconds/float64(n)*float64(max(0, s.Epochs-s.Epoch))) * time.Second).String()
			}
		}
		if s.Val != nil {
			best = fmt.Sprintf("%.2f at %d", *s.Val, s.Best)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", plain.Text(s.Dir), s.State, epochs(s), loss, val, best, left,
			curve(s.Curve))
	}
	_ = w.Flush() // into memory
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i, line := range lines {
		lines[i] = screen.Fit(strings.TrimRight(line, " "), columns)
		if c := ""; i > 0 && color {
			if c = stateColors[all[i-1].State]; c != "" {
				lines[i] = "\x1b[" + c + "m" + lines[i] + "\x1b[0m"
			}
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// curve draws the last epochs' validation mAP, from the lowest to the highest of them.
func curve(epochs []rundir.EpochRecord) string {
	const most = 40
	var v []float64
	for _, e := range epochs[max(0, len(epochs)-most):] {
		if !e.NoVal {
			v = append(v, e.ValMAP)
		}
	}
	if len(v) == 0 {
		return ""
	}
	low, high := v[0], v[0]
	for _, x := range v {
		low, high = min(low, x), max(high, x)
	}
	bars := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, x := range v {
		at := len(bars) - 1
		if high > low {
			at = int((x - low) / (high - low) * float64(len(bars)-1))
		}
		b.WriteRune(bars[at])
	}
	return b.String()
}
