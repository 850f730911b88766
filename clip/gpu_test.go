package clip

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/torch"
)

// card skips the test where there is no card; docs/gpu-open.md lists what one must show.
func card(t *testing.T) {
	t.Helper()
	if cuda.DeviceCount() == 0 {
		_, err := NewModel(nil, Options{Device: torch.CUDA(0)})
		require.ErrorIs(t, err, cuda.ErrNoDevice)
		t.Skip("there is no card")
	}
	require.NoError(t, cuda.Available())
}

// gpuModels are random models of a released shape: on the CPU in float32 and on the card as o says, with the same
// values.
func gpuModels(t *testing.T, name string, o Options) (want, got *Model) {
	t.Helper()
	make := func(o Options) *Model {
		c, err := Named(name)
		require.NoError(t, err)
		torch.ManualSeed(3)
		m, err := New(c)
		require.NoError(t, err)
		model, err := NewModel(m, o)
		require.NoError(t, err)
		t.Cleanup(model.Close)
		return model
	}
	o.Device = torch.CUDA(0)
	tf32 := torch.AllowTF32() // libtorch has it on for convolutions
	torch.SetAllowTF32(false)
	t.Cleanup(func() { torch.SetAllowTF32(tf32) })
	return make(Options{}), make(o)
}

// The card computes what the CPU does: pictures, texts, tokens, attention, zero-shot features.
func TestGPUClipEqualsCPU(t *testing.T) {
	card(t)
	for _, name := range []string{"ViT-B/32", "RN50"} {
		for _, dtype := range []torch.DType{torch.Float32, torch.BFloat16, torch.Float16} {
			t.Run(name+" "+dtype.String(), func(t *testing.T) {
				least := 0.9995
				if dtype == torch.Float32 {
					least = 0.99999
				}
				want, got := gpuModels(t, name, Options{DType: dtype})
				size := want.Config().Vision.ImageSize
				x := torch.Randn(torch.S(5, 3, size[0], size[1]))
				a, err := want.EncodeImage(t.Context(), x)
				require.NoError(t, err)
				for range 3 { // without a graph, capturing, by the graph
					b, err := got.EncodeImage(t.Context(), x)
					require.NoError(t, err)
					require.Equal(t, torch.DeviceCPU, b.Device().Type)
					require.Greater(t, cosine(a, b), least)
				}
				texts := []string{"a photo of a dog", "a very long sentence about two cats on a mat beside a traffic light in the rain", ""}
				a, err = want.EncodeText(t.Context(), texts)
				require.NoError(t, err)
				b, err := got.EncodeText(t.Context(), texts)
				require.NoError(t, err)
				require.Greater(t, cosine(a, b), least)
				da, err := want.Details(t.Context(), x, Want{Tokens: true, Attention: true})
				require.NoError(t, err)
				db, err := got.Details(t.Context(), x, Want{Tokens: true, Attention: true})
				require.NoError(t, err)
				require.Greater(t, cosine(da.Tokens.Flatten(1, -1), db.Tokens.Flatten(1, -1)), least)
				require.Len(t, db.Attention, len(da.Attention))
				require.Greater(t, cosine(da.Attention[0].Flatten(1, -1), db.Attention[0].Flatten(1, -1)), 0.999)
				ca, err := want.ClassFeatures(t.Context(), []string{"dog", "cat"}, []string{"a {}.", "the {}."})
				require.NoError(t, err)
				cb, err := got.ClassFeatures(t.Context(), []string{"dog", "cat"}, []string{"a {}.", "the {}."})
				require.NoError(t, err)
				require.Greater(t, cosine(ca, cb), least)
			})
		}
	}
}

// Graphs give the bits of eager work, for several sizes, while 16 goroutines use them; the card's memory does not grow.
func TestGPUClipGraphs(t *testing.T) {
	card(t)
	_, eager := gpuModels(t, "ViT-B/32", Options{DType: torch.BFloat16, Graphs: -1})
	_, m := gpuModels(t, "ViT-B/32", Options{DType: torch.BFloat16, Graphs: 3})
	var xs, want []*torch.Tensor
	for n := range 5 {
		xs = append(xs, torch.Randn(torch.S(n+1, 3, 224, 224)))
		y, err := eager.EncodeImage(t.Context(), xs[n])
		require.NoError(t, err)
		want = append(want, y)
	}
	round := func() {
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				for k := range 20 {
					n := (g + k) % len(xs)
					y, err := m.EncodeImage(t.Context(), xs[n])
					if err != nil {
						t.Error(err)
						return
					}
					if d := y.Sub(want[n]).Abs().Max().Item(); d != 0 {
						t.Errorf("%d pictures: graphs differ by %v from eager work", n+1, d)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	round()
	collect()
	before, err := cuda.Memory(0)
	require.NoError(t, err)
	round()
	collect()
	after, err := cuda.Memory(0)
	require.NoError(t, err)
	require.LessOrEqual(t, len(m.graphs.kept), 3)
	require.LessOrEqual(t, after.Allocated.Current, before.Allocated.Current+64<<20)
}
