package label_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/torchtest"
)

type pseudoCase struct {
	Cos                     [][]float64
	Tiles                   [][][]float64
	Observed, Labels        [][]int8
	Tau, Theta, Delta, Nu   float64
	Zeta                    float64
	K, U                    int
	Form                    string
	P, Final                [][]float64
	S, Sparse, Bar, Star, A [][]float64
	E                       float64
	H, Noise, Text          [][]float64
	Weights                 [][][]float64
	Paper                   bool
}

func rows[T torch.Element](m [][]T) *torch.Tensor {
	var flat []T
	for _, r := range m {
		flat = append(flat, r...)
	}
	return torch.FromSlice(flat, len(m), len(m[0]))
}

// Labels are exactly those of numpy's transcription, scores to 1e-6, in float32 and float64: random cases of several shapes, one class, one tile, equal scores.
func TestPseudoLabelsAgainstNumpy(t *testing.T) {
	b, err := os.ReadFile(testroot.Testdata("label", "pseudo.json"))
	require.NoError(t, err)
	var cases map[string][]pseudoCase
	require.NoError(t, json.Unmarshal(b, &cases))
	for _, dtype := range []torch.DType{torch.Float32, torch.Float64} {
		near := func(got *torch.Tensor, want [][]float64) {
			t.Helper()
			torchtest.AllClose(t, got.ToDType(torch.Float64), rows(want), 0, 1e-6)
		}
		in := func(m [][]float64) *torch.Tensor { return rows(m).ToDType(dtype) }
		torch.Scope(func(*torch.Arena) {
			for i, c := range cases["vlpl"] {
				got, p, err := label.VLPL(in(c.Cos), c.Tau, c.Theta, c.Delta)
				require.NoError(t, err)
				require.Equal(t, torch.ToSlice[int8](rows(c.Labels)), torch.ToSlice[int8](got), "vlpl %d %v", i, dtype)
				near(p, c.P)
				got, p, err = label.ComposedVLPL(in(c.Cos), c.Tau, c.Theta, c.Delta)
				require.NoError(t, err)
				require.Equal(t, torch.ToSlice[int8](rows(c.Labels)), torch.ToSlice[int8](got), "composed vlpl %d %v", i, dtype)
				near(p, c.P)
			}
			for i, c := range cases["damp"] {
				var tiles []*torch.Tensor
				for _, m := range c.Tiles {
					tiles = append(tiles, in(m))
				}
				r, err := label.DAMP(in(c.Cos), torch.Stack(tiles, 0), rows(c.Observed), label.DAMPConfig{Tau: c.Tau, Nu: c.Nu, TopK: c.K, Zeta: c.Zeta, Negative: c.Delta, Form: label.DAMPForm(c.Form)})
				require.NoError(t, err)
				require.Equal(t, torch.ToSlice[int8](rows(c.Labels)), torch.ToSlice[int8](r.Pseudo), "damp %d %v %v", i, c.Form, dtype)
				near(r.Final, c.Final)
				r, err = label.ComposedDAMP(in(c.Cos), torch.Stack(tiles, 0), rows(c.Observed), label.DAMPConfig{Tau: c.Tau, Nu: c.Nu, TopK: c.K, Zeta: c.Zeta, Negative: c.Delta, Form: label.DAMPForm(c.Form)})
				require.NoError(t, err)
				require.Equal(t, torch.ToSlice[int8](rows(c.Labels)), torch.ToSlice[int8](r.Pseudo), "composed damp %d %v %v", i, c.Form, dtype)
				near(r.Final, c.Final)
			}
			for _, c := range cases["graph"] {
				g, err := label.NewGraph(in(c.S), label.GraphConfig{TopU: c.U, Weight: c.E, Tau: c.Tau})
				require.NoError(t, err)
				near(g.Sparse, c.Sparse)
				near(g.Bar, c.Bar)
				near(g.Star, c.Star)
			}
			for _, c := range cases["noise"] {
				n := label.GraphNoise{Paper: c.Paper}
				for i, w := range c.Weights {
					n.Weights[i] = in(w)
				}
				noise, text, err := n.Noise(in(c.A), in(c.H))
				require.NoError(t, err)
				if dtype == torch.Float64 {
					near(noise, c.Noise)
				}
				near(text, c.Text)
			}
		})
	}
}
