package train

import (
	"context"
	"time"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// fineTune trains backbone and head.
type fineTune struct {
	*network
	opt    *optim.Adam
	labels labelTensors // of the training rows
	place  map[int]int  // row -> place among the training rows
}

func newFineTune(s *session) (*fineTune, error) {
	n, err := newNetwork(s)
	if err != nil {
		return nil, err
	}
	f := &fineTune{network: n, place: map[int]int{}}
	n.setHead(drawHead(s.random, s.ds.C(), n.model.FeatureDim()))
	for i, r := range s.train {
		f.place[r] = i
	}
	f.labels = gatherLabels(s.ds, s.train)
	nn.SetDropout(n.model, 0) // the papers' classifier is a linear layer on the pooled features
	switch s.c.BatchNorm {
	case BatchNormFrozen:
		nn.FreezeBatchNorm(n.model, true)
	case BatchNormAuto:
		if s.c.Weights != "" && foldedBatchNorm(n.model) {
			nn.FreezeBatchNorm(n.model, true)
			s.ev.note("batch normalisation stays in evaluation mode: the weights have its statistics folded in (running mean 0, variance 1), which live statistics would destroy")
		}
	}
	channelsLast(n.model)
	s.parameters = nn.Parameters(n.model)
	head := n.model.Head()
	var rest []*torch.Tensor
	for _, p := range nn.Parameters(n.model) {
		if !p.Same(head.Weight) && !p.Same(head.Bias) {
			rest = append(rest, p)
		}
	}
	f.opt = optim.NewAdam(rest, optim.LR(s.c.LR))
	f.opt.AddGroup([]*torch.Tensor{head.Weight, head.Bias}, optim.LR(s.c.HeadLR))
	return f, nil
}

// foldedBatchNorm says whether every batch normalisation of the model has the statistics of an identity: mean 0 and
// variance 1, or 1 - eps, as converters write it.
func foldedBatchNorm(m any) bool {
	folded, found := true, false
	for _, layer := range nn.Modules(m) {
		if bn, ok := layer.(*nn.BatchNorm2d); ok {
			found = true
			folded = folded && bn.RunningMean.CountNonzero().ItemInt() == 0 && bn.RunningVar.SubScalar(1).Abs().Max().Item() < 1e-4
		}
	}
	return found && folded
}

// channelsLast lays convolution weights out for channels-last inputs.
func channelsLast(m any) {
	for _, p := range nn.Parameters(m) {
		if p.Dim() == 4 {
			p.SetData(p.Detach().ContiguousFormat(torch.ChannelsLast))
		}
	}
}

func (f *fineTune) epoch(ctx context.Context, n int) (float64, error) {
	order := f.random.Permutation(len(f.train))
	plan := data.Plan{Order: make([]int, len(order)), BatchSize: f.c.BatchSize}
	for i, p := range order {
		plan.Order[i] = f.train[p]
	}
	if *f.c.Flip {
		flip := make([]bool, len(f.train))
		for i := range flip {
			flip[i] = f.random.RandomSample() < 0.5
		}
		plan.Flip = func(row int) bool { return flip[f.place[row]] }
	}
	nn.SetTraining(f.model, true)
	total, done, start := 0.0, 0, time.Now()
	for b, err := range f.loader.Batches(ctx, plan) {
		if err != nil {
			return 0, err
		}
		torch.Scope(func(*torch.Arena) {
			var x float64
			if x, err = f.step(b, n); err == nil {
				total += x * float64(b.Len())
			}
		})
		if err != nil {
			return 0, err
		}
		done += b.Len()
		f.ev.step(Step{Phase: "train", Epoch: n, Epochs: f.c.Epochs, Done: done, Total: len(order), Loss: total / float64(done), ImagesPerSec: float64(done) / time.Since(start).Seconds()})
	}
	return total / float64(max(done, 1)), nil
}

func (f *fineTune) step(b *data.Batch, epoch int) (float64, error) {
	places := make([]int64, b.Len())
	for i, r := range b.Rows {
		places[i] = int64(f.place[r])
	}
	place := torch.FromSlice(places)
	var observed, full *torch.Tensor
	if f.labels.observed != nil {
		observed = f.labels.observed.IndexSelect(0, place)
	}
	if f.labels.full != nil {
		full = f.labels.full.IndexSelect(0, place)
	}
	input, err := f.input(b, *f.c.Flip)
	if err != nil {
		return 0, err
	}
	v, x, err := f.value(f.model.Forward(input), observed, full, epoch, b.Rows)
	if err != nil {
		return 0, err
	}
	f.opt.ZeroGrad()
	v.Backward()
	f.opt.Step()
	return x, nil
}

func (f *fineTune) broken() []data.Broken { return f.loader.Broken() }
