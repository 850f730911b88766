package train

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/spml/loss"
)

// allEpochs is why most runs end.
const allEpochs = "all epochs"

// lengthens says why a run with more epochs would not have begun as the run of these settings did, "" where it would.
func (c *Config) lengthens(epochs int) string {
	switch c.Schedule {
	case "cosine", "onecycle", "linear", "polynomial":
		return fmt.Sprintf("its learning rate follows --schedule %s over the whole run", c.Schedule)
	case "step":
		if third := max(c.Epochs/3, 1); c.StepEpochs == third && third != max(epochs/3, 1) {
			return "its learning rate falls at each third of the run"
		}
	}
	if c.Stages == 2 && c.Init == "" {
		return "its first stage is as long as the second"
	}
	e := c.method().Loss
	if e.Estimator == "apl" {
		return fmt.Sprintf("%s labels a share of the images after each epoch, by the number of epochs", e.ID)
	}
	for _, p := range e.Params {
		if _, set := c.Params[p.Name]; p.Name == "epochs" && !set && loss.Values(c.Params)["schedule"] != loss.PointsLearned {
			return fmt.Sprintf("%s moves its parameters over all epochs", e.ID)
		}
	}
	return ""
}

// canLengthen says in an error why the run of a directory cannot go on to more epochs.
func (c *Config) canLengthen(dir string, epochs int) error {
	refuse := func(why string) error {
		return &ConfigError{Msg: fmt.Sprintf("%s has %d epochs and cannot go on to %d: %s; start another run from its weights: --init %s", dir, c.Epochs, epochs, why, dir)}
	}
	if why := c.lengthens(epochs); why != "" {
		return refuse(why)
	}
	names, err := list(filepath.Join(dir, checkpoints))
	if err != nil {
		return err
	}
	if len(names) == 0 && exists(filepath.Join(dir, resultFile)) {
		return refuse("it kept no checkpoint of its end (save_every off)")
	}
	return nil
}

// lengthen lets a run that ended with all its epochs go on to those it has now. The result goes before the settings
// change: it is not that of the longer run.
func (t *trainer) lengthen() error {
	if t.p.Done == allEpochs && t.p.Epoch <= t.c.Epochs {
		t.p.Done = ""
	}
	if t.dir.path == "" || t.p.Done != "" {
		return nil
	}
	if err := os.Remove(filepath.Join(t.dir.path, resultFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old, err := ReadRun(t.dir.path)
	if err != nil || old.Epochs == t.c.Epochs {
		return err
	}
	old.Epochs = t.c.Epochs
	return t.dir.settings(old)
}
