package model

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Forms that Export writes.
const (
	ExportTimm        = "timm"        // a folder that timm.create_model("local-dir:FOLDER", pretrained=True) reads, and OpenTagger
	ExportSafetensors = "safetensors" // one file: the weights under the model's keys, config.json as metadata "config"
	// ExportTorchScript is one file for torch.jit.load and C++'s torch::jit::load, which takes normalised images [B, 3, H, W] and gives logits [B, C]; config.json
	// is an extra file in it.
	ExportTorchScript = "torchscript"
)

// ExportOptions are the choices of Export.
type ExportOptions struct {
	Form string // ExportTimm, ExportSafetensors or ExportTorchScript
	// Thresholds of each class, those of evaluate.Calibrate for instance, are written beside the model; nil: the
	// model's one threshold.
	Thresholds []float64
	// Card writes README.md of an ExportTimm folder; nil writes none.
	Card func(c *Config) ([]byte, error)
}

// Export writes the saved model of a run directory (or of a model folder) to a path that must not exist.
func Export(dir, to string, o ExportOptions) (err error) {
	defer caught.Recover(&err)
	if all := []string{ExportTimm, ExportSafetensors, ExportTorchScript}; !slices.Contains(all, o.Form) {
		return fault.Settingf("no form is called %q; there are %s", o.Form, strings.Join(all, ", "))
	}
	if err := Vacant(to); err != nil {
		return err
	}
	if err := torch.Available(); err != nil {
		return err
	}
	from := Dir(dir)
	mc, err := readConfig(from)
	if err != nil {
		return err
	}
	if err := mc.floats(from); err != nil {
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
	sd, _, err := nn.LoadSafetensors(filepath.Join(from, WeightsFile))
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
	if err := Save(to, mc, sd); err != nil {
		return err
	}
	if o.Card == nil {
		return nil
	}
	card, err := o.Card(&mc)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(to, "README.md"), 0o644, card)
}
