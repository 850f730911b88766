package train

import (
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/rundir"
)

// Names that programs used before packages config and model had them.
type (
	// Deprecated: use config.Config.
	Config = config.Config
	// Deprecated: use config.Error.
	ConfigError = config.Error
	// Deprecated: use model.Config.
	ModelConfig = model.Config
	// Deprecated: use model.Tagger.
	Tagger = model.Tagger
	// Deprecated: use model.TaggerOptions.
	TaggerOptions = model.TaggerOptions
	// Deprecated: use model.Label.
	Label = model.Label
	// Deprecated: use model.Explanation.
	Explanation = model.Explanation
	// ExportOptions are the choices of Export.
	ExportOptions = model.ExportOptions
)

// Forms that Export writes.
const (
	ExportTimm        = model.ExportTimm
	ExportSafetensors = model.ExportSafetensors
	ExportTorchScript = model.ExportTorchScript
)

// Load reads the model of a run directory (or a model folder itself).
//
// Deprecated: use model.OpenTagger.
func Load(dir string, opt TaggerOptions) (*Tagger, error) { return model.OpenTagger(dir, opt) }

// ReadModelConfig reads config.json of a run's saved model (or of a model folder).
//
// Deprecated: use model.ReadConfig.
func ReadModelConfig(dir string) (ModelConfig, error) { return model.ReadConfig(dir) }

// ClassNames are the classes of a run's saved model (or of a model folder), in the order of its outputs.
func ClassNames(dir string) ([]string, error) {
	c, err := model.ReadConfig(dir)
	return c.LabelNames, err
}

// Export is model.Export with a model card that says what the run directory knows: data, settings, scores.
func Export(dir, to string, o ExportOptions) error {
	o.Card = func(c *model.Config) ([]byte, error) { return rundir.Card(dir, c) }
	return model.Export(dir, to, o)
}
