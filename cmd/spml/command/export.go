package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/evaluate"
	"github.com/gospml/gospml/spml/onnx"
	"github.com/gospml/gospml/spml/train"
)

// exportONNX is the form of --to that package onnx writes.
const exportONNX = "onnx"

// exportForms are the forms of --to.
var exportForms = []string{train.ExportTimm, exportONNX, train.ExportTorchScript, train.ExportSafetensors}

func newExport() *cobra.Command {
	var o train.ExportOptions
	var input, progress string
	var tune, quantize bool
	var photos int
	cmd := &cobra.Command{
		Use:   "export RUN OUT --to timm|onnx|torchscript|safetensors",
		Short: "Write a run's model for other programs",
		Long: `Writes the saved model of a run directory to a path that must not exist.

  spml export runs/em em-timm --to timm                  a folder: timm.create_model("local-dir:em-timm", pretrained=True), or spml predict em-timm photo.jpg
  spml export runs/em em-timm --to timm --calibrate      with a threshold for each class: the best F1 on the run's validation part
  spml export runs/em em-int8 --quantize                 a folder that spml predict and the service read: int8,
                                                         calibrated on the run's photos, thresholds of its own
  spml export runs/em em.onnx --to onnx                  one file for ONNX Runtime, OpenVINO, …: [batch, 3, H, W] to
                                                         logits and probabilities; its metadata say the rest
  spml export runs/em em.onnx --to onnx --onnx-input bytes    with the normalisation inside: bytes 0 … 255
  spml export runs/em em.safetensors --to safetensors    one file; the metadata "config" holds classes, thresholds and preprocessing
  spml export runs/em em.pt --to torchscript             one file for torch.jit.load and C++: normalised images in, logits out; config.json is an extra file`,
		Args: exactly(2, "a run directory and a path to write"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case !slices.Contains(exportForms, o.Form):
				return usageError{fmt.Errorf("no form is called %q; there are %s", o.Form, strings.Join(exportForms, ", "))}
			case quantize && (cmd.Flags().Changed("to") || tune):
				return usageError{errors.New("--quantize writes a folder for spml and tunes its thresholds; leave --to and " +
					"--calibrate out")}
			case !quantize && cmd.Flags().Changed("photos"):
				return usageError{errors.New("--photos belongs to --quantize")}
			case photos < 1:
				return usageError{fmt.Errorf("--photos is %d, want at least 1", photos)}
			case o.Form != exportONNX && cmd.Flags().Changed("onnx-input"):
				return usageError{fmt.Errorf("--onnx-input belongs to --to %s", exportONNX)}
			}
			if quantize {
				return exportInt8(cmd, args[0], args[1], photos, progress)
			}
			if tune {
				var err error
				if o.Thresholds, err = calibrate(cmd, args[0], progress); err != nil {
					return err
				}
			}
			var err error
			if o.Form == exportONNX {
				err = onnx.Export(args[0], args[1], onnx.Options{Input: onnx.Input(input), Thresholds: o.Thresholds})
			} else {
				err = train.Export(args[0], args[1], o)
			}
			if err != nil {
				return err
			}
			plain.Fprintf(cmd.OutOrStdout(), "%s: written for %s\n", args[1], o.Form)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Form, "to", train.ExportTimm, "timm (a folder), onnx, torchscript or safetensors (a file)")
	f.StringVar(&input, "onnx-input", string(onnx.Normalized),
		"what an ONNX file takes: normalized; with the normalisation inside unit (0 … 1) or bytes (0 … 255)")
	f.BoolVar(&tune, "calibrate", false, "choose a threshold for each class on the run's validation part")
	f.BoolVar(&quantize, "quantize", false, "write a folder that predicts in int8 on CPUs with AVX512_VNNI")
	f.IntVar(&photos, "photos", 256, "training photos that --quantize chooses the integers' ranges by")
	f.StringVar(&progress, "progress", progressAuto, "auto, bar, plain, json or off")
	for name, values := range map[string][]string{
		"to": exportForms, "onnx-input": {string(onnx.Normalized), string(onnx.Unit), string(onnx.Bytes)},
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, fixed(values...)) // the flags are there
	}
	return cmd
}

// exportInt8 writes the int8 form of a run's model and says what it scores beside float32.
func exportInt8(cmd *cobra.Command, run, to string, photos int, progress string) error {
	r, err := newReporter(cmd.ErrOrStderr(), progress)
	if err != nil {
		return err
	}
	q, err := evaluate.Quantize(cmd.Context(), run, to, photos, r.events())
	r.clear()
	if err != nil {
		return err
	}
	plain.Fprintf(cmd.OutOrStdout(), "%s: int8, by %d photos; on %d of validation mAP %.2f %%, %.2f %% in float32; "+
		"thresholds of %d classes tuned again\n", to, q.Photos, q.ValidatedOn, q.MAP, q.MAPFloat32, len(q.Thresholds))
	return nil
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
