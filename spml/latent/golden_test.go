package latent_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/goldenfill"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/latent"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// latentGolden is mime.json: what the released program of MIME computes (testdata/label/make_mime.py).
type latentGolden struct {
	Batch, Classes, Dim, Latent int
	Map                         []int
	LR                          float64
	LogEps                      float64 `json:"log_eps"`
	MIME                        []struct {
		Name                     string
		Temperature, Beta, Theta float64
		Warmup                   int
		Observed                 [][]int8
		Epochs                   []struct {
			Steps, Scoring []latentStep
			Labels         [][]int8
		}
		Last map[string][2]float64
	}
	Smile []struct {
		Name               string
		Seed               int64
		Theta, Alpha, Beta float64
		Observed           [][]int8
		Steps              []latentStep
		Last               map[string][2]float64
	}
}

type latentStep struct {
	Rows                 []int
	Noise                [][][]float64
	Logits, Alpha, Drawn [][]float64
	Loss, KL             float64
}

// convolved is a backbone of one 1×1 convolution, whose picture is the feature map.
type convolved struct {
	backbone.Model `torch:"-"`
	Conv           *nn.Conv2d
	dim            int
}

func (c *convolved) FeatureMap(x *torch.Tensor) *torch.Tensor { return c.Conv.Forward(x) }
func (c *convolved) FeatureDim() int                          { return c.dim }
func (c *convolved) SetHead(*nn.Linear)                       {}

