package command

import (
	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/evaluate"
	"github.com/gospml/gospml/spml/train"
)

func newExport() *cobra.Command {
	var o train.ExportOptions
	var tune bool
	var progress string
	cmd := &cobra.Command{
		Use:   "export RUN OUT --to timm|safetensors|torchscript",
		Short: "Write a run's model for other programs",
		Long: `Writes the saved model of a run directory to a path that must not exist.

  spml export runs/em em-timm --to timm                  a folder: timm.create_model("local-dir:em-timm", pretrained=True), or spml predict em-timm photo.jpg
  spml export runs/em em-timm --to timm --calibrate      with a threshold for each class: the best F1 on the run's validation part
  spml export runs/em em.safetensors --to safetensors    one file; the metadata "config" holds classes, thresholds and preprocessing
  spml export runs/em em.pt --to torchscript             one file for torch.jit.load and C++: normalised images in, logits out; config.json is an extra file`,
		Args: exactly(2, "a run directory and a path to write"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if tune {
				var err error
				if o.Thresholds, err = calibrate(cmd, args[0], progress); err != nil {
					return err
				}
			}
			if err := train.Export(args[0], args[1], o); err != nil {
				return err
			}
			plain.Fprintf(cmd.OutOrStdout(), "%s: written for %s\n", args[1], o.Form)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Form, "to", train.ExportTimm, "timm (a folder), safetensors or torchscript (a file)")
	f.BoolVar(&tune, "calibrate", false, "choose a threshold for each class on the run's validation part")
	f.StringVar(&progress, "progress", progressAuto, "auto, bar, plain, json or off")
	return cmd
}

// calibrate chooses a threshold for each class of a run and says what that gains.
func calibrate(cmd *cobra.Command, run, progress string) ([]float64, error) {
	r, err := newReporter(cmd.ErrOrStderr(), progress)
	if err != nil {
		return nil, err
	}
	classes, err := evaluate.Calibrate(cmd.Context(), run, r.events())
	r.clear()
	if err != nil {
		return nil, err
	}
	var thresholds []float64
	var now, was float64
	for _, c := range classes {
		thresholds = append(thresholds, c.Threshold)
		now += c.F1 / float64(len(classes))
		was += c.F1Default / float64(len(classes))
	}
	plain.Fprintf(cmd.OutOrStdout(), "thresholds of %d classes: mean F1 on validation %.1f %%, %.1f %% with one threshold\n", len(classes), 100*now, 100*was)
	return thresholds, nil
}
