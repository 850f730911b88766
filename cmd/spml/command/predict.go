package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gospml/gospml/spml/train"
)

func newPredict() *cobra.Command {
	var (
		asJSON    bool
		top       int
		threshold float64
	)
	cmd := &cobra.Command{
		Use:   "predict RUN PHOTO…",
		Short: "Label photos",
		Long: `Prints the labels of photos with their probabilities. Labels above the model's threshold are marked.

  spml predict runs/em photo.jpg other.png
  spml predict runs/em photos/*.jpg --json > labels.jsonl`,
		Args: atLeast(2, "a run directory and at least one photo"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := train.Load(args[0], train.TaggerOptions{})
			if err != nil {
				return err
			}
			defer t.Close()
			if cmd.Flags().Changed("threshold") {
				t.Config.Threshold = threshold
			}
			out := cmd.OutOrStdout()
			enc := json.NewEncoder(out)
			color := isTerminal(out)
			var failed []error
			for _, path := range args[1:] {
				labels, err := t.TagFile(cmd.Context(), path)
				if cmd.Context().Err() != nil {
					return cmd.Context().Err()
				}
				if err != nil { // said now, counted at the end: the other photos still get their labels
					fmt.Fprintf(cmd.ErrOrStderr(), "spml: %v\n", err)
					failed = append(failed, err)
					continue
				}
				if top > 0 && top < len(labels) {
					labels = labels[:top]
				}
				if asJSON {
					err = enc.Encode(struct {
						Image  string        `json:"image"`
						Labels []train.Label `json:"labels"`
					}{path, labels})
				} else {
					err = printBars(out, path, labels, color)
				}
				if err != nil {
					return err
				}
			}
			if len(failed) > 0 {
				return fmt.Errorf("%d of %d photos could not be labelled: %w", len(failed), len(args)-1, errors.Join(failed...))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print one JSON object a photo")
	f.IntVar(&top, "top", 10, "labels per photo (0: all)")
	f.Float64Var(&threshold, "threshold", 0.5, "probability above which a label is marked (default: the model's)")
	return cmd
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == ""
}

// printBars draws one line a label: probability, bar, mark, name.
func printBars(w interface{ Write([]byte) (int, error) }, path string, labels []train.Label, color bool) error {
	const width = 30
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", path)
	for _, l := range labels {
		n := int(l.Probability*width + 0.5)
		bar := strings.Repeat("█", n) + strings.Repeat("·", width-n)
		mark := " "
		if l.Present {
			mark = "✓"
			if color {
				bar = "\x1b[32m" + bar + "\x1b[0m"
			}
		}
		fmt.Fprintf(&b, "  %5.1f %%  %s  %s %s\n", 100*l.Probability, bar, mark, l.Name)
	}
	_, err := w.Write([]byte(b.String()))
	return err
}
