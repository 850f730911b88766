package optim_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

func TestMain(m *testing.M) {
	if err := torch.SetNumThreads(1); err != nil { // the goldens were made with one
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

// array is a tensor in a golden file of testdata/nn.
type array struct {
	Shape []int     `json:"shape"`
	Data  []float64 `json:"data"`
}

func (a array) tensor(d torch.DType) *torch.Tensor {
	return torch.FromSlice(a.Data, a.Shape...).ToDType(d)
}

func (a array) close(t testing.TB, got *torch.Tensor, tol float64, what string) {
	t.Helper()
	require.Equal(t, append([]int{}, a.Shape...), got.Shape(), what)
	largest := 0.0
	for _, v := range a.Data {
		largest = max(largest, math.Abs(v))
	}
	for i, v := range torch.ToSlice[float64](got) {
		if !(math.Abs(v-a.Data[i]) <= tol*largest) {
			t.Fatalf("%s: element %d of %v is %v, PyTorch has %v", what, i, a.Shape, v, a.Data[i])
		}
	}
}

type optimCase struct {
	Name    string `json:"name"`
	Class   string `json:"class"`
	Options struct {
		LR          float64     `json:"lr"`
		WeightDecay *float64    `json:"weight_decay"`
		Momentum    *float64    `json:"momentum"`
		Dampening   *float64    `json:"dampening"`
		Nesterov    bool        `json:"nesterov"`
		Betas       *[2]float64 `json:"betas"`
		Eps         *float64    `json:"eps"`
		AMSGrad     bool        `json:"amsgrad"`
		Maximize    bool        `json:"maximize"`
		Alpha       *float64    `json:"alpha"`
		Centered    bool        `json:"centered"`
		LRDecay     *float64    `json:"lr_decay"`
		Initial     *float64    `json:"initial_accumulator_value"`
	} `json:"options"`
	Mode   string                      `json:"mode"`
	Late   int                         `json:"late"`
	DType  string                      `json:"dtype"`
	Losses []float64                   `json:"losses"`
	After  map[string]map[string]array `json:"after"`
	State  map[string]map[string]array `json:"state"`
	Start  map[string]array            `json:"start"`
	X      array                       `json:"x"`
	Y      array                       `json:"y"`
}

func (c *optimCase) make(first, second []*torch.Tensor) optim.Optimizer {
	o := c.Options
	opts := []optim.Option{optim.LR(o.LR)}
	add := func(v *float64, f func(float64) optim.Option) {
		if v != nil {
			opts = append(opts, f(*v))
		}
	}
	add(o.WeightDecay, optim.WeightDecay)
	add(o.Momentum, optim.Momentum)
	add(o.Dampening, optim.Dampening)
	add(o.Eps, optim.Eps)
	add(o.Alpha, optim.Alpha)
	add(o.LRDecay, optim.LRDecay)
	add(o.Initial, optim.InitialAccumulator)
	if o.Centered {
		opts = append(opts, optim.Centered())
	}
	if o.Betas != nil {
		opts = append(opts, optim.Betas(o.Betas[0], o.Betas[1]))
	}
	if o.Nesterov {
		opts = append(opts, optim.Nesterov())
	}
	if o.AMSGrad {
		opts = append(opts, optim.AMSGrad())
	}
	if o.Maximize {
		opts = append(opts, optim.Maximize())
	}
	var opt optim.Optimizer
	switch c.Class {
	case "SGD":
		opt = optim.NewSGD(first, opts...)
	case "Adam":
		opt = optim.NewAdam(first, opts...)
	case "RMSprop":
		opt = optim.NewRMSprop(first, opts...)
	case "Adamax":
		opt = optim.NewAdamax(first, opts...)
	case "Adagrad":
		opt = optim.NewAdagrad(first, opts...)
	default:
		opt = optim.NewAdamW(first, opts...)
	}
	opt.AddGroup(second, optim.LR(o.LR*5), optim.WeightDecay(0))
	return opt
}

// regression is the problem of testdata/nn/make.py, optim().
type regression struct{ w1, b1, w2, s, x, y *torch.Tensor }

func newRegression(c *optimCase) *regression {
	d := map[string]torch.DType{"float32": torch.Float32, "float64": torch.Float64}[c.DType]
	p := func(k string) *torch.Tensor { return c.Start[k].tensor(d).SetRequiresGrad(true) }
	return &regression{p("w1"), p("b1"), p("w2"), p("s"), c.X.tensor(d), c.Y.tensor(d)}
}

func (r *regression) params() map[string]*torch.Tensor {
	return map[string]*torch.Tensor{"w1": r.w1, "b1": r.b1, "w2": r.w2, "s": r.s}
}

func (r *regression) loss(withS bool) *torch.Tensor {
	out := r.x.Matmul(r.w1.T()).Add(r.b1).Tanh().Matmul(r.w2.T())
	if withS {
		out = out.Mul(r.s)
	}
	return out.Sub(r.y).Square().Mean()
}

// step trains once; scopes and gradients as a user would have them.
func (r *regression) step(opt optim.Optimizer, withS bool) (loss float64) {
	torch.Scope(func(*torch.Arena) {
		opt.ZeroGrad()
		l := r.loss(withS)
		loss = l.Item()
		l.Backward()
		opt.Step()
	})
	return loss
}

func optimCases(t testing.TB) []*optimCase {
	var file struct {
		Cases []*optimCase `json:"cases"`
	}
	golden(t, "optim.json", &file)
	// The problem stands in the last case of its dtype.
	last := map[string]*optimCase{}
	for _, c := range file.Cases {
		if c.Start != nil {
			last[c.DType] = c
		}
	}
	for _, c := range file.Cases {
		c.Start, c.X, c.Y = last[c.DType].Start, last[c.DType].X, last[c.DType].Y
	}
	return file.Cases
}

// TestOptimizers compares 50 steps with torch.optim, its fused and its multi-tensor form: losses, parameters, state; two
// groups, and a parameter whose gradient starts later.
func TestOptimizers(t *testing.T) {
	for _, c := range optimCases(t) {
		t.Run(c.Name+"/"+c.Mode+"/"+c.DType, func(t *testing.T) {
			tol := map[string]float64{"float32": 1e-6, "float64": 1e-12}[c.DType]
			r := newRegression(c)
			opt := c.make([]*torch.Tensor{r.w1, r.b1, r.s}, []*torch.Tensor{r.w2})
			for step := 1; step <= 50; step++ {
				loss := r.step(opt, step >= c.Late)
				require.InEpsilon(t, c.Losses[step-1], loss, 10*tol, "loss of step %d", step)
				for k, a := range c.After[strconv.Itoa(step)] {
					a.close(t, r.params()[k], tol, fmt.Sprintf("%s after step %d", k, step))
				}
			}
			// PyTorch counts parameters over the groups as we do.
			st := opt.StateDict()
			n := 0
			for i, s := range c.State {
				for name, a := range s {
					k := "state." + i + "." + name
					require.Contains(t, st.Tensors, k)
					a.close(t, st.Tensors[k], 20*tol, k)
					n++
				}
			}
			require.Len(t, st.Tensors, n)
		})
	}
}

type mlpRun struct {
	Losses     []float64 `json:"losses"`
	Parameters map[string]struct{ Sum, SumSq float64 }
}

// TestMLP trains the 784-128-128-10 network of testdata/nn/make.py for 50 steps beside PyTorch: to the bit where the
// processor takes the same kernels, else closely.
func TestMLP(t *testing.T) {
	var file struct {
		Seed int64             `json:"seed"`
		Runs map[string]mlpRun `json:"runs"`
	}
	golden(t, "mlp.json", &file)
	makers := map[string]func([]*torch.Tensor) optim.Optimizer{
		"sgd":          func(p []*torch.Tensor) optim.Optimizer { return optim.NewSGD(p, optim.LR(0.01)) },
		"sgd_momentum": func(p []*torch.Tensor) optim.Optimizer { return optim.NewSGD(p, optim.LR(0.01), optim.Momentum(0.9)) },
		"adam":         func(p []*torch.Tensor) optim.Optimizer { return optim.NewAdam(p) },
		"adamw":        func(p []*torch.Tensor) optim.Optimizer { return optim.NewAdamW(p) },
	}
	require.Len(t, file.Runs, 2*len(makers))
	run := func(t *testing.T, kind string, tol float64) (equal int) {
		r := file.Runs[kind]
		require.Len(t, r.Losses, 50)
		torch.ManualSeed(file.Seed)
		m := newMLP()
		x, y := torch.Randn(torch.S(64, 784)), torch.Randint(0, 10, torch.S(64))
		opt := makers[strings.TrimSuffix(kind, "_fused")](nn.Parameters(m))
		for i, want := range r.Losses {
			var loss float64
			torch.Scope(func(*torch.Arena) {
				opt.ZeroGrad()
				l := m.Forward(x).CrossEntropyLoss(y, nil, torch.ReductionMean)
				l.Backward()
				opt.Step()
				loss = l.Item()
			})
			require.False(t, math.IsNaN(loss) || math.IsInf(loss, 0))
			require.InEpsilon(t, want, loss, tol, "loss of step %d", i+1)
			if loss == want {
				equal++
			}
		}
		require.Less(t, r.Losses[49], r.Losses[0])
		for k, p := range nn.NamedParameters(m) {
			require.InEpsilon(t, r.Parameters[k].SumSq, p.ToDType(torch.Float64).Square().Sum().Item(), tol, k)
		}
		t.Logf("%d of %d losses equal to the bit", equal, len(r.Losses))
		return equal
	}
	same := false // whether the kernels are those of the machine that made the file
	for _, kind := range []string{"sgd_fused", "sgd_momentum_fused", "sgd", "sgd_momentum"} {
		t.Run(kind, func(t *testing.T) {
			equal := run(t, kind, 1e-6)
			if kind == "sgd_fused" {
				same = equal == 50
			}
		})
	}
	for _, kind := range []string{"adam_fused", "adamw_fused", "adam", "adamw"} {
		t.Run(kind, func(t *testing.T) {
			switch {
			case !same:
				run(t, kind, 5e-4) // Adam divides gradients near zero by themselves, which amplifies other rounding
			case strings.HasSuffix(kind, "_fused"):
				require.Equal(t, 50, run(t, kind, 1e-6))
			default:
				run(t, kind, 1e-5) // PyTorch's two forms differ by up to 5.5e-6 from each other here
			}
		})
	}
}

func newMLP() nn.Sequential {
	return nn.Sequential{nn.NewLinear(784, 128), nn.ReLU{}, nn.NewLinear(128, 128), nn.ReLU{}, nn.NewLinear(128, 10)}
}
