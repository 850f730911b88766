package network

import (
	"context"
	"errors"
	"fmt"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Stored are features of a data set's images that do not change, and a linear head on them.
type Stored struct {
	Features     *torch.Tensor // [n, D] on the device, a row for each image in At
	At           []int         // row of the data set -> row of Features; -1: a broken image, or one without features
	Weight, Bias *torch.Tensor // [C, D], [C] on the device; the caller sets them
	Net          *Network      // that the features are of; nil where only they were given

	o      Options
	broken []data.Broken
}

// Store reads the features that the configuration names (a data set's own, or files), or computes them by its network.
func Store(ctx context.Context, o Options) (s *Stored, err error) {
	s = &Stored{o: o}
	if o.Config.Model.Weights != "" {
		if s.Net, err = New(o); err != nil {
			return nil, err
		}
	}
	switch paths := o.Config.Model.Features; {
	case paths.Own():
		err = s.own()
	case len(paths) > 0:
		err = s.read()
	default:
		err = s.compute(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.Features = compute.To(s.Features, o.Device)
	return s, nil
}

// fits compares the features' width with the network's, where there is one.
func (s *Stored) fits(dim int, source any, per string) error {
	if s.Net == nil || s.Net.Model.FeatureDim() == dim {
		return nil
	}
	return fmt.Errorf("%w: %v has %d features per %s, %s gives %d", fault.ErrData, source, dim, per,
		s.o.Config.Model.Backbone, s.Net.Model.FeatureDim())
}

func (s *Stored) own() error {
	ds := s.o.Data
	if ds.Features == nil {
		return fmt.Errorf("%w: %s holds no features; give --features FILE.npy or --weights FILE", fault.ErrData, ds.Name)
	}
	dim := ds.Features.Dim
	if err := s.fits(dim, ds.Name, "row"); err != nil {
		return err
	}
	s.Features, s.At = torch.FromSlice(ds.Features.Values, ds.N(), dim), all(ds.N())
	return nil
}

func (s *Stored) read() error {
	paths, ds := s.o.Config.Model.Features, s.o.Data
	x, at, err := ReadFeatures(paths, ds)
	if err != nil {
		return err
	}
	if err := s.fits(x.Size(1), paths, "image"); err != nil {
		return err
	}
	missing := 0
	for _, r := range at {
		if r < 0 {
			missing++
		}
	}
	s.Features, s.At = x, at
	s.o.Events.Say(fmt.Sprintf("features [%d, %d] from %s", x.Size(0), x.Size(1), paths))
	if missing > 0 {
		s.o.Events.Say(fmt.Sprintf("%d of %d images have no features and are left out", missing, ds.N()))
	}
	return nil
}

func (s *Stored) compute(ctx context.Context) error {
	n := s.o.Data.N()
	values, got, err := s.Net.Features(ctx, all(n))
	if err != nil {
		return err
	}
	s.At = make([]int, n)
	for i := range s.At {
		s.At[i] = -1
	}
	for i, r := range got {
		s.At[r] = i
	}
	s.Features = torch.FromSlice(values, len(got), s.Net.Model.FeatureDim())
	s.broken = s.Net.Broken()
	return nil
}

func all(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return rows
}

// Places are the rows that have features, and where these lie.
func (s *Stored) Places(rows []int) (with []int, at []int64) {
	for _, r := range rows {
		if s.At[r] >= 0 {
			with, at = append(with, r), append(at, int64(s.At[r]))
		}
	}
	return with, at
}

// Scores predicts rows by the head.
func (s *Stored) Scores(_ context.Context, _ string, _ int, rows []int) (*rundir.Scores, error) {
	with, at := s.Places(rows)
	out := &rundir.Scores{Rows: with}
	if len(at) == 0 {
		return out, nil
	}
	torch.Scope(func(*torch.Arena) {
		torch.NoGrad(func() {
			x := s.Features.IndexSelect(0, compute.Upload(s.o.Device, at))
			out.Values = torch.ToSlice[float32](compute.Sigmoids(torch.Linear(x, s.Weight, s.Bias)))
		})
	})
	return out, nil
}

// Outputs gives scores and features of rows.
func (s *Stored) Outputs(ctx context.Context, rows []int) (*Outputs, error) {
	scores, err := s.Scores(ctx, "", 0, rows)
	if err != nil {
		return nil, err
	}
	_, at := s.Places(rows)
	x := s.Features.IndexSelect(0, compute.Upload(s.o.Device, at))
	return &Outputs{Scores: *scores, Dim: s.Features.Size(1), Features: torch.ToSlice[float32](x), Broken: s.broken}, nil
}

// Freeze does nothing: a head on features has no other form.
func (s *Stored) Freeze() {}

// Broken are the images whose features could not be computed.
func (s *Stored) Broken() []data.Broken { return s.broken }

// Save writes the head, in its network where there is one.
func (s *Stored) Save(dir string) error {
	if s.Net != nil {
		s.Net.SetHead(s.Weight, s.Bias)
		return s.Net.Save(dir)
	}
	mc := s.o.saved(s.Weight.Size(1))
	mc.FeaturesOnly = true
	return model.Save(dir, mc, nn.StateDict{"weight": s.Weight, "bias": s.Bias})
}

// Close closes the network.
func (s *Stored) Close() error {
	if s.Net == nil {
		return nil
	}
	return s.Net.Close()
}
