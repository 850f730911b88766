package method

import (
	"context"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/vlm"
	"github.com/gospml/gospml/torch"
)

// Setup is what a run knows when it makes an estimator.
type Setup struct {
	Context  context.Context // of the run, for work that goes on beside it
	Method   *Method
	Values   loss.Values  // the loss's parameters
	Options  loss.Options // with which it was made
	DataSet  string       // whose defaults the parameters took
	Data     *data.Dataset
	Rows     []int         // training rows in use; a row's place is its position here
	Features *torch.Tensor // of these rows [n, D], on the device, where they do not change; else nil
	Device   torch.Device

	Seed      uint32
	Generator *torch.Generator // of initial values; a run's checkpoint holds its state
	Epochs    int
	LR        float64 // of the classifier
	Frozen    bool    // a head on features
	Flip      bool    // pictures are mirrored at random
	GroupRate float64 // η of the groups' scores, where Options.GroupWeight is not 0
	QueueSize int     // pairs that a memory of embeddings holds; negative: none
	Init      string  // run directory that the run starts from; "" = none
	Labels    Labels
	// PlainAdam says that the optimiser is Adam with β 0.9 and 0.999 and without weight decay, in one process on the CPU,
	// on gradients without a factor: a table may then take such steps by itself, at the learning rate of each Step.
	PlainAdam bool
	// Resumed says that the run goes on from a checkpoint, in which Saved are the numbers of the estimator's state.
	Resumed bool
	Saved   map[string]float64
	Note    func(text string) // tells the person one line
}

// Labels say where pseudo-labels come from: a file, or else a model.
type Labels struct {
	File     string
	Open     func() (*clip.Model, error)
	Settings vlm.Settings
}

// Observed are the observed labels [n, C] int8 of the training rows, on the device; nil where the data set has none.
func (s *Setup) Observed() *torch.Tensor {
	if s.Data.Observed == nil {
		return nil
	}
	return compute.Upload(s.Device, s.Data.Gather(s.Data.Observed, s.Rows), len(s.Rows), s.Data.C())
}

// New makes the method's estimator, label.None where it has none, and beside it the scores of groups where
// Options.GroupWeight weighs them.
func (m *Method) New(s *Setup) (Estimator, error) {
	if s.Options.GroupWeight != 0 {
		return m.grouped(s)
	}
	if m.Estimator == nil {
		return label.None{}, nil
	}
	return m.Estimator(s)
}
