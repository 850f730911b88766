package method_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/torch"
)

// Every loss of the registry that names an estimator has a method that makes it, and what each method lacks is what is
// said here.
func TestMethodsOfTheRegistry(t *testing.T) {
	for _, m := range method.List() {
		if m.ID == "smile-encoder" {
			require.Contains(t, m.Lacks(), "train smile-classifier")
			continue
		}
		require.Empty(t, m.Lacks(), m.ID)
		require.Equal(t, m.Loss.Estimator != "", m.Estimator != nil, m.ID)
	}
	require.NotContains(t, method.Trainable(), "smile-encoder")
	require.Contains(t, method.Trainable(), "an")
	_, err := method.Lookup("no such method")
	require.ErrorContains(t, err, "there are")
}

// One threshold for each method: that of the family of EM, and one half.
func TestThresholds(t *testing.T) {
	for id, want := range map[string]float64{"em": 0.75, "em-apl": 0.75, "EM_APL": 0.75, "an": 0.5, "role": 0.5} {
		m, err := method.Lookup(id)
		require.NoError(t, err)
		require.Equal(t, want, m.Present(), id)
	}
}

// What methods take for positives, by hand.
func TestPositives(t *testing.T) {
	z := torch.FromSlice([]float32{2, -2, 0.1}, 1, 3)
	seen := torch.FromSlice([]int8{0, 1, 0}, 1, 3)
	positives := func(id string, b loss.Batch, v loss.Values) []float64 {
		m, err := method.Lookup(id)
		require.NoError(t, err)
		p := m.Positives(&b, v)
		if p == nil {
			return nil
		}
		return torch.ToSlice[float64](p.ToDType(torch.Float64))
	}
	require.Nil(t, positives("an", loss.Batch{Logits: z, Observed: seen}, nil))
	require.Equal(t, []float64{0, 1, 0}, positives("ll-cp", loss.Batch{Logits: z, Observed: seen}, nil))
	require.Equal(t, []float64{0, 1, 0}, positives("mime", loss.Batch{Logits: z, Observed: seen}, nil))
	require.Nil(t, positives("ll-r", loss.Batch{Logits: z, Observed: seen}, nil))
	for _, id := range []string{"plc", "lac"} {
		require.Equal(t, []float64{1, 0, 1}, positives(id, loss.Batch{Logits: z}, loss.Values{"delta": 0.51}))
	}
	require.Equal(t, []float64{1, 0, 1}, positives("role", loss.Batch{Estimate: z}, nil))
	require.Nil(t, positives("splc", loss.Batch{Logits: z, Epoch: 1}, loss.Values{"tau": 0.6, "change_epoch": 1}))
	require.Equal(t, []float64{1, 0, 0}, positives("splc", loss.Batch{Logits: z, Epoch: 2}, loss.Values{"tau": 0.6, "change_epoch": 1}))
	require.Equal(t, []float64{0, 0, 1}, positives("an", loss.Batch{Logits: z, Pseudo: torch.FromSlice([]int8{0, -1, 1}, 1, 3)}, nil), "given pseudo-labels stand before any rule")
}

func TestRegister(t *testing.T) {
	require.ErrorContains(t, method.Register(method.Method{ID: "em"}), "taken")
	require.ErrorContains(t, method.Register(method.Method{ID: "test-method"}), "register its loss first")
	entry, err := loss.Lookup("an")
	require.NoError(t, err)
	require.ErrorContains(t, method.Register(method.Method{ID: "test-method", Loss: entry}), "one id")
	require.NoError(t, loss.Register(loss.Entry{ID: "test-method", Title: "test", Needs: loss.Observed | loss.Estimates, New: entry.New}))
	m, err := method.Lookup("test-method")
	require.NoError(t, err)
	require.Contains(t, m.Lacks(), "label estimates", "nothing gives them yet")
	require.NoError(t, method.Register(method.Method{ID: "test-method", Gives: loss.Estimates, Threshold: 0.3, Estimator: func(*method.Setup) (method.Estimator, error) { return label.None{}, nil }}))
	m, err = method.Lookup("test_method")
	require.NoError(t, err)
	require.Empty(t, m.Lacks())
	require.Equal(t, 0.3, m.Present())
	require.Contains(t, method.Trainable(), "test-method")
}

// DualCoOp is a method of its own on another's loss, and runs that recorded it by that loss are known again.
func TestMethodOfAnothersLoss(t *testing.T) {
	m, err := method.Lookup("DualCoOp")
	require.NoError(t, err)
	require.Equal(t, []string{"dualcoop", "asl", "dualcoop", "code"}, []string{m.ID, m.Loss.ID, m.Head, m.Form})
	asl, err := method.Lookup("asl")
	require.NoError(t, err)
	require.Empty(t, asl.Head)
	require.Contains(t, method.Trainable(), "dualcoop")

	whole := map[string]float64{"gamma_neg": 2, "gamma_pos": 3, "margin": 0.05}
	require.Equal(t, "dualcoop", method.Recorded("asl", "dualcoop", whole))
	require.Equal(t, "asl", method.Recorded("asl", "linear", whole))
	require.Equal(t, "asl", method.Recorded("asl", "dualcoop", map[string]float64{"margin": 0.05}))
	require.Equal(t, "an", method.Recorded("an", "dualcoop", whole))

	require.ErrorContains(t, method.Register(method.Method{ID: "asymmetric-loss", Of: "an"}), "no id of its own")
	require.ErrorContains(t, method.Register(method.Method{ID: "dualcoop", Of: "asl"}), "taken")
	require.ErrorContains(t, method.Register(method.Method{ID: "nobody"}), "register its loss first")
}
