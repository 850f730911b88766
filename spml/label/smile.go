package label

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// SMILE is the label enhancement of tabular data: an encoder over a graph of feature neighbours gives soft labels
// D = σ(v/T) for all N rows, a decoder reconstructs features, labels and adjacency from them. Each batch takes two
// steps: the classifier's on loss "smile-classifier" with Enhanced labels, then the encoder's on loss "smile-encoder"
// with Reconstruct.
//
// The graph has an edge from each row to its k nearest others. A graph convolution gives row j W·Σ_i x_i/√(k·n_j)
// + b over the n_j rows i that have j among their nearest, and b where there is none: a row does not see itself,
// nor its own nearest. The sums of the first convolution do not change, so a step computes hidden values for the
// rows that point at the batch alone, and has the values and gradients of the whole graph.
//
// Source: Xu et al. 2022 (SMILE), released code, whose graph convolution is DGL's with norm "both", on a dense N×N
// matrix; here the graph is N×k.
type SMILE struct {
	Conv1, Conv2 *nn.Linear // of the sums
	Head         *nn.Linear // of the encoder
	Hidden       *MLP       // of features and labels
	Decoder      *MLP       // of labels and hidden values, to features

	x           *torch.Tensor // [N, F]
	sums        *torch.Tensor // [N, F]: what the first convolution maps
	near        []int64       // [N, k]: the nearest of each row
	into        [][]int64     // of each row: the rows that have it among their nearest
	k           int
	temperature float64
	random      *torch.Generator
}

// MLP is two linear layers with a ReLU between.
type MLP struct{ In, Out *nn.Linear }

// Forward maps [*, in] to [*, out].
func (m *MLP) Forward(x *torch.Tensor) *torch.Tensor { return m.Out.Forward(m.In.Forward(x).Relu()) }

// NewSMILE makes graph and networks for features x [N, F], float32, and a number of classes. k is 3 and T is 1 in the code.
// Initial values and draws come from g; nil is the default generator.
func NewSMILE(x *torch.Tensor, classes, k int, temperature float64, g *torch.Generator) (*SMILE, error) {
	if err := matrix("features", x); err != nil {
		return nil, err
	}
	n, f := x.Size(0), x.Size(1)
	if classes < 1 || k < 1 || k >= n || !(temperature > 0) {
		return nil, fmt.Errorf("label: SMILE with %d classes, %d neighbours of %d rows, T %v", classes, k, n, temperature)
	}
	s := &SMILE{temperature: temperature, random: g, k: k}
	err := build(func(a *torch.Arena) {
		s.x = a.Keep(x.Detach().Clone())
		s.near = torch.ToSlice[int64](nearest(s.x, k))
		s.into = make([][]int64, n)
		for at, j := range s.near {
			s.into[j] = append(s.into[j], int64(at/k))
		}
		s.sums = a.Keep(s.neighbourSums())
		d := []nn.Option{nn.DType(x.DType())}
		if g != nil {
			d = append(d, nn.Generator(g))
		}
		mlp := func(in, mid, out int) *MLP { return &MLP{nn.NewLinear(in, mid, d...), nn.NewLinear(mid, out, d...)} }
		conv := func(in, out int) *nn.Linear { // with DGL's initial values
			l := nn.NewLinear(in, out, d...)
			nn.XavierUniform_(l.Weight, 1, g)
			nn.Zeros_(l.Bias)
			return l
		}
		s.Conv1, s.Conv2, s.Head = conv(f, classes), conv(classes, classes), nn.NewLinear(classes, classes, d...)
		s.Hidden, s.Decoder = mlp(f+classes, classes, classes), mlp(2*classes, f, f)
		nn.ToDevice(s, x.Device()) // drawn on the CPU: the same numbers on every device
		a.Keep(s.Parameters()...)
	})
	return s, err
}

// nearest gives the k nearest other rows of each row, a block of rows at a time.
func nearest(x *torch.Tensor, k int) *torch.Tensor {
	const block = 1024
	n := x.Size(0)
	var all *torch.Tensor
	torch.NoGrad(func() {
		torch.Scope(func(a *torch.Arena) {
			var parts []*torch.Tensor
			for at := 0; at < n; at += block {
				end := min(at+block, n)
				torch.Scope(func(b *torch.Arena) {
					d := torch.Cdist(x.Slice(0, at, end, 1), x, 2)
					self := torch.Arange(int64(at), int64(end), int64(1), torch.Int64, d.Device()).Unsqueeze(1)
					_, near := d.ScatterValue(1, self, 3e38).Topk(k, 1, false, true)
					parts = append(parts, b.Keep(near))
				})
			}
			all = a.Keep(torch.Cat(parts, 0))
		})
	})
	return all
}

// scale is what the sum over the rows that point at a row is multiplied by.
func (s *SMILE) scale(row int) float64 { return 1 / math.Sqrt(float64(s.k*max(len(s.into[row]), 1))) }

// neighbourSums are what the first convolution maps, a block of rows at a time; on the CPU, so that the order of the
// sums is the same on every device.
func (s *SMILE) neighbourSums() *torch.Tensor {
	const block = 4096
	x, n := s.x.ToDevice(torch.CPU), s.x.Size(0)
	sums := torch.Zeros(x.Shape(), x.DType())
	scales := make([]float64, n)
	for at := 0; at < n; at += block {
		end := min(at+block, n)
		torch.Scope(func(*torch.Arena) {
			to := torch.FromSlice(s.near[at*s.k : end*s.k])
			sums.IndexAdd_(0, to, x.Slice(0, at, end, 1).RepeatInterleave(s.k, 0))
		})
	}
	for i := range scales {
		scales[i] = s.scale(i)
	}
	return sums.Mul(torch.FromSlice(scales, n, 1).ToDType(x.DType())).ToDevice(s.x.Device())
}

