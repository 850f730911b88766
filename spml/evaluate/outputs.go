package evaluate

import (
	"context"
	"fmt"
	"slices"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/network"
	"github.com/gospml/gospml/spml/progress"
	"github.com/gospml/gospml/spml/rundir"
)

// OutputsOptions say of what [Outputs] computes.
type OutputsOptions struct {
	// another data set than the run's, in any format of data.Open, with the run's classes; empty: the run's
	Data        string
	DataOptions config.DataOptions // choices of Data
	Parts       []data.Split       // nil: all rows
	// Device is where: auto (the default), cpu, cuda or cuda:N. Where the run was trained does not matter.
	Device string
	EXIF   string // apply or ignore; empty: as the run was trained
}

// Outputs applies the saved model of a run to rows of its own or of another data set. The caller closes the data
// set.
func Outputs(ctx context.Context, dir string, o OutputsOptions, ev progress.Events) (
	*data.Dataset, *network.Outputs, error) {
	c, err := settings(dir, Options{Data: o.Data, DataOptions: o.DataOptions, Device: o.Device, EXIF: o.EXIF})
	if err != nil {
		return nil, nil, err
	}
	var ds *data.Dataset
	var out *network.Outputs
	err = compute.Guard(func() error {
		var l scorer
		if ds, l, err = openSaved(ctx, dir, c, o.Data, ev); err != nil {
			return err
		}
		defer l.Close()
		l.Freeze()
		var rows []int
		for i, part := range ds.Split {
			if o.Parts == nil || slices.Contains(o.Parts, part) {
				rows = append(rows, i)
			}
		}
		if len(rows) == 0 {
			return fmt.Errorf("%w: %s has no rows in %v", fault.ErrData, ds.Name, o.Parts)
		}
		out, err = l.Outputs(ctx, rows)
		return err
	})
	if err != nil && ds != nil {
		ds.Close()
		ds = nil
	}
	return ds, out, err
}

// OpenData opens the data set of c for the saved model of a run: c is the run's configuration, perhaps with another
// data set, whose classes are then found by name. The caller closes it.
func OpenData(dir string, c config.Config) (*data.Dataset, error) {
	mc, err := model.ReadConfig(model.Dir(dir))
	if err != nil {
		return nil, err
	}
	of, err := rundir.Read(dir)
	if err != nil {
		return nil, err
	}
	from := c.Data.Path
	if c.Data.Path == of.Data.Path && c.Data.Options.String() == of.Data.Options.String() {
		from = ""
	}
	if c, err = c.Resolve(); err != nil {
		return nil, err
	}
	return openFor(&mc, c, from)
}
