package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/spml/dualcoop"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/torch/nn"
)

// Names inside a model folder.
const (
	ConfigFile  = "config.json"
	WeightsFile = "model.safetensors"
)

// ErrData is wrapped by errors that a folder's contents cause.
var ErrData = fault.ErrData

// FolderFormat is the format of model folders that Save writes. This program reads it and all before; a folder of a
// later one is refused. Folders without a format are of before 0.1.0.
const FolderFormat = 2

// Config is config.json of a saved model. Names follow timm's.
type Config struct {
	// Format is what Save sets: FolderFormat with Quantized, else 1.
	Format       int      `json:"format,omitempty"`
	Architecture string   `json:"architecture"`
	NumClasses   int      `json:"num_classes"`
	NumFeatures  int      `json:"num_features"`
	LabelNames   []string `json:"label_names"`
	Threshold    float64  `json:"threshold"` // above it a label counts as present
	// Thresholds of each class, which stand before Threshold where Calibrate has chosen them on validation.
	Thresholds   []float64 `json:"thresholds,omitempty"`
	Method       string    `json:"method"`
	FeaturesOnly bool      `json:"features_only,omitempty"` // a head without backbone
	HeadSpec
	dualcoop.Spec
	PretrainedCfg Input      `json:"pretrained_cfg"`
	Quantized     *Quantized `json:"quantized,omitempty"` // of a folder that ExportInt8 wrote
}

// Input says how photos become the input of the network.
type Input struct {
	InputSize     [3]int     `json:"input_size"`
	Interpolation string     `json:"interpolation"`
	CropMode      string     `json:"crop_mode"` // squash: the aspect ratio is not kept
	CropPct       float64    `json:"crop_pct"`  // 1: all of the picture
	Mean          [3]float32 `json:"mean"`
	Std           [3]float32 `json:"std"`
	EXIF          string     `json:"exif,omitempty"` // apply or ignore: what training did with the orientation of photos; "" is ignore
}

// ThresholdOf is above what class c counts as present.
func (mc *Config) ThresholdOf(c int) float64 {
	if mc.Thresholds != nil {
		return mc.Thresholds[c]
	}
	return mc.Threshold
}

// Save writes a model folder: the configuration and the tensors. Each file is written beside and renamed.
func Save(dir string, mc Config, sd nn.StateDict) error {
	if err := nn.SaveSafetensors(filepath.Join(dir, WeightsFile), sd, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	mc.Format = 1
	if mc.Quantized != nil { // which programs of format 1 would open as floats
		mc.Format = FolderFormat
	}
	b, err := json.MarshalIndent(mc, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, ConfigFile), 0o644, append(b, '\n'))
}

// readConfig reads config.json of a model folder.
func readConfig(dir string) (Config, error) {
	var mc Config
	path := filepath.Join(dir, ConfigFile)
	b, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return mc, fmt.Errorf("%s is no saved model (no %s); the run may have ended before its first epoch: %w", dir, ConfigFile, err)
		}
		return mc, err
	}
	err = json.Unmarshal(b, &mc)
	if mc.Format > FolderFormat { // what else does not fit is not the file's fault
		return mc, fmt.Errorf("%w: %s has format %d of a later gospml; this program reads formats up to %d: use that version",
			ErrData, path, mc.Format, FolderFormat)
	}
	if err != nil {
		return mc, fmt.Errorf("%w: %s: %v", ErrData, path, err)
	}
	if mc.NumClasses < 1 || len(mc.LabelNames) != mc.NumClasses || mc.PretrainedCfg.InputSize[1] < 1 || mc.Thresholds != nil && len(mc.Thresholds) != mc.NumClasses {
		return mc, fmt.Errorf("%w: %s: classes, label names, thresholds or input size do not fit", ErrData, path)
	}
	return mc, nil
}

// ReadConfig reads config.json of a run directory's model, or of a model folder.
func ReadConfig(dir string) (Config, error) { return readConfig(Dir(dir)) }

// Dir is the model folder of a run directory, or the folder itself.
func Dir(dir string) string {
	if exists(filepath.Join(dir, "run.yaml")) || exists(filepath.Join(dir, "model")) {
		return filepath.Join(dir, "model")
	}
	return dir
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
