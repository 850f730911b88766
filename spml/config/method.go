package config

import (
	"maps"
	"path/filepath"
	"strings"

	"github.com/gospml/gospml/data/augment"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
)

// Method is what is trained: a method, its parameters, and whose description of it.
type Method struct {
	ID     string             `yaml:"method"`
	Params map[string]float64 `yaml:"params,omitempty"`
	// DataSet is the data set whose published parameters the loss takes, where Params do not set them.
	DataSet string `yaml:"data_set"`
	// Form is the loss as printed or as released, where they differ from the default.
	Form   string  `yaml:"form,omitempty"`
	LogEps float64 `yaml:"log_eps" range:"0 1"`
	// Expected says where the mean number of positives of an image comes from, for the methods that count on it (epr,
	// role, gpr) and unless Params give it: published, the papers' number for DataSet, or validation, the mean of the
	// validation rows' full labels.
	Expected  string `yaml:"expected_positives,omitempty"`
	LatentDim int    `yaml:"latent_dim,omitempty" range:"0 4096"`
	QueueSize int    `yaml:"queue_size,omitempty" range:"-1 1048576"`
	// GroupWeight is α of the groups' term of the L48 benchmark, beside the method's own loss; 0 = none. GroupRate is η,
	// the share of a step's scores in those of a group.
	GroupWeight float64 `yaml:"group_weight,omitempty" range:"0 1e30"`
	GroupRate   float64 `yaml:"group_rate,omitempty" range:"0 1"`
	// StrongView is how methods that compare two views change the second one while fine-tuning; one of StrongViews.
	StrongView string `yaml:"strong_view,omitempty"`
}

// Stages are the two stages that some methods have: a first method, whose best weights the second starts from.
type Stages struct {
	Count int     `yaml:"stages,omitempty" range:"0 2"`
	First string  `yaml:"stage_one,omitempty"`
	Delta float64 `yaml:"stage_one_delta,omitempty" range:"0 1"`
	LR    float64 `yaml:"stage_one_lr,omitempty" range:"0 1e30"`
}

// Lookup finds the method.
func (m Method) Lookup() (*method.Method, error) { return method.Lookup(m.ID) }

// of is the method of resolved settings.
func (m Method) of() *method.Method {
	if found, err := m.Lookup(); err == nil {
		return found
	}
	return &method.Method{ID: m.ID, Loss: &loss.Entry{}} // an unknown name, which Resolve refuses
}

// takeFromMethod fills in what a method brings with it: its loss's parameters and form, its head.
func (c *Config) takeFromMethod() {
	m := c.Method.of()
	if m.Params != nil {
		params := maps.Clone(map[string]float64(m.Params))
		maps.Copy(params, c.Method.Params)
		c.Method.Params = params
	}
	def(&c.Method.Form, m.Form)
	if m.Head != "" {
		c.Model.Head = m.Head
	}
}

// resolve finds the method and checks that its parameters and the way of training fit it.
func (m *Method) resolve(c *Config) (*method.Method, error) {
	names := strings.Join(method.Trainable(), ", ")
	if m.ID == "" {
		return nil, wrong("no method; give --method, one of %s", names)
	}
	found, err := m.Lookup()
	if err != nil {
		return nil, wrong("%v", strings.TrimPrefix(err.Error(), "loss: "))
	}
	e, frozen := found.Loss, c.Model.Mode == Frozen
	m.ID = found.ID
	if lacks := found.Lacks(); lacks != "" {
		return nil, wrong("%s needs %s, which the trainer does not provide; it trains %s", m.ID, lacks, names)
	}
	if found.Needs(loss.StrongView) && len(c.Model.StrongFeatures) == 0 && frozen {
		return nil, wrong(
			"%s compares two views of an image; with --frozen give --strong-features FILE.npy, the features of strongly "+
				"augmented images",
			m.ID,
		)
	}
	if found.FeaturesOnly != "" && !frozen {
		return nil, wrong("%s %s; add --frozen", m.ID, found.FeaturesOnly)
	}
	if _, err := e.Resolve(m.DataSet, m.Params); err != nil {
		return nil, wrong("%v", strings.TrimPrefix(err.Error(), "loss: "))
	}
	if m.LogEps < 0 || m.LogEps >= 1 {
		return nil, wrong("log_eps is %v, want 0 (exact) or a small positive number", m.LogEps)
	}
	if err := oneOf("form", m.Form, "", "paper", "code"); err != nil {
		return nil, err
	}
	if err := oneOf("expected_positives", m.Expected, "", "published", "validation"); err != nil {
		return nil, err
	}
	if found.Needs(loss.Latents) {
		def(&m.LatentDim, 256)
	}
	switch {
	case m.GroupWeight == 0 && m.GroupRate != 0:
		return nil, wrong("group_rate is the rate of the groups' scores; give group_weight too")
	case m.GroupWeight != 0 && found.Needs(loss.GroupScores):
		return nil, wrong("%s has parameters for groups: --param group_weight=%v", m.ID, m.GroupWeight)
	case m.GroupWeight != 0:
		def(&m.GroupRate, 0.001)
	}
	return found, nil
}

