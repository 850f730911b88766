package train_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/optim"
)

// stepper trains a linear layer on four rows.
func stepper(t *testing.T, x *torch.Tensor, feeds label.Estimator) (s *train.Stepper, weight *torch.Tensor) {
	l, err := loss.New("ll-cp", "", loss.Values{"delta_rel": 0.5}, loss.Options{})
	require.NoError(t, err)
	weight = torch.FromSlice([]float64{0.5, -0.25, 0.125, 1}, 2, 2).SetRequiresGrad(true)
	s = &train.Stepper{Loss: l, Estimator: feeds, Observed: torch.FromSlice([]int8{1, 0, 0, 1, 1, 0, 0, 1}, 4, 2)}
	s.Train(optim.NewSGD([]*torch.Tensor{weight}, optim.LR(0.1)), []*torch.Tensor{weight}, 0.1)
	s.Forward = func(st *method.Step) error {
		st.Batch.Logits = torch.Linear(x.IndexSelect(0, st.At), weight, nil)
		return nil
	}
	return s, weight
}

// What a step of one's own does: the estimator hears what the loss marks, and so does Report; a loss that is no number
// changes nothing.
func TestStepper(t *testing.T) {
	x := torch.FromSlice([]float64{1, 2, 3, 4, 5, 6, math.NaN(), 8}, 4, 2)
	table, err := label.NewLargeLoss(torch.FromSlice([]int8{1, 0, 0, 1, 1, 0, 0, 1}, 4, 2))
	require.NoError(t, err)
	s, weight := stepper(t, x, table)
	parts := map[string]bool{}
	s.Report = func(part string, _ *torch.Tensor) { parts[part] = true }
	require.NoError(t, s.Begin(2))
	before, labels := torch.ToSlice[float64](weight.Detach()), table.Labels.Sum().ItemInt()
	value, err := s.Step(2, []int{0, 1, 2})
	require.NoError(t, err)
	require.Positive(t, value)
	require.True(t, parts["permanent_flips"])
	require.Greater(t, table.Labels.Sum().ItemInt(), labels, "labels with large losses became positives")
	after := torch.ToSlice[float64](weight.Detach())
	require.NotEqual(t, before, after)
	_, err = s.Step(2, []int{0, 3})
	require.ErrorIs(t, err, train.ErrNotFinite)
	require.Equal(t, after, torch.ToSlice[float64](weight.Detach()))
	_, err = s.Step(2, []int{4})
	require.Error(t, err, "a place that is none")
	_, err = train.NewStepper("smile-encoder", "", nil, loss.Options{}, &method.Setup{})
	require.ErrorContains(t, err, "train smile-classifier")
	_, err = train.NewStepper("nothing", "", nil, loss.Options{}, &method.Setup{})
	require.ErrorContains(t, err, "no loss is called")
}
