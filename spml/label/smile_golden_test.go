package label

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// TestSMILESteps takes SMILE's two steps, the classifier's and the encoder's, beside those of the released program's
// formulas (testdata/label/make_smile.py): enhanced labels, draws and losses of each batch, all weights at the end.
func TestSMILESteps(t *testing.T) {
	b, err := os.ReadFile(testroot.Testdata("label", "smile.json"))
	require.NoError(t, err)
	var golden struct {
		Cases []struct {
			Name                                string
			Seed                                int64
			P, Mu, Bias, Rate, Gamma, Delta, LR float64
			Temperature                         float64
			LogEps                              float64 `json:"log_eps"`
			X                                   [][]float64
			Observed                            [][]int8
			First, Last                         map[string]any
			ClassifierFirst                     map[string]any `json:"classifier_first"`
			ClassifierLast                      map[string]any `json:"classifier_last"`
			Steps                               []struct {
				Rows                []int
				Enhanced, Drawn     [][]float64
				Classifier, Encoder float64
			}
		}
	}
	require.NoError(t, json.Unmarshal(b, &golden))
	require.NotEmpty(t, golden.Cases)
	for _, c := range golden.Cases {
		t.Run(c.Name, func(t *testing.T) {
			classes := len(c.Observed[0])
			x := torch.FromSlice(slices.Concat(c.X...), len(c.X), len(c.X[0]))
			observed := torch.FromSlice(slices.Concat(c.Observed...), len(c.X), classes)
			g := torch.NewGenerator(1)
			s, err := NewSMILE(x, classes, 3, c.Temperature, g)
			require.NoError(t, err)
			g.Seed(c.Seed)
			d := []nn.Option{nn.DType(torch.Float64), nn.Generator(torch.NewGenerator(2))}
			f := &MLP{nn.NewLinear(len(c.X[0]), classes, d...), nn.NewLinear(classes, classes, d...)}
			load(t, s, c.First)
			load(t, f, c.ClassifierFirst)
			o := loss.Options{LogEps: c.LogEps}
			classify, err := loss.New("smile-classifier", "", loss.Values{
				"mu": c.Mu, "p": c.P, "bias": c.Bias, "rate": c.Rate, "temperature": c.Temperature,
			}, o)
			require.NoError(t, err)
			encode, err := loss.New("smile-encoder", "", loss.Values{
				"gamma": c.Gamma, "delta": c.Delta, "temperature": c.Temperature, "kl": 1,
			}, o)
			require.NoError(t, err)
			ours, theirs := optim.NewAdam(s.Parameters(), optim.LR(c.LR)), optim.NewAdam(nn.Parameters(f), optim.LR(c.LR))
			for _, step := range c.Steps {
				ids, err := index(step.Rows, x)
				require.NoError(t, err)
				y := observed.IndexSelect(0, ids)
				v, err := s.Encode(step.Rows)
				require.NoError(t, err)
				soft, err := s.Enhanced(v)
				require.NoError(t, err)
				require.InDeltaSlice(t, slices.Concat(step.Enhanced...), flat(soft), 1e-10)
				r, err := s.Reconstruct(step.Rows, v)
				require.NoError(t, err)
				require.InDeltaSlice(t, slices.Concat(step.Drawn...), flat(r.YRec), 1e-9)
				value, err := classify.Value(loss.Batch{Logits: f.Forward(x.IndexSelect(0, ids)), Observed: y, Soft: soft})
				require.NoError(t, err)
				require.InDelta(t, step.Classifier, value.Item(), 1e-9)
				theirs.ZeroGrad()
				value.Backward()
				theirs.Step()
				value, err = encode.Value(loss.Batch{Logits: v, Observed: y, Reconstruction: r})
				require.NoError(t, err)
				require.InDelta(t, step.Encoder, value.Item(), 1e-8*max(1, step.Encoder))
				ours.ZeroGrad()
				value.Backward()
				ours.Step()
			}
			compare(t, s, c.Last)
			compare(t, f, c.ClassifierLast)
		})
	}
}

// numbers are those of a tensor as JSON has them.
func numbers(v any) []float64 {
	switch v := v.(type) {
	case float64:
		return []float64{v}
	case []any:
		var all []float64
		for _, x := range v {
			all = append(all, numbers(x)...)
		}
		return all
	}
	return nil
}

func load(t *testing.T, m any, state map[string]any) {
	sd := nn.StateDictOf(m)
	require.Len(t, state, len(sd))
	torch.NoGrad(func() {
		for k, p := range sd {
			p.Copy_(torch.FromSlice(numbers(state[k]), p.Shape()...))
		}
	})
}

func compare(t *testing.T, m any, state map[string]any) {
	for k, p := range nn.StateDictOf(m) {
		require.InDeltaSlice(t, numbers(state[k]), flat(p), 1e-7, k)
	}
}
