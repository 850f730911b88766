package loss_test

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/losstest"
	"github.com/gospml/gospml/third_party/native"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/torchtest"
)

// Where no factor is taken as constant, finite differences see the fused loss as autograd does.
func TestFusedGradcheck(t *testing.T) {
	for _, id := range []string{"an", "an-ls", "n-ls", "bce", "bce-ls", "dw", "em", "em-apl", "en", "entmin", "focal", "hill", "iun", "splc", "wan"} {
		for _, eps := range []float64{0, 1e-3} {
			e, err := loss.Lookup(id)
			require.NoError(t, err)
			l, err := e.Make("voc", nil, loss.Options{Impl: loss.Fused, LogEps: eps})
			require.NoError(t, err)
			b, leaves, _ := losstest.Batch(e, losstest.Shape{B: 3, C: 4, DType: torch.Float64, Seed: 21, Observed: losstest.Mixed})
			torchtest.Gradcheck(t, func(in []*torch.Tensor) *torch.Tensor {
				now := b
				now.Logits = in[0]
				v, err := l.Value(now)
				require.NoError(t, err)
				return v
			}, leaves[:1], torchtest.Atol(1e-8), torchtest.Rtol(1e-5))
		}
	}
	l, err := loss.New("asl", "voc", loss.Values{"detach_weight": 0, "gamma_pos": 1.5, "gamma_neg": 3}, loss.Options{Impl: loss.Fused})
	require.NoError(t, err)
	z := torch.FromSlice([]float64{-3, -1, 0.5, 2, 4, -0.2}, 2, 3).SetRequiresGrad(true)
	torchtest.Gradcheck(t, func(in []*torch.Tensor) *torch.Tensor {
		v, err := l.Value(loss.Batch{Logits: in[0], Observed: torch.FromSlice([]int8{1, 0, 0, 0, 0, 1}, 2, 3)})
		require.NoError(t, err)
		return v
	}, []*torch.Tensor{z}, torchtest.Atol(1e-8), torchtest.Rtol(1e-5))
}

// 4096 x 5000 in one call is the mean of its parts, and its last rows are what the composed form says.
func TestFusedLarge(t *testing.T) {
	const rows, classes, parts = 4096, 5000, 16
	torch.Scope(func(*torch.Arena) {
		z := torch.Rand(torch.S(rows, classes), torch.Float32)
		z.Mul_(torch.Full(torch.S(1), 8)).Sub_(torch.Full(torch.S(1), 5))
		y := torch.Zeros(torch.S(rows, classes), torch.Int8)
		y.Select(1, 7).Fill_(1)
		l, err := loss.New("em", "coco", nil, loss.Options{Impl: loss.Fused})
		require.NoError(t, err)
		whole, g, err := loss.ValueGrad(l, loss.Batch{Logits: z, Observed: y})
		require.NoError(t, err)
		sum := 0.0
		for i := range parts {
			torch.Scope(func(*torch.Arena) {
				from, to := i*rows/parts, (i+1)*rows/parts
				v, gp, err := loss.ValueGrad(l, loss.Batch{Logits: z.Slice(0, from, to, 1), Observed: y.Slice(0, from, to, 1)})
				require.NoError(t, err)
				sum += v.Item() / parts
				require.Less(t, g.Slice(0, from, to, 1).Sub(gp.MulScalar(1./parts)).Abs().Max().Item(), 1e-14)
			})
		}
		require.InDelta(t, whole.Item(), sum, 1e-6*math.Abs(sum))
		c, err := loss.New("em", "coco", nil, loss.Options{Impl: loss.Composed})
		require.NoError(t, err)
		_, want, err := loss.ValueGrad(c, loss.Batch{Logits: z.Slice(0, rows-3, rows, 1), Observed: y.Slice(0, rows-3, rows, 1)})
		require.NoError(t, err)
		require.Less(t, want.MulScalar(3./rows).Sub(g.Slice(0, rows-3, rows, 1)).Abs().Max().Item(), 1e-13)
	})
}

