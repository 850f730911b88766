package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Forms that Export writes.
const (
	ExportTimm        = "timm"        // a folder that timm.create_model("local-dir:FOLDER", pretrained=True) reads, and Load
	ExportSafetensors = "safetensors" // one file: the weights under the model's keys, config.json as metadata "config"
	// ExportTorchScript is one file for torch.jit.load and C++'s torch::jit::load, which takes normalised images [B, 3, H, W] and gives logits [B, C]; config.json
	// is an extra file in it.
	ExportTorchScript = "torchscript"
)

// ExportOptions are the choices of Export.
type ExportOptions struct {
	Form string // ExportTimm, ExportSafetensors or ExportTorchScript
	// Thresholds of each class, those of Calibrate for instance, are written beside the model; nil: the model's one threshold.
	Thresholds []float64
}

// Export writes the saved model of a run directory (or of a model folder) to a path that must not exist.
func Export(dir, to string, o ExportOptions) (err error) {
	defer caught.Recover(&err)
	if all := []string{ExportTimm, ExportSafetensors, ExportTorchScript}; !slices.Contains(all, o.Form) {
		return &ConfigError{fmt.Sprintf("no form is called %q; there are %s", o.Form, strings.Join(all, ", "))}
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fmt.Errorf("%w: %s; remove it, or name another", fs.ErrExist, to)
		}
		return err
	}
	if err := torch.Available(); err != nil {
		return err
	}
	from := modelDir(dir)
	mc, err := readModelConfig(from)
	if err != nil {
		return err
	}
	if o.Thresholds != nil {
		if len(o.Thresholds) != mc.NumClasses {
			return fmt.Errorf("%w: %d thresholds for the %d classes of %s", ErrData, len(o.Thresholds), mc.NumClasses, from)
		}
		mc.Thresholds = o.Thresholds
	}
	if o.Form == ExportTorchScript {
		return exportTorchScript(from, to, mc)
	}
	sd, _, err := nn.LoadSafetensors(filepath.Join(from, modelWeights))
	if err != nil {
		return err
	}
	defer sd.Free()
	if o.Form == ExportSafetensors {
		b, err := json.Marshal(mc)
		if err != nil {
			return err
		}
		return nn.SaveSafetensors(to, sd, map[string]string{"format": "pt", "config": string(b)})
	}
	ours := backbone.OfTimm(mc.Architecture)
	name, ok := backbone.TimmName(ours)
	switch {
	case mc.FeaturesOnly:
		return fmt.Errorf("%w: %s is a head on stored features without a backbone, which is no model of timm; --to %s writes its weights", ErrData, from, ExportSafetensors)
	case mc.Head != "" && mc.Head != HeadLinear:
		return fmt.Errorf("%w: %s has the head %s, which timm lacks; --to %s writes its weights", ErrData, from, mc.Head, ExportSafetensors)
	case !ok:
		return fmt.Errorf("%w: timm has no model with the layers of %s; --to %s writes its weights", ErrData, mc.Architecture, ExportSafetensors)
	}
	if mc.Architecture == ours { // else it came from Export, under timm's keys
		if sd, err = backbone.TimmState(ours, sd); err != nil {
			return err
		}
	}
	mc.Architecture, mc.PretrainedCfg.CropPct = name, 1
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := saveModel(to, mc, sd); err != nil {
		return err
	}
	card, err := modelCard(dir, &mc)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(to, "README.md"), 0o644, card)
}

// ClassThreshold is the threshold that Calibrate chose for a class.
type ClassThreshold struct {
	Class     string  `json:"class"`
	Threshold float64 `json:"threshold"`
	F1        float64 `json:"f1"`         // of the class on validation, 0…1
	F1Default float64 `json:"f1_default"` // with the model's one threshold
}

// Calibrate chooses for each class of a run the threshold with the highest F1 on the run's validation part, which must have full labels. A class without
// positives there keeps the model's threshold. Nothing is written; Export takes the result.
func Calibrate(ctx context.Context, dir string, ev Events) ([]ClassThreshold, error) {
	c, err := ReadRun(dir)
	if err != nil {
		return nil, err
	}
	c.Device = DeviceAuto
	if c, err = c.Resolve(); err != nil {
		return nil, err
	}
	if err := torch.Available(); err != nil {
		return nil, err
	}
	var out []ClassThreshold
	err = guard(func() error {
		mc, err := readModelConfig(modelDir(dir))
		if err != nil {
			return err
		}
		ds, sc, _, err := scoreSaved(ctx, dir, c, EvalOptions{Part: data.Val}, ev)
		if err != nil {
			return err
		}
		labels, k := ds.Gather(ds.Labels, sc.Rows), ds.C()
		thresholds, f1, err := metric.BestThresholds(sc.Values, labels, k, mc.Threshold)
		if err != nil {
			return err
		}
		for i, t := range thresholds {
			tp, wrong := 0, 0
			for r := range sc.Rows {
				switch present, positive := float64(sc.Values[r*k+i]) > mc.Threshold, labels[r*k+i] == 1; {
				case present && positive:
					tp++
				case present != positive:
					wrong++
				}
			}
			was := 0.0
			if tp > 0 {
				was = 2 * float64(tp) / float64(2*tp+wrong)
			}
			out = append(out, ClassThreshold{ds.Classes[i], t, f1[i], was})
		}
		return nil
	})
	return out, err
}
