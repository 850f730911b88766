package label

import (
	"fmt"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// MovingPoint gives GR and GPR their parameters w, b, μ, σ: by epoch, or, after Train, as a parameter that learns
// from where the points stand.
//
// Source: Chen et al. 2024; its released code refers to an undefined variable when the parameters are to learn.
type MovingPoint struct {
	loss.Points
	Parameter *torch.Tensor // [4], nil unless Train was called

	epoch int
}

// NewMovingPoint starts at epoch 1.
func NewMovingPoint(s loss.Points) (*MovingPoint, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("label: %w", err)
	}
	return &MovingPoint{Points: s, epoch: 1}, nil
}

// Step sets the epoch, counted from 1.
func (s *MovingPoint) Step(epoch int) { s.epoch = epoch }

// Point is the present point of the schedule.
func (s *MovingPoint) Point() loss.Point { return s.At(s.epoch) }

// Train makes the present point a parameter for an optimizer.
func (s *MovingPoint) Train(dtype torch.DType) error {
	p := s.Point()
	t, err := own(torch.FromSlice([]float64{p.W, p.B, p.Mu, p.Sigma}, 4).ToDType(dtype))
	if err == nil {
		s.Parameter = t.SetRequiresGrad(true)
	}
	return err
}

// Fill puts the point, or the parameter, into a batch.
func (s *MovingPoint) Fill(b *loss.Batch) {
	p := s.Point()
	b.Epoch, b.Point, b.Trainable = s.epoch, &p, s.Parameter
}

// State holds the epoch and the parameter, if there is one.
func (s *MovingPoint) State() State {
	st := State{Numbers: map[string]float64{"epoch": float64(s.epoch)}}
	if s.Parameter != nil {
		st.Tensors = map[string]*torch.Tensor{"parameter": s.Parameter.Detach()}
	}
	return st
}

// LoadState restores them; a parameter must have been made by Train before.
func (s *MovingPoint) LoadState(st State) error {
	e, err := st.number("epoch")
	if err != nil {
		return err
	}
	if _, there := st.Tensors["parameter"]; there != (s.Parameter != nil) {
		return fmt.Errorf("label: the schedule's parameters are trained on one side only, state or schedule")
	}
	if s.Parameter != nil {
		if err := st.restore("parameter", s.Parameter.Detach()); err != nil {
			return err
		}
	}
	s.epoch = int(e)
	return nil
}

// LearnedPoint trains GR's w, b, μ, σ as parameters of the optimiser, with the classifier's learning rate.
type LearnedPoint struct {
	None
	schedule *MovingPoint
}

// NewLearnedPoint starts at the first point of a schedule, in float32.
func NewLearnedPoint(points loss.Points) (*LearnedPoint, error) {
	s, err := NewMovingPoint(points)
	if err == nil {
		err = s.Train(torch.Float32)
	}
	return &LearnedPoint{schedule: s}, err
}

// Start moves to an epoch.
func (l *LearnedPoint) Start(epoch int) error { l.schedule.Step(epoch); return nil }

// Fill gives a batch the parameters.
func (l *LearnedPoint) Fill(s *Step) error { l.schedule.Fill(s.Batch); return nil }

// Groups are the parameters.
func (l *LearnedPoint) Groups() []Group {
	return []Group{{[]*torch.Tensor{l.schedule.Parameter}, 1}}
}

// State is the schedule's.
func (l *LearnedPoint) State() State { return l.schedule.State() }

// LoadState restores it.
func (l *LearnedPoint) LoadState(s State) error { return l.schedule.LoadState(s) }
