package backbone_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

func TestMain(m *testing.M) {
	if err := torch.SetNumThreads(1); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// live counts the tensors after the garbage of earlier tests has been given back.
func live() int {
	for range 2 {
		runtime.GC()
		time.Sleep(5 * time.Millisecond) // cleanups run beside it
	}
	return torch.Live()
}

func golden(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(testroot.Testdata("nn", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into))
}

type trainStep struct {
	Loss       float64              `json:"loss"`
	Logits     summary              `json:"logits"`
	GradNorm   map[string]float64   `json:"gradient_norm_per_group"`
	GradTotal  float64              `json:"gradient_norm_total"`
	Statistics map[string]statistic `json:"running_statistics"`
}

// check runs loss = mean(logits·g) and compares everything that the golden has; group maps a key to its group.
func (s *trainStep) check(t *testing.T, m backbone.Model, name string, x *torch.Tensor, d torch.DType, group func(string) string) {
	t.Helper()
	tol, gradTol := 1e-8, 1e-6
	if d == torch.Float32 {
		tol, gradTol = 5e-4, 2e-3
	}
	torch.Scope(func(*torch.Arena) {
		y := m.Forward(x)
		s.Logits.check(t, y, tol, 0, "logits")
		g := det("input:"+name+":grad", 0, 2, y.Shape()...).ToDType(torch.Float32).ToDType(d)
		loss := y.Mul(g).Mean()
		require.InDelta(t, s.Loss, loss.Item(), tol*s.Logits.AbsMax)
		loss.Backward()
	})
	norms, total := map[string]float64{}, 0.0
	for k, p := range nn.NamedParameters(m) {
		torch.Scope(func(*torch.Arena) {
			n := p.Grad().ToDType(torch.Float64).Square().Sum().Item()
			norms[group(k)] += n
			total += n
		})
	}
	require.Len(t, norms, len(s.GradNorm))
	for k, n := range s.GradNorm {
		require.InEpsilon(t, n, math.Sqrt(norms[k]), gradTol, "gradient norm of %s", k)
	}
	if s.GradTotal != 0 {
		require.InEpsilon(t, s.GradTotal, math.Sqrt(total), gradTol)
	}
	sd := nn.StateDictOf(m)
	require.NotEmpty(t, s.Statistics)
	for k, st := range s.Statistics {
		require.Contains(t, sd, k)
		st.check(t, sd[k], tol, k)
	}
}

func topGroup(key string) string { g, _, _ := strings.Cut(key, "."); return g }

type goldenModel struct {
	Name       string  `json:"name"`
	Keys       keyList `json:"state_dict"`
	EvalLogits struct {
		Summary summary `json:"summary"`
		Top5    []int   `json:"row0_argsort_top5"`
	} `json:"eval_logits"`
	EvalFeatures struct {
		Map    *summary `json:"map"`
		Layer4 *summary `json:"layer4_map"`
		Pooled summary  `json:"pooled"`
	} `json:"eval_features"`
	AbsMax float64    `json:"output_abs_max"`
	Train  *trainStep `json:"train"`
}

var precisions = map[string]torch.DType{"float64": torch.Float64, "float32": torch.Float32}

// TestGoldenBackbones compares torchvision's models with golden_backbones.json: keys and shapes, outputs in evaluation
// mode, one training step.
func TestGoldenBackbones(t *testing.T) {
	var file struct {
		Models   []goldenModel      `json:"models"`
		KeyLists map[string]keyList `json:"key_lists_of_full_models"`
	}
	golden(t, "golden_backbones.json", &file)
	checked := 0
	for _, g := range file.Models {
		lib, name, _ := strings.Cut(g.Name, "/")
		if lib != "torchvision" || name != "mobilenet_v2" && !strings.HasPrefix(name, "resnet") {
			continue
		}
		checked++
		for precision, d := range precisions {
			t.Run(name+"/"+precision, func(t *testing.T) { checkGolden(t, g, name, d) })
		}
	}
	require.Equal(t, 3, checked)
	for key, name := range map[string]string{"torchvision/resnet50_1000": "resnet50", "torchvision/mobilenet_v2_1000": "mobilenet_v2"} {
		t.Run("keys/"+name, func(t *testing.T) {
			m, err := backbone.New(name, 1000, nn.NoInit())
			require.NoError(t, err)
			require.Contains(t, file.KeyLists, key)
			file.KeyLists[key].check(t, m)
		})
	}
}

func checkGolden(t *testing.T, g goldenModel, name string, d torch.DType) {
	tol := 1e-8
	if d == torch.Float32 {
		tol = 5e-4
	}
	m, err := backbone.New(name, 10, nn.NoInit())
	require.NoError(t, err)
	g.Keys.check(t, m)
	fill(m, torch.Float32, byFanIn)
	nn.ToDType(m, d)
	x := det("input:"+g.Name, 0, 4, 2, 3, 64, 64).ToDType(torch.Float32).ToDType(d)

	nn.SetTraining(m, false)
	torch.Inference(func() {
		torch.Scope(func(*torch.Arena) {
			y := m.Forward(x)
			g.EvalLogits.Summary.check(t, y, tol, g.AbsMax, "logits")
			_, top := y.Select(0, 0).Topk(5, 0, true, true)
			for i, c := range torch.ToSlice[int64](top) {
				require.Equal(t, g.EvalLogits.Top5[i], int(c))
			}
			fm := g.EvalFeatures.Map
			if fm == nil {
				fm = g.EvalFeatures.Layer4
			}
			fm.check(t, m.FeatureMap(x), tol, 0, "feature map")
			f := m.Features(x)
			g.EvalFeatures.Pooled.check(t, f, tol, 0, "features")
			require.True(t, m.Head().Forward(f).Equal(y))
			require.Equal(t, f.Size(1), m.FeatureDim())
		})
	})
	if g.Train == nil {
		return
	}
	nn.SetTraining(m, true)
	nn.SetDropout(m, 0)
	g.Train.check(t, m, g.Name, x, d, topGroup)
}

// TestTrainSteps compares a training step of the models that golden_backbones.json has none of with torchvision, with
// batch normalisation in training mode and frozen (testdata/nn/make.py).
func TestTrainSteps(t *testing.T) {
	var file struct {
		Train map[string]*trainStep `json:"train"`
	}
	golden(t, "vision.json", &file)
	require.Len(t, file.Train, 6)
	for key, s := range file.Train {
		name, mode, _ := strings.Cut(key, "/")
		for precision, d := range precisions {
			t.Run(key+"/"+precision, func(t *testing.T) {
				m, err := backbone.New(name, 5, nn.NoInit())
				require.NoError(t, err)
				fill(m, torch.Float32, byFanIn)
				if strings.HasPrefix(name, "resnet") { // residual branches are damped, as make.py says
					torch.NoGrad(func() {
						for k, p := range nn.NamedParameters(m) {
							if strings.HasSuffix(k, "bn3.weight") || strings.HasSuffix(k, "bn2.weight") {
								p.Copy_(det(k, 0.5, 0.5, p.Shape()...))
							}
						}
					})
				}
				nn.ToDType(m, d)
				nn.SetDropout(m, 0)
				nn.FreezeBatchNorm(m, mode == "frozen")
				x := det("input:torchvision/"+name, 0, 4, 4, 3, 64, 64).ToDType(torch.Float32).ToDType(d)
				group := topGroup
				if name == "mobilenet_v2" {
					group = func(k string) string {
						p := strings.SplitN(k, ".", 3)
						if p[0] == "features" {
							return p[0] + "." + p[1]
						}
						return p[0]
					}
				}
				s.check(t, m, "torchvision/"+name, x, d, group)
			})
		}
	}
}

// TestBottleneckGolden is backbones.resnet_bottleneck_1111 of golden_models.json: one bottleneck a layer.
func TestBottleneckGolden(t *testing.T) {
	var file struct {
		G struct {
			Map     []int       `json:"feature_map_shape"`
			Pooled8 []float64   `json:"pooled_first8"`
			L2      float64     `json:"pooled_l2"`
			Logits  [][]float64 `json:"logits"`
		} `json:"resnet_bottleneck_1111"`
	}
	golden(t, "golden_resnet_1111.json", &file)
	for precision, d := range precisions {
		tol := map[torch.DType]float64{torch.Float64: 1e-8, torch.Float32: 1e-4}[d]
		m := backbone.NewResNet(backbone.Bottlenecks, [4]int{1, 1, 1, 1}, 3, nn.NoInit())
		nn.ToDType(m, d)
		fill(m, d, func(string, []int) float64 { return 0.5 })
		nn.SetTraining(m, false)
		x := det("input:resnet", 0, 4, 1, 3, 64, 64).ToDType(d)
		require.Equal(t, file.G.Map, m.FeatureMap(x).Shape())
		f := torch.ToSlice[float64](m.Features(x))
		l2, largest := 0.0, 0.0
		for _, v := range f {
			l2, largest = l2+v*v, max(largest, v)
		}
		require.InEpsilon(t, file.G.L2, math.Sqrt(l2), tol, precision)
		for i, v := range file.G.Pooled8 {
			require.InDelta(t, v, f[i], tol*largest, precision)
		}
		for i, v := range torch.ToSlice[float64](m.Forward(x)) {
			require.InEpsilon(t, file.G.Logits[0][i], v, tol, precision)
		}
	}
}

// TestInitialWeights compares New under torch.manual_seed(0) with torchvision's constructors: values and the next draw.
func TestInitialWeights(t *testing.T) {
	var file struct {
		Initial map[string]struct {
			Tensors    map[string]summary `json:"tensors"`
			Next       []float64          `json:"next_draw"`
			Sum        float64            `json:"sum"`
			SumSq      float64            `json:"sumsq"`
			Parameters int                `json:"parameters"`
		} `json:"initial"`
	}
	golden(t, "vision.json", &file)
	for name, g := range file.Initial {
		torch.ManualSeed(0)
		m, err := backbone.New(name, 7)
		require.NoError(t, err)
		next := torch.ToSlice[float64](torch.Rand(torch.S(3)))
		require.Equal(t, g.Next, next, "%s draws as many numbers as torchvision", name)
		require.Equal(t, g.Parameters, nn.CountParameters(m))
		sd := nn.StateDictOf(m)
		sum, sumsq := 0.0, 0.0
		for _, x := range sd {
			for _, v := range torch.ToSlice[float64](x) {
				sum, sumsq = sum+v, sumsq+v*v
			}
		}
		require.InDelta(t, g.Sum, sum, 1e-6, name)
		require.InEpsilon(t, g.SumSq, sumsq, 1e-11, name)
		for k, s := range g.Tensors {
			x := sd[k]
			require.Equal(t, s.First, torch.ToSlice[float64](x)[:len(s.First)], "%s %s", name, k)
			s.check(t, x, 1e-12, 0, name+" "+k)
		}
	}
	require.Len(t, file.Initial, 4)
}
