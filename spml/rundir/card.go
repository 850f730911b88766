package rundir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gospml/gospml/spml/model"
)

// Card is README.md of an exported model, in the form of Hugging Face's hub: a YAML head, then data, method,
// numbers and limits from the run's record. A model folder without a run gives what the model itself says.
func Card(dir string, mc *model.Config) ([]byte, error) {
	rec, err := ReadRecord(dir)
	if errors.Is(err, fs.ErrNotExist) {
		rec, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	head := map[string]any{
		"library_name": "timm",
		"pipeline_tag": "image-classification",
		"tags":         []string{"multi-label", "single-positive-multi-label", mc.Method},
	}
	if rec != nil && rec.Result != nil && !rec.Result.Best.NoTest {
		b := rec.Result.Best
		head["model-index"] = []any{
			map[string]any{"name": mc.Architecture + "-" + mc.Method, "results": []any{map[string]any{
				"task": map[string]string{
					"type": "image-classification",
				}, "dataset": map[string]string{"name": rec.Environment.Data, "type": "image"},
				"metrics": []any{
					map[string]any{
						"type":  "mAP",
						"value": b.TestMAP,
						"name":  "test mAP (%) of the epoch that validation chose",
					},
				},
			}}},
		}
	}
	y, err := yaml.Marshal(head)
	if err != nil {
		return nil, err
	}
	var o bytes.Buffer
	fmt.Fprintf(
		&o,
		"---\n%s---\n\n# %s, %d labels\n\nTags photos with any number of the labels %s.\n\n",
		y,
		mc.Architecture,
		mc.NumClasses,
		strings.Join(mc.LabelNames, ", "),
	)
	fmt.Fprintf(
		&o,
		"Input: RGB, squashed to %d × %d (%s, the aspect ratio is not kept), mean %v, deviation %v. ",
		mc.PretrainedCfg.InputSize[2],
		mc.PretrainedCfg.InputSize[1],
		mc.PretrainedCfg.Interpolation,
		mc.PretrainedCfg.Mean,
		mc.PretrainedCfg.Std,
	)
	if mc.Thresholds != nil {
		o.WriteString("A label counts as present above its own threshold in `config.json`, chosen on validation by F1.\n")
	} else {
		fmt.Fprintf(&o, "A label counts as present above %g.\n", mc.Threshold)
	}
	if rec == nil {
		return o.Bytes(), nil
	}
	c := rec.Config
	fmt.Fprintf(&o, "\n## Training\n\n| | |\n|---|---|\n| method | %s |\n", c.Method.ID)
	if r := rec.Result; r != nil {
		fmt.Fprintf(
			&o,
			"| data | %s |\n| best epoch | %d |\n| validation mAP (%%) | %s |\n| test mAP (%%) | %s |\n",
			rec.Environment.Data,
			r.Best.Epoch,
			r.Best.Val(),
			r.Best.Test(),
		)
	}
	fmt.Fprintf(
		&o,
		"| seed | %d |\n| made with | gospml %s, libtorch %s |\n",
		c.Run.Seed,
		rec.Environment.Module,
		rec.Environment.Libtorch,
	)
	keys := c.AsSettings()
	var names []string
	for k, v := range keys {
		switch k {
		case "data",
			"weights",
			"features",
			"run",
			"clip",
			"pseudo_labels",
			"strong_features",
			"init",
			"cache_dir": // places of a machine
			continue
		}
		if v != nil && fmt.Sprint(v) != "" && fmt.Sprint(v) != "map[]" {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	o.WriteString("\nSettings:\n\n```yaml\n")
	for _, k := range names {
		fmt.Fprintf(&o, "%s: %v\n", k, keys[k])
	}
	o.WriteString("```\n\n## Limits\n\n")
	fmt.Fprintf(
		&o,
		"Trained on one known positive label a photo (or as the settings above say), so unknown labels were estimated by "+
			"the method %s. The probabilities are not calibrated",
		c.Method.ID,
	)
	if mc.Thresholds == nil {
		o.WriteString(", nor are the thresholds chosen for your photos: `spml export --calibrate` does that on validation")
	}
	o.WriteString(
		". Numbers hold for photos like those of the data set. The licence of the weights that training began from " +
			"applies.\n",
	)
	return o.Bytes(), nil
}
