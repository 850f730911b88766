package config

import (
	"fmt"
	"path/filepath"

	"github.com/gospml/gospml/spml/internal/fault"
)

// Config are the settings of a run. The zero value of a field means its default, which Resolve fills in.
type Config struct {
	Data     Data     `yaml:",inline"`
	Method   Method   `yaml:",inline"`
	Stages   Stages   `yaml:",inline"`
	Pseudo   Pseudo   `yaml:",inline"`
	Model    Model    `yaml:",inline"`
	Schedule Schedule `yaml:",inline"`
	Optim    Optim    `yaml:",inline"`
	Run      Run      `yaml:",inline"`
}

// Error says which setting is wrong.
type Error = fault.Setting

func wrong(format string, a ...any) error { return &Error{Msg: fmt.Sprintf(format, a...)} }

// Resolve returns the settings with every default filled in, or says which one is wrong.
func (c Config) Resolve() (Config, error) {
	if err := c.resolve(); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (c *Config) resolve() error {
	if err := c.checkBounds(); err != nil {
		return err
	}
	if err := c.Data.check(); err != nil {
		return err
	}
	c.takeFromMethod()
	if err := c.resolveClip(); err != nil {
		return err
	}
	m, err := c.Method.resolve(c)
	if err != nil {
		return err
	}
	if err := c.Data.resolveEXIF(c.Method.DataSet != ""); err != nil {
		return err
	}
	def(&c.Method.DataSet, "voc")
	if err := c.Model.resolve(c); err != nil {
		return err
	}
	c.sizes()
	if err := c.Data.resolve(c); err != nil {
		return err
	}
	if err := c.checkSizes(); err != nil {
		return err
	}
	if err := c.Pseudo.resolve(c, m); err != nil {
		return err
	}
	if err := c.resolveHead(m); err != nil {
		return err
	}
	if err := c.Run.resolve(c); err != nil {
		return err
	}
	if err := c.Optim.resolve(c); err != nil {
		return err
	}
	if err := c.Schedule.resolve(c, m); err != nil {
		return err
	}
	return c.Data.Cache.check()
}

// sizes fills in what depends on the way of training: the sizes of picture, run and batch, and the learning rates.
func (c *Config) sizes() {
	size, epochs, batch, lr := 224, 30, 32, 1e-3
	switch {
	case c.Data.Path == Shapes && c.Model.Backbone == "small_cnn":
		size, epochs, batch, lr = 64, 10, 64, 3e-3
	case c.Model.Mode == Frozen:
		epochs, batch = 25, 16
	case c.Model.Weights != "":
		epochs, lr = 4, 1e-4
		def(&c.Optim.LR, lr)
		def(&c.Optim.HeadLR, 10*c.Optim.LR)
	}
	def(&c.Data.ImageSize, size)
	def(&c.Schedule.Epochs, epochs)
	def(&c.Optim.BatchSize, batch)
	def(&c.Optim.LR, lr)
	def(&c.Optim.HeadLR, c.Optim.LR)
}

// mostPixels bounds a batch: its pictures as bytes take 3 GB.
const mostPixels = 1 << 30

// checkSizes refuses sizes that are no sizes, and a batch of pictures that no memory holds.
func (c *Config) checkSizes() error {
	for _, n := range []struct {
		name string
		v    float64
	}{
		{"epochs", float64(c.Schedule.Epochs)}, {"batch_size", float64(c.Optim.BatchSize)},
		{"image_size", float64(c.Data.ImageSize)}, {"lr", c.Optim.LR}, {"head_lr", c.Optim.HeadLR},
	} {
		if !(n.v > 0) {
			return wrong("%s is %v, want more than 0", n.name, n.v)
		}
	}
	if side := c.Data.ImageSize; c.Model.Mode == FineTune && c.Optim.BatchSize > mostPixels/(side*side) {
		return wrong(
			"batch_size %d of image_size %d is more than %d pixels; make one of them smaller",
			c.Optim.BatchSize,
			side,
			mostPixels,
		)
	}
	return nil
}

// Ready resolves settings and makes their paths absolute.
func (c Config) Ready() (Config, error) {
	c, err := c.Resolve()
	if err == nil {
		c, err = c.Absolute()
	}
	return c, err
}

// Absolute makes the paths independent of the working folder, for run.yaml.
func (c Config) Absolute() (Config, error) {
	paths := []*string{
		&c.Data.Path, &c.Model.Weights, &c.Pseudo.File, &c.Pseudo.Clip,
		&c.Pseudo.TextFeatures, &c.Pseudo.ClassNames, &c.Model.Init, &c.Stages.First,
		&c.Run.Dir, &c.Data.Cache.Dir, &c.Data.Options.Images, &c.Data.Options.ClassesFile, &c.Data.Options.Groups,
	}
	for _, list := range []*Paths{&c.Model.Features, &c.Model.StrongFeatures} {
		*list = append(Paths(nil), *list...)
		if list.Own() {
			continue
		}
		for i := range *list {
			paths = append(paths, &(*list)[i])
		}
	}
	var err error
	absolute := func(path string) string {
		a, e := filepath.Abs(path)
		if e != nil && err == nil {
			err = e
		}
		return a
	}
	for _, p := range paths {
		named := (p == &c.Pseudo.Clip || p == &c.Model.Weights) && *p == BuiltinClip || p == &c.Data.Path && *p == Shapes ||
			p == &c.Pseudo.ClassNames && *p == CUBNames
		if *p != "" && !named {
			*p = absolute(*p)
		}
	}
	options := Options{}
	for name, value := range c.Pseudo.Options {
		if (name == "text_features" || name == "relation") && value != "" {
			value = absolute(value)
		}
		options[name] = value
	}
	if c.Pseudo.Options != nil {
		c.Pseudo.Options = options
	}
	return c, err
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}
