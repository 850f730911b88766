package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/torch"
)

// Outputs are what a saved model computes for rows of a data set, which need no labels for that.
type Outputs struct {
	Scores
	Dim      int           // of the features; 0: the model has none apart from its scores
	Features []float32     // pooled features [len(Rows), Dim], before the head
	Broken   []data.Broken // photos that could not be read: their rows are missing
}

// OutputsOptions say of what [ComputeOutputs] computes.
type OutputsOptions struct {
	// another data set than the run's, in any format of data.Open, with the run's classes; empty: the run's
	Data        string
	DataOptions config.DataOptions // choices of Data
	Parts       []data.Split       // nil: all rows
	// Device is where: auto (the default), cpu, cuda or cuda:N. Where the run was trained does not matter.
	Device string
	EXIF   string // apply or ignore; empty: as the run was trained
}

// ComputeOutputs applies the saved model of a run to rows of its own or of another data set. The caller closes the data
// set.
func ComputeOutputs(ctx context.Context, dir string, o OutputsOptions, ev Events) (*data.Dataset, *Outputs, error) {
	c, err := rundir.Read(dir)
	if err != nil {
		return nil, nil, err
	}
	if o.Data != "" {
		c.Data.Path, c.Data.Options = o.Data, o.DataOptions
	}
	c.Run.Device = o.Device
	if o.EXIF != "" {
		c.Data.EXIF = o.EXIF
	}
	if c, err = c.Resolve(); err != nil {
		return nil, nil, err
	}
	if err := torch.Available(); err != nil {
		return nil, nil, err
	}
	var ds *data.Dataset
	var out *Outputs
	err = compute.Guard(func() error {
		var l learner
		if ds, l, err = openSaved(ctx, dir, c, o.Data, ev); err != nil {
			return err
		}
		defer l.close()
		if f, ok := l.(*fineTune); ok {
			f.freeze()
		}
		var rows []int
		for i, part := range ds.Split {
			if o.Parts == nil || slices.Contains(o.Parts, part) {
				rows = append(rows, i)
			}
		}
		if len(rows) == 0 {
			return fmt.Errorf("%w: %s has no rows in %v", ErrData, ds.Name, o.Parts)
		}
		out, err = l.outputs(ctx, rows)
		return err
	})
	if err != nil && ds != nil {
		ds.Close()
		ds = nil
	}
	return ds, out, err
}

func (f *frozen) outputs(ctx context.Context, rows []int) (*Outputs, error) {
	s, err := f.scores(ctx, "", 0, rows)
	if err != nil {
		return nil, err
	}
	idx := make([]int64, len(s.Rows))
	for i, r := range s.Rows {
		idx[i] = int64(f.at[r])
	}
	return &Outputs{
		Scores: *s, Dim: f.features.Size(1), Features: torch.ToSlice[float32](f.features.IndexSelect(0, compute.Upload(f.device, idx))), Broken: f.broken(),
	}, nil
}

// freeze takes the network's frozen form, which nothing is recorded of, where it has one in this precision.
func (n *network) freeze() {
	if _, narrow := computeTypes[n.c.Run.Precision]; narrow {
		return
	}
	m, err := model.FreezeOnly(n.model, torch.Float32)
	if n.model = m; err != nil && !errors.Is(err, backbone.ErrForm) {
		n.ev.note(fmt.Sprintf("the frozen form of the model is not available, the slower plain form is used: %v", err))
	}
}

func (f *fineTune) outputs(ctx context.Context, rows []int) (*Outputs, error) {
	o := &Outputs{}
	head := f.model.Head() // nil: the scores take more than the pooled features
	var features, scores compute.Collected
	got, err := f.forEach(ctx, "outputs", 0, rows, func(a *torch.Arena, x *torch.Tensor) {
		p := f.model.Features(x)
		var z *torch.Tensor
		if head == nil {
			z = f.model.Forward(x)
		} else {
			z = head.Forward(p)
		}
		o.Dim = p.Size(1)
		features.Add(a, p.ToDType(torch.Float32).Contiguous())
		scores.Add(a, compute.Sigmoids(z))
	})
	if err != nil {
		return nil, err
	}
	o.Rows, o.Features, o.Values, o.Broken = got, features.Flush(), scores.Flush(), f.broken()
	return o, nil
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
