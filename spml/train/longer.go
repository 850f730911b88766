package train

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/rundir"
)

// allEpochs is why most runs end.
const allEpochs = "all epochs"

// canLengthen says in an error why the run of a directory cannot go on to more epochs.
func canLengthen(c config.Config, dir string, epochs int) error {
	refuse := func(why string) error {
		return &config.Error{
			Msg: fmt.Sprintf(
				"%s has %d epochs and cannot go on to %d: %s; start another run from its weights: --init %s",
				dir,
				c.Schedule.Epochs,
				epochs,
				why,
				dir,
			),
		}
	}
	if why := c.Lengthens(epochs); why != "" {
		return refuse(why)
	}
	names, err := list(filepath.Join(dir, checkpoints))
	if err != nil {
		return err
	}
	if len(names) == 0 && exists(filepath.Join(dir, rundir.ResultFile)) {
		return refuse("it kept no checkpoint of its end (save_every off)")
	}
	return nil
}

// lengthen lets a run that ended with all its epochs go on to those it has now. The result goes before the settings
// change: it is not that of the longer run.
func (t *trainer) lengthen() error {
	if t.p.Done == allEpochs && t.p.Epoch <= t.c.Schedule.Epochs {
		t.p.Done = ""
	}
	if t.dir.Path() == "" || t.p.Done != "" {
		return nil
	}
	if err := os.Remove(filepath.Join(t.dir.Path(), rundir.ResultFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old, err := rundir.Read(t.dir.Path())
	if err != nil || old.Schedule.Epochs == t.c.Schedule.Epochs {
		return err
	}
	old.Schedule.Epochs = t.c.Schedule.Epochs
	return t.dir.Settings(old)
}