// The derivative of AN is p where y = 0 and -n where y = 1: relative errors over the whole range of logits.
func TestFusedAccuracy(t *testing.T) {
	l, err := loss.New("an", "", nil, loss.Options{Impl: loss.Fused, Reduction: loss.Sum})
	require.NoError(t, err)
	const n = 100_000
	x := make([]float32, n)
	for i := range x {
		x[i] = -86 + 172*float32(i)/n
	}
	z := torch.FromSlice(x, 1, n)
	for label, sign := range map[int8]float64{0: 1, 1: -1} {
		_, g, err := loss.ValueGrad(l, loss.Batch{Logits: z, Observed: torch.Full(torch.S(1, n), int(label), torch.Int8)})
		require.NoError(t, err)
		want := z.ToDType(torch.Float64).MulScalar(sign).Sigmoid().MulScalar(sign)
		worst := g.ToDType(torch.Float64).Sub(want).Div(want).Abs().Max().Item()
		require.Less(t, worst, 4e-7)
		require.Greater(t, worst, 1e-9, "float32 rounds")
	}
}

// Every operator's _fwd on Meta tensors: shapes and types of loss and gradients.
func TestFusedMeta(t *testing.T) {
	require.NoError(t, loss.FusedAvailable())
	z, y := torch.Empty(torch.S(3, 4), torch.Float16, torch.Meta), torch.Empty(torch.S(3, 4), torch.Int8, torch.Meta)
	x, id := torch.Empty(torch.S(3, 2, 8), torch.Float32, torch.Meta), torch.Empty(torch.S(3), torch.Int64, torch.Meta)
	inputs := map[string][]any{
		"spml::an_masked":  {z, y, y},
		"spml::l48":        {z, y, y},
		"spml::epr":        {z, y, 1.5},
		"spml::vlpl":       {z, y, y, 0.2, 0.7, 0., 0.9},
		"spml::gpr":        {z, y, y, 0., -2., 0.5, 2., 0.01, 1., 0.5, 0.7, 0.9, 0.001, 1.5},
		"spml::role":       {z, z, y, 1.5},
		"spml::plc":        {z, z, y, 0.6, 1., 0.},
		"spml::large_loss": {z, y, 2, true, false, true},
		"spml::contrast":   {x, id, 0.1},
	}
	seen := map[string]bool{}
	for _, e := range loss.Entries() {
		if e.Fused == nil || seen[e.Fused.Op] {
			continue
		}
		op := e.Fused.Op
		seen[op] = true
		in := inputs[op]
		if in == nil {
			in = []any{z, y}
		}
		shape := in[0].(*torch.Tensor).Shape()
		out := torch.Call(op+"_fwd", in...)
		v := out[0].(*torch.Tensor)
		require.Equal(t, torch.Float32, v.DType(), op)
		require.Empty(t, v.Shape(), op)
		for _, g := range out[1:] {
			g := g.(*torch.Tensor)
			require.Equal(t, shape, g.Shape(), op)
			require.Equal(t, torch.DeviceMeta, g.Device().Type, op)
		}
		require.Equal(t, torch.Float32, out[1].(*torch.Tensor).DType(), "%s: gradients of float16 logits are float32", op)
		if op != "spml::contrast" {
			bad := append([]any(nil), in...)
			bad[1] = torch.Empty(torch.S(3, 5), torch.Int8, torch.Meta)
			require.ErrorContains(t, torch.Try(func() { torch.Call(op+"_fwd", bad...) }), "shape", op)
		}
	}
	require.GreaterOrEqual(t, len(seen), 18)
}

// Python opens the library alone and gets the same numbers: run where a Python with torch is at hand (`make bench-peers` makes one).
func TestFusedFromPython(t *testing.T) {
	python := os.Getenv("PEER_PYTHON")
	if cache, err := native.CacheDir(); err == nil && python == "" {
		python = filepath.Join(cache, "peers", "bin", "python")
	}
	if _, err := exec.LookPath(python); err != nil {
		t.Logf("not run, no Python with torch: %v", err)
		return
	}
	path, err := native.FindLib(loss.OpsLibrary)
	require.NoError(t, err)
	out, err := exec.Command(python, filepath.Join("testdata", "fused_ops.py"), path, testroot.Testdata("loss", "golden_losses.json")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "cases agree")
	t.Logf("%s", out)
}
