package train

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/amp"
	"github.com/gospml/gospml/torch/optim"
)

// Stepper takes the optimiser's steps of a method: logits, what the estimator adds, the loss, its gradient, the step,
// what the estimator keeps of it. Run takes its steps by one, and a loop of one's own can. Its fields are set before
// the first step; NewStepper sets those that a method has.
//
// One goroutine at a time uses it. Step runs in a scope of its own (torch.Scope).
type Stepper struct {
	Loss      loss.Loss
	Estimator method.Estimator
	Optimizer optim.Optimizer // of the model's parameters and of the estimator's groups
	// Forward puts the logits of a step's places into its batch, and what else the loss reads of the model.
	Forward    func(s *method.Step) error
	Observed   *torch.Tensor   // labels [n, C] of the training rows by place; nil where there are none
	Full       *torch.Tensor   // the same, complete; nil where they are not known
	Parameters []*torch.Tensor // that the optimiser trains for the model; a norm in the loss is taken of them
	ClipNorm   float64         // largest norm of their gradient; 0 = any
	Scaler     *amp.GradScaler // of float16's gradients; nil: none
	// classifier is the optimiser's group whose learning rate is the classifier's.
	classifier *optim.Group
	// Report, if not nil, receives named parts of each loss.
	Report func(part string, v *torch.Tensor)
}

// NewStepper makes loss and estimator of a method. dataSet is whose published parameters the loss takes,
// params override them. setup says what the estimator is made from; its method, values and options are filled in. The
// caller sets Forward and calls Train.
func NewStepper(id, dataSet string, params loss.Values, o loss.Options, setup *method.Setup) (*Stepper, error) {
	m, err := method.Lookup(id)
	if err != nil {
		return nil, err
	}
	if lacks := m.Lacks(); lacks != "" {
		return nil, &config.Error{Msg: fmt.Sprintf("%s needs %s", m.ID, lacks)}
	}
	s := &Stepper{}
	setup.Method, setup.Options, setup.DataSet = m, o, dataSet
	if setup.Values, err = m.Loss.ResolveForm(dataSet, params, o.Form); err != nil {
		return nil, err
	}
	if s.Loss, err = m.Loss.Make(dataSet, params, o); err != nil {
		return nil, err
	}
	if setup.Note == nil {
		setup.Note = func(string) {}
	}
	if s.Estimator, err = m.New(setup); err != nil {
		return nil, err
	}
	if ds := setup.Data; ds != nil {
		l := gatherLabels(ds, setup.Rows, setup.Device)
		if s.Observed = l.observed; m.Needs(loss.Full) {
			s.Full = l.full
		}
	}
	return s, nil
}

// Step takes a step on the images at some places in an epoch counted from 1, and gives its loss. A loss that is not
// finite is an error, before the optimiser's step.
func (s *Stepper) Step(epoch int, places []int) (value float64, err error) {
	e := torch.Try(func() {
		torch.Scope(func(*torch.Arena) {
			st := &method.Step{Batch: &loss.Batch{}, Places: places, At: placesOn(s.device(), places), Epoch: epoch}
			if s.classifier != nil {
				st.LR = s.classifier.LR
			}
			s.Optimizer.ZeroGrad()
			if err = s.Forward(st); err != nil {
				return
			}
			var v *torch.Tensor
			if v, err = s.Value(st); err != nil {
				return
			}
			if value = v.Item(); math.IsNaN(value) || math.IsInf(value, 0) {
				err = fmt.Errorf("%w (%v) in epoch %d", ErrNotFinite, value, epoch)
				return
			}
			s.Backward(v)
			_, err = s.Update(st)
		})
	})
	if e != nil {
		err = e
	}
	return value, err
}

// Train sets what is trained: the model's parameters, which the optimiser has with the learning rate lr, and beside
// them the estimator's, which it gets. Of several groups of the optimiser the last is the classifier's.
func (s *Stepper) Train(o optim.Optimizer, params []*torch.Tensor, lr float64) {
	s.Optimizer, s.Parameters, s.classifier = o, params, o.Groups()[len(o.Groups())-1]
	for _, g := range s.Estimator.Groups() {
		o.AddGroup(g.Params, optim.LR(g.Factor*lr))
	}
}

// Begin begins an epoch, counted from 1.
func (s *Stepper) Begin(epoch int) error { return s.Estimator.Start(epoch) }

// End ends an epoch; scores are σ(z) of all places without augmentation, [n, C], which some estimators label by.
func (s *Stepper) End(epoch int, scores func() (*torch.Tensor, error)) error {
	return s.Estimator.End(epoch, scores)
}

func (s *Stepper) device() torch.Device {
	if len(s.Parameters) > 0 {
		return s.Parameters[0].Device()
	}
	return torch.CPU
}

// Value is the loss of a step whose logits are there: labels and estimates are put into its batch.
func (s *Stepper) Value(st *method.Step) (*torch.Tensor, error) {
	if err := s.fill(st); err != nil {
		return nil, err
	}
	return s.Loss.Value(*st.Batch)
}

// fill puts labels, and what the estimator adds, into the batch of a step.
func (s *Stepper) fill(st *method.Step) error {
	b := st.Batch
	b.Epoch, b.Parameters = st.Epoch, s.Parameters
	if s.Observed != nil {
		b.Observed = s.Observed.IndexSelect(0, st.At)
	}
	if s.Full != nil {
		b.Full = s.Full.IndexSelect(0, st.At)
	}
	if err := s.Estimator.Fill(st); err != nil {
		return err
	}
	if s.Report != nil {
		listens := b.Report
		b.Report = func(part string, v *torch.Tensor) {
			if listens != nil {
				listens(part, v)
			}
			s.Report(part, v)
		}
	}
	return nil
}

// Backward puts the gradient of a loss into the parameters, times float16's factor where there is one.
func (s *Stepper) Backward(value *torch.Tensor) { s.scaled(value).Backward() }

// scaled is a loss times the factor that keeps float16's gradients from vanishing, where there is one.
func (s *Stepper) scaled(value *torch.Tensor) *torch.Tensor {
	if s.Scaler == nil {
		return value
	}
	return s.Scaler.Scale(value)
}

// Update takes the optimiser's step on the gradients that are there and lets the estimator follow; steps are the parts
// of the batch. It says whether the step was taken: with a Scaler, one whose gradient overflowed is left out.
func (s *Stepper) Update(steps ...*method.Step) (took bool, err error) {
	if s.Scaler != nil {
		s.Scaler.Unscale(s.Optimizer)
	}
	if s.ClipNorm > 0 {
		optim.ClipGradNorm(s.Parameters, s.ClipNorm, 2)
	}
	if took = true; s.Scaler == nil {
		s.Optimizer.Step()
	} else {
		took = s.Scaler.Step(s.Optimizer)
		s.Scaler.Update()
	}
	for _, st := range steps {
		if err := s.Estimator.After(st); err != nil {
			return took, err
		}
	}
	return took, nil
}

// placesOn are places as a tensor on a device.
func placesOn(d torch.Device, places []int) *torch.Tensor {
	p := make([]int64, len(places))
	for i, x := range places {
		p[i] = int64(x)
	}
	return compute.Upload(d, p)
}