func readLatentGolden(t *testing.T) (g latentGolden) {
	b, err := os.ReadFile(testroot.Testdata("label", "mime.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &g))
	require.Len(t, g.MIME, 3)
	require.Len(t, g.Smile, 2)
	return g
}

// network is the golden's, with its first weights; tensors are by their names in the released program.
func (g latentGolden) network(t *testing.T, beta bool) (backbone.Model, nn.StateDict) {
	spec := model.HeadSpec{Head: model.HeadDecoder, Projection: decoder.None, Latent: g.Latent, LatentBeta: beta}
	net, err := model.WithHead(&convolved{Conv: nn.NewConv2d(3, g.Dim, 1), dim: g.Dim}, spec, g.Classes, nil)
	require.NoError(t, err)
	nn.ToDType(net, torch.Float64)
	nn.SetDropout(net, 0)
	for _, l := range nn.Modules(net) {
		if a, ok := l.(*nn.MultiheadAttention); ok {
			a.Dropout = 0
		}
	}
	theirs := strings.NewReplacer("body.", "backbone.", "decoder.fc.", "fc.", "decoder.query_embed.", "query_embed.",
		"decoder.encoder.", "encoder.", "latent.", "")
	named := nn.StateDict{}
	for k, p := range nn.NamedParameters(net) {
		named[theirs.Replace(k)] = p
	}
	torch.NoGrad(func() {
		for k, p := range named {
			offset := 0.0
			if p.Dim() == 1 && strings.HasSuffix(k, ".weight") {
				offset = 1
			}
			p.Copy_(torch.FromSlice(goldenfill.Values(k, p.Numel(), offset, 1), p.Shape()...))
		}
	})
	return net, named
}

// stepped is a method's steps on the golden's pictures, as a run takes them.
type stepped struct {
	*train.Stepper
	images *torch.Tensor
	net    model.LatentNetwork
	head   latent.Head
	seen   loss.Batch // of the last pass
}

func (g latentGolden) steps(
	t *testing.T, id, name string, set loss.Values, observed [][]int8, net backbone.Model, d latent.Draws,
) *stepped {
	n := len(observed)
	ds := &data.Dataset{Name: name, Observed: slices.Concat(observed...), Classes: make([]string, g.Classes),
		Images: make([]string, n), Split: make([]data.Split, n)}
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	s := &stepped{net: net.(model.LatentNetwork)}
	var err error
	s.Stepper, err = train.NewStepper(id, "", set, loss.Options{LogEps: g.LogEps}, &method.Setup{
		Context: context.Background(), Data: ds, Rows: rows, Epochs: 3, LR: g.LR,
	})
	require.NoError(t, err)
	pixels := goldenfill.Values("images:"+name, n*3*g.Map[0]*g.Map[1], 0, 4)
	s.images, s.head = torch.FromSlice(pixels, n, 3, g.Map[0], g.Map[1]), latent.Of(s.net, d)
	body, head := model.Split(net)
	o := optim.NewAdamax(body, optim.LR(g.LR))
	o.AddGroup(head, optim.LR(10*g.LR))
	s.Train(o, append(body, head...), 10*g.LR)
	s.Forward = func(st *method.Step) error {
		s.forward(st.Places, st.Batch)
		s.seen = *st.Batch
		return nil
	}
	return s
}

func (s *stepped) forward(places []int, b *loss.Batch) {
	s.head.Fill(s.net.Labelwise(s.images.IndexSelect(0, at(places))), b)
}

func at(places []int) *torch.Tensor {
	ids := make([]int64, len(places))
	for i, p := range places {
		ids[i] = int64(p)
	}
	return torch.FromSlice(ids, len(ids))
}

// TestMIMESteps takes MIME's epochs on the label-wise network beside those of its released program: logits, losses and
// divergences of every step, the labels after every epoch, and the weights at the end.
func TestMIMESteps(t *testing.T) {
	g := readLatentGolden(t)
	for _, c := range g.MIME {
		t.Run(c.Name, func(t *testing.T) {
			net, named := g.network(t, false)
			var drawn [][][]float64
			noise := func(torch.Device, ...int) *torch.Tensor {
				return torch.FromSlice(slices.Concat(slices.Concat(drawn...)...), g.Batch, g.Classes, g.Latent)
			}
			set := loss.Values{"beta": c.Beta, "temperature": c.Temperature, "theta": c.Theta, "warmup": float64(c.Warmup)}
			s := g.steps(t, "mime", c.Name, set, c.Observed, net, latent.Draws{Noise: noise})
			table := s.Estimator.(*label.Threshold)
			for e, epoch := range c.Epochs {
				require.NoError(t, s.Begin(e+1))
				for _, step := range epoch.Steps {
					drawn = step.Noise
					s.Report = func(part string, v *torch.Tensor) {
						if part == "kl" {
							require.InDelta(t, step.KL, c.Beta*v.Item(), 1e-10)
							require.InDeltaSlice(t, slices.Concat(step.Logits...), flatten(s.seen.Logits), 1e-9)
						}
					}
					value, err := s.Step(e+1, step.Rows)
					require.NoError(t, err)
					require.InDelta(t, step.Loss, value, 1e-10)
				}
				asked := false
				require.NoError(t, s.End(e+1, func() (*torch.Tensor, error) {
					asked = true
					p := torch.Zeros(torch.S(len(c.Observed), g.Classes), torch.Float64)
					torch.NoGrad(func() {
						for _, batch := range epoch.Scoring {
							drawn = batch.Noise
							var b loss.Batch
							s.forward(batch.Rows, &b)
							require.InDeltaSlice(t, slices.Concat(batch.Logits...), flatten(b.Logits), 1e-9)
							p.IndexCopy_(0, at(batch.Rows), b.Logits.Sigmoid())
						}
					})
					return p, nil
				}))
				require.Equal(t, len(epoch.Scoring) > 0, asked)
				require.Equal(t, slices.Concat(epoch.Labels...), torch.ToSlice[int8](table.Labels))
			}
			requireProbes(t, c.Last, named)
		})
	}
}

// TestSMILEImageSteps takes steps of SMILE's image form on the label-wise network beside those of the released one.
func TestSMILEImageSteps(t *testing.T) {
	g := readLatentGolden(t)
	for _, c := range g.Smile {
		t.Run(c.Name, func(t *testing.T) {
			net, named := g.network(t, true)
			set := loss.Values{"theta": c.Theta, "alpha": c.Alpha, "beta": c.Beta}
			none := func(_ torch.Device, shape ...int) *torch.Tensor { return torch.Zeros(shape, torch.Float64) }
			s := g.steps(t, "smile", c.Name, set, c.Observed, net,
				latent.Draws{Random: torch.NewGenerator(c.Seed), Noise: none})
			for _, step := range c.Steps {
				s.Report = func(string, *torch.Tensor) {
					require.InDeltaSlice(t, slices.Concat(step.Logits...), flatten(s.seen.Logits), 1e-9)
					require.InDeltaSlice(t, slices.Concat(step.Alpha...), flatten(s.seen.Alpha), 1e-9)
					require.InDeltaSlice(t, slices.Concat(step.Drawn...), flatten(s.seen.Soft), 1e-9)
				}
				value, err := s.Step(1, step.Rows)
				require.NoError(t, err)
				require.InDelta(t, step.Loss, value, 1e-9)
			}
			requireProbes(t, c.Last, named)
		})
	}
}

func flatten(t *torch.Tensor) []float64 { return torch.ToSlice[float64](t.Detach().Contiguous()) }

// requireProbes compares every trained tensor by a sum with drawn weights and by the sum of its squares.
func requireProbes(t *testing.T, want map[string][2]float64, got nn.StateDict) {
	require.ElementsMatch(t, slices.Collect(maps.Keys(want)), got.Keys())
	for k, w := range want {
		v := flatten(got[k])
		sum, squares := 0.0, 0.0
		for i, p := range goldenfill.Values(k+":probe", len(v), 0, 2) {
			sum, squares = sum+v[i]*p, squares+v[i]*v[i]
		}
		require.InDelta(t, w[0], sum, 1e-8, k)
		require.InDelta(t, w[1], squares, 1e-8*max(1, w[1]), k)
	}
}
