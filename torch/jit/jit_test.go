package jit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/torchtest"
	"github.com/stretchr/testify/require"
)

type golden struct {
	X, Forward, Gradient []float32
	WeightGradient       []float32 `json:"weight_gradient"`
	Image, Traced        []float32
	State                map[string][]float32
}

func goldens(t *testing.T) (g golden) {
	t.Helper()
	text, err := os.ReadFile(testroot.Testdata("jit", "expected.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &g))
	return g
}

func load(t *testing.T, name string) *Module {
	t.Helper()
	m, err := Load(testroot.Testdata("jit", name))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// TestForward compares a scripted and a traced module, and gradients through the first, with PyTorch.
func TestForward(t *testing.T) {
	g := goldens(t)
	m := load(t, "scripted.pt")
	x := torch.FromSlice(g.X, 4, 3).SetRequiresGrad(true)
	y, err := m.Forward(x)
	require.NoError(t, err)
	require.Equal(t, []int{4, 2}, y.Shape())
	require.InDeltaSlice(t, g.Forward, torch.ToSlice[float32](y), 1e-6)
	y.Mul(y).Sum().Backward()
	require.InDeltaSlice(t, g.Gradient, torch.ToSlice[float32](x.Grad()), 1e-5)
	ps, err := m.Parameters()
	require.NoError(t, err)
	require.Len(t, ps, 2)
	require.InDeltaSlice(t, g.WeightGradient, torch.ToSlice[float32](ps[0].Grad()), 1e-5)

	traced := load(t, "traced.pt")
	y, err = traced.Forward(torch.FromSlice(g.Image, 2, 1, 4, 4))
	require.NoError(t, err)
	require.InDeltaSlice(t, g.Traced, torch.ToSlice[float32](y), 1e-5)
}

func TestStateAndModes(t *testing.T) {
	g := goldens(t)
	m := load(t, "scripted.pt")
	sd, err := m.StateDict()
	require.NoError(t, err)
	require.Len(t, sd, len(g.State))
	for k, want := range g.State {
		require.Equal(t, want, torch.ToSlice[float32](sd[k]), k)
	}
	read, err := nn.LoadPTH(testroot.Testdata("jit", "scripted.pt"))
	require.NoError(t, err)
	require.Equal(t, sd.Keys(), read.Keys(), "without running it")

	x := torch.Randn([]int{1000, 3}, torch.NewGenerator(1))
	require.NoError(t, m.Train(true))
	y, err := m.Forward(x)
	require.NoError(t, err)
	dropped := y.Sub(sd["calls"]).EqScalar(0).Sum().Item()
	require.NoError(t, m.Train(false))
	y, err = m.Forward(x)
	require.NoError(t, err)
	require.Greater(t, dropped, y.Sub(sd["calls"]).EqScalar(0).Sum().Item()+100, "dropout drops in training mode only")

	require.NoError(t, m.ToDType(torch.Float64))
	y, err = m.Forward(x.ToDType(torch.Float64))
	require.NoError(t, err)
	require.Equal(t, torch.Float64, y.DType())
	require.NoError(t, m.To(torch.CPU))
	methods, err := m.Methods()
	require.NoError(t, err)
	require.Contains(t, methods[0], "forward(")
}

// TestValues passes every kind of value in and out.
func TestValues(t *testing.T) {
	m := load(t, "scripted.pt")
	one := torch.FromSlice([]float32{1, 2}, 2)
	v, err := m.Call("values", 21, 3.0, true, "Zürich\x00\n", nil)
	require.NoError(t, err)
	require.Equal(t, Tuple{int64(42), 1.5, false, "Zürich\x00\n!", nil}, v)
	v, err = m.Call("values", int64(-1<<62), float32(0.5), false, "", one)
	require.NoError(t, err)
	require.Equal(t, Tuple{int64(-1 << 63), 0.25, true, "!"}, v.(Tuple)[:4])
	require.Equal(t, []float32{1, 2}, torch.ToSlice[float32](v.(Tuple)[4].(*torch.Tensor)))

	v, err = m.Call("containers", []*torch.Tensor{one, one}, []int{1, 2, 3}, Dict{{"a", 0.5}, {"b", 2.0}})
	require.NoError(t, err)
	scaled := v.(Dict).Get("scaled").([]any)
	require.Len(t, scaled, 2)
	require.Equal(t, []float32{6, 12}, torch.ToSlice[float32](scaled[1].(*torch.Tensor)))
	require.Equal(t, 2.0, v.(Dict).Get("table").([]any)[1].(*torch.Tensor).Item())
	require.Nil(t, v.(Dict).Get("none"))
	v, err = m.Call("containers", []*torch.Tensor{}, []int64{}, Dict{})
	require.NoError(t, err)
	require.Equal(t, Dict{{"scaled", []any{}}, {"table", []any{}}}, v)

	v, err = m.Call("nested", Tuple{one, []any{Tuple{1, "x"}, Tuple{2, "y"}}})
	require.NoError(t, err)
	require.Equal(t, []any{Tuple{"x", int64(4)}, Tuple{"y", int64(5)}}, v)
}

func TestErrors(t *testing.T) {
	m := load(t, "scripted.pt")
	one := torch.Ones([]int{2, 3})
	for want, call := range map[string]func() (any, error){
		"calling fails: ":                       func() (any, error) { return m.Call("fails", one) },
		"the sum is positive":                   func() (any, error) { return m.Call("fails", one) },
		"the module has no method absent":       func() (any, error) { return m.Call("absent") },
		"Expected a value of type 'int'":        func() (any, error) { return m.Call("values", "x", 1.0, true, "", nil) },
		"missing value for argument":            func() (any, error) { return m.Call("forward") },
		"argument 1: a chan int has no form":    func() (any, error) { return m.Call("forward", make(chan int)) },
		"cannot be multiplied":                  func() (any, error) { return m.Forward(torch.Ones([]int{2, 5})) },
		"argument 1: torch: jit forward: the t": func() (any, error) { return m.Call("forward", (*torch.Tensor)(nil)) },
	} {
		_, err := call()
		require.ErrorContains(t, err, want)
		var e *Error
		require.ErrorAs(t, err, &e)
		require.ErrorContains(t, err, testroot.Testdata("jit", "scripted.pt"))
	}
	v := any("x")
	for range 100 {
		v = []any{v}
	}
	_, err := m.Call("forward", v)
	require.ErrorContains(t, err, "nested too deeply")

	_, err = Load(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Load(t.TempDir())
	require.ErrorContains(t, err, "not a regular file")
	_, err = Load(testroot.Testdata("pth", "tied.pth"))
	require.ErrorContains(t, err, "read it with nn.LoadPTH")
	_, err = Load(testroot.Testdata("pth", "views_legacy.pth"))
	require.ErrorContains(t, err, "is not a TorchScript archive")
	whole, err := os.ReadFile(testroot.Testdata("jit", "scripted.pt"))
	require.NoError(t, err)
	cut := filepath.Join(t.TempDir(), "cut.pt")
	require.NoError(t, os.WriteFile(cut, whole[:len(whole)-100], 0o600))
	_, err = Load(cut)
	require.ErrorContains(t, err, cut)

	closed, err := Load(testroot.Testdata("jit", "traced.pt"))
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.NoError(t, closed.Close())
	_, err = closed.Forward(one)
	require.ErrorContains(t, err, "the module was closed")
}

// TestConcurrentCalls: many goroutines get the same answer.
func TestConcurrentCalls(t *testing.T) {
	g := goldens(t)
	m := load(t, "scripted.pt")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				y, err := m.Forward(torch.FromSlice(g.X, 4, 3))
				if err != nil {
					t.Error(err)
					return
				}
				if got := torch.ToSlice[float32](y)[0]; got < g.Forward[0]-1e-6 || got > g.Forward[0]+1e-6 {
					t.Errorf("got %v, want %v", got, g.Forward[0])
				}
			}
		})
	}
	wg.Wait()
}