// LossValues are all parameters of the loss as a run of resolved settings has them.
func (c Config) LossValues() (loss.Values, error) {
	m, err := c.Method.Lookup()
	if err != nil {
		return nil, err
	}
	return m.Loss.ResolveForm(c.Method.DataSet, c.Parameters(m.Loss), c.Method.Form)
}

// Parameters are the loss's parameters that a run sets: a schedule is as long as the run, and as late as the backbone
// is
// frozen, unless Params say otherwise.
func (c Config) Parameters(e *loss.Entry) loss.Values {
	v := loss.Values{}
	for name, x := range c.Method.Params {
		v[name] = x
	}
	for _, p := range e.Params {
		if _, set := v[p.Name]; set {
			continue
		}
		switch p.Name {
		case "epochs":
			v[p.Name] = float64(c.Schedule.Epochs)
		case "frozen":
			v[p.Name] = float64(c.Schedule.FreezeEpochs)
		}
	}
	return v
}

// Strong views by name. What repaints pictures (Cutout's rectangle of one colour, jitter, inversion) takes labels away
// that name colours; a crop keeps them.
var strongViews = map[string]func(side int) augment.Pipeline{
	"lac":       augment.LACStrong,
	"lac-paper": augment.LACPaper,
	"ignore":    augment.Ignore,
	"crop": func(n int) augment.Pipeline {
		return augment.Pipeline{
			augment.RandomFlip(),
			augment.RandomResizedCrop{W: n, H: n, Scale: [2]float64{0.5, 1}, Filter: pixel.Bilinear},
		}
	},
}

// StrongViews are the names of the strong views of methods that compare two, the default first, then the default of the
// paper's form: lac is that of LAC's released code (flip, Cutout, RandAugment, colour jitter, grey), lac-paper has no
// jitter and no grey, crop is a flip and a crop of half the area or more, ignore IGNORE's flip and three operations of
// torchvision's RandAugment.
func StrongViews() []string { return []string{"lac", "lac-paper", "crop", "ignore"} }

// Strong is what makes the strong view of pictures with a side of so many pixels.
func (m Method) Strong(side int) augment.Pipeline { return strongViews[m.StrongView](side) }

// stageOneDir holds the run of the first stage, inside the run directory.
const stageOneDir = "stage1"

// FirstStage is the run of the first of two stages: pseudo-labelling consistency, whose best weights the second starts
// from. Its δ is its own, its learning rate where it is given, everything else the run's. c must be resolved and have
// two stages.
//
// Source: Xie et al. 2022 (LAC), section 4.1; the released code.
func (c Config) FirstStage() (Config, error) {
	second, err := c.Method.Lookup()
	if err != nil {
		return c, err
	}
	first, err := method.Lookup(second.First)
	if err != nil {
		return c, err
	}
	switch s := c.Stages; {
	case s.First != "":
		c.Run.Dir = s.First
	case c.Run.Dir != "":
		c.Run.Dir = filepath.Join(c.Run.Dir, stageOneDir)
	}
	stages := c.Stages
	if stages.LR > 0 {
		if c.Optim.HeadLR == c.Optim.LR { // by default it is
			c.Optim.HeadLR = stages.LR
		}
		c.Optim.LR = stages.LR
	}
	c.Stages = Stages{}
	c.Method.ID, c.Method.QueueSize = first.ID, 0
	params := map[string]float64{}
	for _, p := range first.Loss.Params {
		if v, set := c.Method.Params[p.Name]; set && p.Name != "delta" {
			params[p.Name] = v
		}
	}
	if stages.Delta > 0 {
		params["delta"] = stages.Delta
	}
	c.Method.Params = params
	return c.Resolve()
}

// AsGiven takes back what a second stage has in its settings beside those that were given: the first one's run to start
// from.
func (c Config) AsGiven() Config {
	if c.Stages.Count == 2 && c.Model.Init != "" {
		given := c
		given.Model.Init = ""
		if first, err := given.FirstStage(); err == nil && first.Run.Dir == c.Model.Init {
			return given
		}
	}
	return c
}
