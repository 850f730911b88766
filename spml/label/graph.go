package label

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/torch"
)

// GraphConfig are the numbers of AEVLP's label graph.
type GraphConfig struct {
	TopU   int     // u, entries that stay in a row, the class itself among them
	Weight float64 // e, what the neighbours share; the class keeps 1 - e
	Tau    float64 // τ′, temperature of A*
}

// Graph holds the matrices of the label graph, [C, C].
type Graph struct {
	Sparse *torch.Tensor // A′, the u largest similarities of each row
	Bar    *torch.Tensor // Ā, rows that sum to 1: 1 - e on the diagonal; the released code multiplies with it
	Star   *torch.Tensor // A*, the row softmax of Ā/τ′ over its non-zero entries; the paper multiplies with it
}

// NewGraph makes the label graph from the similarities of classes [C, C], cosines of their texts. Ties go to the lower class.
//
// A′ keeps the u largest entries of each row; Ā has its off-diagonal entries scaled to the sum e and 1 - e on the diagonal; a class
// without a neighbour keeps 1 - e alone.
//
// Source: Tran et al. 2025 (AEVLP), supplement and released code; Ding et al. 2023 (SCPNet).
func NewGraph(similarity *torch.Tensor, c GraphConfig) (*Graph, error) {
	if err := matrix("similarities", similarity); err != nil {
		return nil, err
	}
	if n := similarity.Size(0); similarity.Size(1) != n || c.TopU < 1 || c.TopU > n || !(c.Weight >= 0 && c.Weight <= 1) || !(c.Tau > 0) {
		return nil, fmt.Errorf("label: the label graph wants similarities [C, C], 1 ≤ u ≤ C, e in [0, 1], τ′ > 0; got %v, u = %d, e = %v, τ′ = %v",
			similarity.Shape(), c.TopU, c.Weight, c.Tau)
	}
	g := &Graph{}
	err := torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(s *torch.Arena) {
				n := similarity.Size(0)
				_, order := similarity.SortStable(true, 1, true)
				kept := torch.Zeros(similarity.Shape(), torch.Bool, similarity.Device()).ScatterValue(1, order.Slice(1, 0, c.TopU, 1), true)
				g.Sparse = similarity.MaskedFill(kept.LogicalNot(), 0)
				self := torch.Eye(n, torch.Bool, similarity.Device())
				others := g.Sparse.MaskedFill(self, 0)
				sum := others.SumDim([]int{1}, true)
				g.Bar = torch.Where(sum.EqScalar(0), others, others.Div(sum).MulScalar(c.Weight)).MaskedFill(self, 1-c.Weight)
				g.Star = g.Bar.DivScalar(c.Tau).MaskedFill(g.Bar.EqScalar(0), math.Inf(-1)).Softmax(1)
				s.Keep(g.Sparse, g.Bar, g.Star)
			})
		})
	})
	return g, err
}

// GraphNoise is AEVLP's frozen random graph network over text features: three layers H ← A·(H·W) with LeakyReLU (slope 0.2) between them.
//
// Source: Tran et al. 2025, supplement; the paper has the activation after the last layer too and A* for A.
type GraphNoise struct {
	Weights [3]*torch.Tensor // [K, H], [H, H], [H, K]
	Paper   bool             // activation after the last layer too
}

// NewGraphNoise draws the weights from U(±1/√d_out): k is the width of the text features, hidden that between the layers (1024 in the released
// code). The same seed gives the same noise.
func NewGraphNoise(k, hidden int, seed int64, paper bool) (*GraphNoise, error) {
	if k < 1 || hidden < 1 {
		return nil, fmt.Errorf("label: graph noise wants widths above 0, got %d and %d", k, hidden)
	}
	n := &GraphNoise{Paper: paper}
	err := build(func(s *torch.Arena) {
		g := torch.NewGenerator(seed)
		for i, d := range [3][2]int{{k, hidden}, {hidden, hidden}, {hidden, k}} {
			bound := 1 / math.Sqrt(float64(d[1]))
			n.Weights[i] = torch.Empty(torch.S(d[0], d[1])).Uniform_(-bound, bound, g)
		}
		s.Keep(n.Weights[:]...)
	})
	return n, err
}

// Noise is the network's output for text features h [C, K] over a graph a [C, C]; text the normalised sum of both, which is what
// images are compared with.
func (n *GraphNoise) Noise(a, h *torch.Tensor) (noise, text *torch.Tensor, err error) {
	if err := matrix("text features", h); err != nil {
		return nil, nil, err
	}
	if a == nil || a.Dim() != 2 || a.Size(0) != h.Size(0) || a.Size(1) != h.Size(0) || h.Size(1) != n.Weights[0].Size(0) {
		return nil, nil, fmt.Errorf("label: graph noise wants a graph [%d, %d] and text features of width %d, got %v", h.Size(0), h.Size(0), n.Weights[0].Size(0), h.Shape())
	}
	err = torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(s *torch.Arena) {
				var w [3]*torch.Tensor
				for i := range w {
					w[i] = n.Weights[i].ToDeviceDType(h.Device(), h.DType())
				}
				x := ConvolveGraph(a, h, w[:]...)
				if n.Paper {
					x = x.LeakyRelu(graphSlope)
				}
				noise, text = x, unitRows(h.Add(x))
				s.Keep(noise, text)
			})
		})
	})
	return noise, text, err
}

// graphSlope is that of the activations.
const graphSlope = 0.2

// ConvolveGraph passes rows h [C, K] through layers X ← A·X·W over a graph a [C, C], with LeakyReLU (slope 0.2)
// between
// them. Autograd can differentiate it.
func ConvolveGraph(a, h *torch.Tensor, weights ...*torch.Tensor) *torch.Tensor {
	for i, w := range weights {
		if i > 0 {
			h = h.LeakyRelu(graphSlope)
		}
		h = a.Matmul(h.Matmul(w))
	}
	return h
}

// unitRows divides the rows of x [*, D] by their Euclidean norms.
func unitRows(x *torch.Tensor) *torch.Tensor {
	return x.Div(x.Square().SumDim([]int{-1}, true).Sqrt())
}
