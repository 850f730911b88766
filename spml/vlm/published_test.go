package vlm_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/internal/papers"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/vlm"
	"github.com/gospml/gospml/torch"
)

// The published numbers are those that the papers print.
func TestPublishedNumbers(t *testing.T) {
	index, err := papers.ByKey()
	require.NoError(t, err)
	for _, d := range vlm.DataSets() {
		for _, form := range []string{vlm.Default, vlm.Paper} {
			v, err := vlm.Published(vlm.VLPL, d, form)
			require.NoError(t, err)
			a, err := vlm.Published(vlm.DAMP, d, form)
			require.NoError(t, err)
			for key, x := range map[string]float64{
				"vlpl Sec. 4.7: temperature tau": v.Tau, "vlpl Sec. 4.7: threshold theta": v.Theta,
				"aevlp Table 3: nu": a.Nu, "aevlp Table 3: k": float64(a.TopK),
				"aevlp Table 3: zeta_global": a.Theta, "aevlp Table 3: tau": a.Tau,
			} {
				require.NoError(t, papers.Check(index, "paper", "", key, x, d))
			}
		}
		g, err := loss.Lookup("gpr")
		require.NoError(t, err)
		p, err := g.ResolveForm(d, nil, "paper")
		require.NoError(t, err)
		for name, key := range map[string]string{
			"w0": "w(0), b(0)", "b0": "w(0), b(0)", "wT": "w(T), b(T)",
			"bT": "w(T), b(T)", "mu0": "mu(0), sigma(0)", "sigma0": "mu(0), sigma(0)",
			"muT": "mu(T), sigma(T)", "sigmaT": "mu(T), sigma(T)", "q3": "q1",
			"q2": "q2", "rho": "q3", "lam_lo": "lambda_1, lambda_2", "lam_hi": "lambda_1, lambda_2", "eta": "eta",
		} {
			require.NoError(t, papers.Check(index, "paper", "", "aevlp Table 3: "+key, p[name], d), "%s %s", d, name)
		}
	}
}

// The printed form reaches the label graph and the prompts.
func TestPrintedForm(t *testing.T) {
	v, err := vlm.Published(vlm.VLPL, "voc", vlm.Paper)
	require.NoError(t, err)
	require.Equal(t, []string{"A photo of {name}"}, v.Templates)
	for d, tau := range map[string]float64{"voc": 0.3, "coco": 0.2, "nus": 0.2, "cub": 0.3} {
		a, err := vlm.Published(vlm.DAMP, d, vlm.Paper)
		require.NoError(t, err)
		require.Equal(t, []string{"a photo of a {name}"}, a.Templates)
		require.True(t, a.Star && a.Last && a.GraphTau == tau, d)
		b, err := vlm.Published(vlm.DAMP, d, vlm.Code)
		require.NoError(t, err)
		require.False(t, b.Star || b.Last, d)
	}
	require.ErrorContains(
		t,
		(vlm.Settings{Method: vlm.DAMP, Tau: 1, Batch: 1, Templates: []string{"{}"},
			Preprocess: "squash", Grid: 1, TopK: 1, Star: true}).Check(),
		"τ′",
	)
	m := model(t)
	raw := torch.Randn(torch.S(len(shapes.Classes), m.Config().EmbedDim), torch.NewGenerator(3))
	path := filepath.Join(t.TempDir(), "text.npy")
	a, err := npy.New([]int64{int64(raw.Size(0)), int64(raw.Size(1))}, torch.ToSlice[float32](raw))
	require.NoError(t, err)
	require.NoError(t, npy.Write(path, a))
	unit := raw.Div(raw.Square().SumDim([]int{1}, true).Sqrt())
	g, err := label.NewGraph(unit.Matmul(unit.T()), label.GraphConfig{TopU: len(shapes.Classes), Weight: 0.2, Tau: 0.3})
	require.NoError(t, err)
	for _, printed := range []bool{true, false} {
		s, err := vlm.Published(vlm.DAMP, "voc", map[bool]string{true: vlm.Paper, false: vlm.Code}[printed])
		require.NoError(t, err)
		s.Seed, s.TextFeatures = 7, path
		l, err := vlm.New(t.Context(), m, shapes.Classes[:], s)
		require.NoError(t, err)
		got, err := l.Text()
		require.NoError(t, err)
		net, err := label.NewGraphNoise(raw.Size(1), 1024, 7, printed)
		require.NoError(t, err)
		graph := g.Bar
		if printed {
			graph = g.Star
		}
		_, want, err := net.Noise(graph, raw)
		require.NoError(t, err)
		require.InDeltaSlice(t, torch.ToSlice[float32](want), got, 1e-6)
	}
}