// TestLeaks: a loaded, called and closed module leaves no tensors.
func TestLeaks(t *testing.T) {
	torchtest.NoLeaks(t)
	m, err := Load(testroot.Testdata("jit", "scripted.pt"))
	require.NoError(t, err)
	torch.Scope(func(*torch.Arena) {
		_, err := m.Forward(torch.Ones([]int{1, 3}))
		require.NoError(t, err)
		_, err = m.StateDict()
		require.NoError(t, err)
	})
	require.NoError(t, m.Close())
}

// TestCLIP runs OpenAI's kind of archive: encode_image on the tiny model.
func TestCLIP(t *testing.T) {
	m, err := Load(testroot.Shared(t, "data", "clip_tiny", "openai_vit", "model.pt"))
	require.NoError(t, err)
	defer m.Close()
	methods, err := m.Methods()
	require.NoError(t, err)
	require.NotEmpty(t, methods)
	sd, err := m.StateDict()
	require.NoError(t, err)
	read, err := nn.LoadPTH(testroot.Shared(t, "data", "clip_tiny", "openai_vit", "model.pt"))
	require.NoError(t, err)
	require.Equal(t, sd.Keys(), read.Keys())
	for k, want := range sd {
		require.Equal(t, want.Bytes(), read[k].Bytes(), k)
	}
	// The archive computes in float16, the goldens are float32 with the same weights.
	want, _, err := nn.LoadSafetensors(testroot.Shared(t, "data", "clip_tiny", "openai_vit", "expected.safetensors"))
	require.NoError(t, err)
	near := func(name string, got any, within float64) {
		t.Helper()
		w := want[name]
		far := w.Sub(got.(*torch.Tensor).ToDType(torch.Float32)).Abs().Max().Item()
		require.Less(t, far, within*w.Abs().Max().Item(), name)
	}
	image, err := m.Call("encode_image", want["pixel_values"])
	require.NoError(t, err)
	near("image_features", image, 0.01)
	text, err := m.Call("encode_text", want["input_ids"])
	require.NoError(t, err)
	near("text_features", text, 0.01)
	both, err := m.Call("forward", want["pixel_values"], want["input_ids"])
	require.NoError(t, err)
	near("logits_per_image", both.(Tuple)[0], 0.01)
}
