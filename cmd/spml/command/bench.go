package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/data/pixel/parity"
	"github.com/gospml/gospml/internal/plain"
)

// errDiffers ends `bench parity` after its report.
var errDiffers = errors.New("pixels differ from Pillow's")

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Speed of data, training and prediction as CSV; pixels beside Pillow's",
	}
	cmd.AddCommand(newBenchData(), newBenchTrain(), newBenchInfer(), newBenchParity())
	return cmd
}

func newBenchParity() *cobra.Command {
	var (
		python, progress string
		asJSON           bool
	)
	cmd := &cobra.Command{
		Use:   "parity FOLDER …",
		Short: "Compare pixels with Pillow's, picture by picture",
		Long: `Decodes every picture below the folders here and in a Python with Pillow: RGB, squashed to 448 × 448 (bilinear) and as CLIP's 224 × 224 crop (bicubic).
Prints how many differ in any byte; exit code 1 if there is one.

  spml bench parity photos/
  spml bench parity photos/ --python venv/bin/python`,
		Args: atLeast(1, "folders or files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if python == "" {
				python = os.Getenv("GOSPML_PYTHON")
			}
			if python == "" {
				found, err := exec.LookPath("python3")
				if err != nil {
					return fmt.Errorf("%w: name one with --python", parity.ErrNoPillow)
				}
				python = found
			}
			var paths []string
			for _, a := range args {
				p, err := parity.Pictures(a)
				if err != nil {
					return err
				}
				paths = append(paths, p...)
			}
			r, err := parity.Run(cmd.Context(), python, paths, func(done int) {
				if progress != progressOff && done%1000 == 0 {
					plain.Fprintf(cmd.ErrOrStderr(), "%d of %d\n", done, len(paths))
				}
			})
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if asJSON {
				err = indented(out, r)
			} else {
				for _, d := range r.Differing {
					plain.Fprintf(out, "%s: %s\n", d.Path, d.What)
				}
				for _, d := range r.HereOnly {
					plain.Fprintf(out, "%s: read here, not by Pillow (%s)\n", d.Path, d.What)
				}
				_, err = plain.Fprintf(out, "%d of %d pictures differ from Pillow %s (decoded, 448 squash, 224 crop); %d refused by both, %d read here only\n",
					len(r.Differing), r.Compared+len(r.Differing), r.Pillow, r.Refused, len(r.HereOnly))
			}
			if err == nil && len(r.Differing) > 0 {
				err = errDiffers
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&python, "python", "", "a Python with Pillow (default: $GOSPML_PYTHON, then python3)")
	f.StringVar(&progress, "progress", progressAuto, "auto, bar, plain, json or off")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
