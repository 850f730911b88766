package label

import (
	"fmt"
	"slices"

	"github.com/gospml/gospml/torch"
)

// HeatSide is the side of EN+SCL's maps, the paper's.
const HeatSide = 28

// Expected are EN's expected negatives, chosen once an epoch, and the averages that they and the consistency terms rest
// on.
type Expected struct {
	None
	observed *torch.Tensor
	average  *ScoreAverage
	heat     *HeatMaps // of en-scl
	counts   []int
	mask     *torch.Tensor // [n, C] int8, of the present epoch
	began    float64       // the epoch of mask
}

// NewExpected starts from observed labels [n, C]. k is the expected number of positives, mu the weight of the past in
// the averages; side is that of the maps of EN+SCL, 0 for methods without maps.
func NewExpected(observed *torch.Tensor, k, mu float64, side int) (*Expected, error) {
	e := &Expected{observed: observed}
	var err error
	if e.average, err = NewScoreAverage(observed, torch.Float32, mu); err != nil {
		return nil, err
	}
	if e.counts, err = ExpectedPositiveCounts(observed, k); err != nil {
		return nil, err
	}
	e.mask = observed.EqScalar(0).ToDType(torch.Int8) // epoch 1 is AN's
	if side > 0 {
		e.heat, err = NewHeatMaps(observed.ToDevice(torch.CPU), side, mu) // bytes in the host's memory, which Go reads
	}
	return e, err
}

// Start chooses the expected negatives of an epoch.
func (e *Expected) Start(epoch int) error {
	if epoch == 1 || int(e.began) == epoch {
		return nil
	}
	m, err := ExpectedNegatives(e.average.H, e.observed, e.counts)
	if err == nil {
		e.mask.Copy_(m)
		m.Free()
		e.began = float64(epoch)
	}
	return err
}

// Fill gives a batch its negatives and averages.
func (e *Expected) Fill(s *Step) (err error) {
	b := s.Batch
	b.Negative, b.Average = e.mask.IndexSelect(0, s.At), e.average.H.IndexSelect(0, s.At)
	if e.heat == nil {
		return nil
	}
	if b.Maps == nil {
		return fmt.Errorf("label: the model gives no score maps")
	}
	if b.Heat, err = e.heat.Lookup(s.Places, s.Crops(), b.Maps.Size(2)); err == nil {
		b.Heat = b.Heat.Send(b.Maps.Device())
	}
	return err
}

// After takes the scores of a batch into the averages.
func (e *Expected) After(s *Step) error {
	b := s.Batch
	if e.heat != nil {
		if err := e.heat.Update(s.Places, s.Crops(), b.Maps.Detach().Sigmoid()); err != nil {
			return err
		}
	}
	z := b.Logits
	if z == nil {
		z = b.Maps.MeanDim([]int{2, 3}, false)
	}
	return e.average.Update(s.Places, z.Detach().Sigmoid())
}

// End takes in what is still on its way from a device.
func (e *Expected) End(int, func() (*torch.Tensor, error)) error {
	if e.heat == nil {
		return nil
	}
	return e.heat.Settle()
}

// State holds averages, mask and maps.
func (e *Expected) State() State {
	s := e.average.State()
	s.Tensors["mask"], s.Numbers["began"] = e.mask, e.began
	if e.heat != nil {
		s.Tensors["heat"] = e.heat.State().Tensors["maps"]
	}
	return s
}

// LoadState restores them in place.
func (e *Expected) LoadState(s State) error {
	began, ok := s.Numbers["began"]
	mask := s.Tensors["mask"]
	if !ok || mask == nil || !slices.Equal(mask.Shape(), e.mask.Shape()) {
		return fmt.Errorf("label: the state holds no expected negatives for this data set")
	}
	if e.heat != nil {
		if err := e.heat.LoadState(State{Tensors: map[string]*torch.Tensor{"maps": s.Tensors["heat"]}}); err != nil {
			return err
		}
	}
	if err := e.average.LoadState(s); err != nil {
		return err
	}
	e.mask.Copy_(mask)
	e.began = began
	return nil
}