// Parameters are those of all networks.
func (s *SMILE) Parameters() []*torch.Tensor { return nn.Parameters(s) }

// Encode gives the encoder's logits v [len(rows), C] of some rows, as the graph of all rows makes them.
func (s *SMILE) Encode(rows []int) (v *torch.Tensor, err error) {
	if err := inTable(rows, s.x.Size(0)); err != nil {
		return nil, err
	}
	var from, to []int64 // edges into the rows: from a row of the table, to a place in rows
	scales := make([]float64, len(rows))
	for i, r := range rows {
		scales[i] = s.scale(r)
		for _, j := range s.into[r] {
			from, to = append(from, j), append(to, int64(i))
		}
	}
	err = torch.Try(func() {
		d := s.x.Device()
		sum := torch.Zeros(torch.S(len(rows), s.Conv1.OutFeatures), s.x.DType(), d)
		if len(from) > 0 {
			h := s.Conv1.Forward(s.sums.IndexSelect(0, torch.Upload(d, from))).Relu()
			sum = sum.IndexAdd(0, torch.Upload(d, to), h)
		}
		v = s.Head.Forward(s.Conv2.Forward(sum.Mul(torch.Upload(d, scales, len(rows), 1).ToDType(s.x.DType()))))
	})
	return v, err
}

// Enhanced are the soft labels D = σ(v/T) of some rows' logits.
func (s *SMILE) Enhanced(v *torch.Tensor) (d *torch.Tensor, err error) {
	err = torch.Try(func() { d = v.DivScalar(s.temperature).Sigmoid() })
	return d, err
}

// Reconstruct decodes the rows with encoder logits v [len(rows), C]: ŷ is drawn from Beta(D+1e-5, 1-D+1e-5), whose gradient is the
// implicit one; x̂ from D and the hidden values; Â = ŷ·ŷᵀ.
func (s *SMILE) Reconstruct(rows []int, v *torch.Tensor) (r *loss.Reconstruction, err error) {
	ids, err := index(rows, s.x)
	if err != nil {
		return nil, err
	}
	adjacent := make([]float64, len(rows)*len(rows))
	places := make(map[int64][]int, len(rows))
	for j, b := range rows {
		places[int64(b)] = append(places[int64(b)], j)
	}
	for i, a := range rows {
		for _, b := range s.near[a*s.k : (a+1)*s.k] {
			for _, j := range places[b] {
				adjacent[i*len(rows)+j] = 1
			}
		}
	}
	err = torch.Try(func() {
		d := v.DivScalar(s.temperature).Sigmoid()
		x := s.x.IndexSelect(0, ids)
		hidden := s.Hidden.Forward(torch.Cat([]*torch.Tensor{x, d}, 1))
		y := SampleBeta(d.AddScalar(1e-5), d.RsubScalar(1).AddScalar(1e-5), s.random)
		r = &loss.Reconstruction{
			X: x, XRec: s.Decoder.Forward(torch.Cat([]*torch.Tensor{d, hidden}, 1)), YRec: y,
			A: torch.FromSlice(adjacent, len(rows), len(rows)).ToDType(x.DType()).Send(x.Device()), ARec: y.Matmul(y.T()),
		}
	})
	return r, err
}

// SampleBeta draws from Beta(a, b) elementwise with g, nil being the default generator; gradients reach a and b. On a
// device its own generator draws, in place of g: the draw depends on a and b, and for the CPU's all work before would
// be
// waited for. The draw is the first component of a Dirichlet, its derivatives by a and b those of torch.distributions
// (Figurnov et al. 2018).
func SampleBeta(a, b *torch.Tensor, g *torch.Generator) *torch.Tensor {
	if a.Device().Type != torch.DeviceCPU {
		g = nil
	}
	var draw, da, db *torch.Tensor
	torch.NoGrad(func() {
		c := torch.Stack([]*torch.Tensor{a, b}, -1)
		x := torch.Call("aten::_sample_dirichlet", c, g)[0].(*torch.Tensor)
		slope := dirichletGrad(x, c)
		draw = x.Select(-1, 0)
		da, db = slope.Select(-1, 0).Mul(draw.RsubScalar(1)), slope.Select(-1, 1).Mul(draw.Neg())
	})
	return draw.Add(da.Mul(a.Sub(a.Detach()))).Add(db.Mul(b.Sub(b.Detach())))
}

func dirichletGrad(x, c *torch.Tensor) *torch.Tensor {
	total := c.SumDim([]int{-1}, true).ExpandAs(c).Contiguous()
	return torch.Call("aten::_dirichlet_grad", x, c, total)[0].(*torch.Tensor)
}

// State holds the parameters by name; the graph is made of the features again.
func (s *SMILE) State() State { return State{Tensors: nn.StateDictOf(s)} }

// LoadState restores them.
func (s *SMILE) LoadState(st State) error {
	_, err := nn.LoadStateDict(s, nn.StateDict(st.Tensors), true)
	return err
}
