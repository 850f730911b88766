package backbone

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// stirred is a model in evaluation mode whose every tensor matters: statistics, gains and biases are drawn too.
func stirred(t testing.TB, m Model, seed int64) Model {
	g := torch.NewGenerator(seed)
	torch.NoGrad(func() {
		nn.Walk(m, func(e nn.Entry) {
			switch {
			case !e.Tensor.DType().IsFloat():
			case strings.HasSuffix(e.Key, "running_var"):
				nn.Uniform_(e.Tensor, 0.5, 2, g)
			case strings.HasSuffix(e.Key, "running_mean"):
				nn.Uniform_(e.Tensor, -0.3, 0.3, g)
			case strings.HasSuffix(e.Key, "gamma"):
				nn.Uniform_(e.Tensor, 0.2, 0.6, g)
			case e.Tensor.Dim() == 1 && strings.HasSuffix(e.Key, "weight"):
				nn.Uniform_(e.Tensor, 0.7, 1.3, g)
			case e.Tensor.Dim() == 1:
				nn.Uniform_(e.Tensor, -0.2, 0.2, g)
			case strings.HasSuffix(e.Key, "cls_token") || strings.HasSuffix(e.Key, "pos_embed"):
				nn.Uniform_(e.Tensor, -0.5, 0.5, g)
			}
		})
	})
	nn.SetTraining(m, false)
	return m
}

// small are networks with every kind of layer, few channels, and numbers of channels that fill no vector.
func small() map[string]Model {
	return map[string]Model{
		"basic": NewResNet(BasicBlocks, [4]int{2, 1, 1, 1}, 5), "bottleneck": NewResNet(Bottlenecks, [4]int{1, 2, 1, 1}, 33),
		"squeezenet1_0": NewSqueezeNet("squeezenet1_0", 1), "squeezenet1_1": NewSqueezeNet("squeezenet1_1", 5),
		"mobilenet_v2": NewMobileNetV2(7), "small_cnn": NewSmallCNN(12),
		"convnext": NewConvNeXt([4]int{1, 2, 1, 1}, [4]int{8, 17, 24, 50}, 5),
		"vit":      NewViT(ViTConfig{ImageSize: 64, PatchSize: 16, Dim: 36, Depth: 2, NumHeads: 3}, 5),
		"dinov2": NewViT(ViTConfig{ImageSize: 56, PatchSize: 14, Dim: 48, Depth: 2, NumHeads: 3,
			LayerScale: true}, 5),
		"vit of one block": NewViT(ViTConfig{ImageSize: 64, PatchSize: 8, Dim: 80, Depth: 1, NumHeads: 2}, 40),
		"siglip": NewViT(ViTConfig{ImageSize: 64, PatchSize: 16, Dim: 40, Depth: 2, NumHeads: 4, Hidden: 70,
			Pool: true}, 5),
	}
}

func numbers(x *torch.Tensor) []float32 { return torch.ToSlice[float32](x.Detach().Contiguous()) }

// near compares with the largest number.
func near(t *testing.T, want, got *torch.Tensor, what string) {
	t.Helper()
	require.Equal(t, want.Shape(), got.Shape(), what)
	top, apart := 0.0, 0.0
	g := numbers(got)
	for i, w := range numbers(want) {
		top = math.Max(top, math.Abs(float64(w)))
		if d := math.Abs(float64(w - g[i])); !(d <= apart) {
			apart = d
		}
	}
	require.LessOrEqual(t, apart, 1e-4*top, what)
}

// sameAsPlain compares logits, features and maps for images of odd sizes, alone and together.
func sameAsPlain(t *testing.T, name string, m Model, sizes [][3]int) {
	f, err := Freeze(m, torch.Float32)
	require.NoError(t, err, name)
	require.Empty(t, nn.Parameters(f))
	require.Equal(t, m.FeatureDim(), f.FeatureDim())
	require.Equal(t, m.HeadKey(), f.HeadKey())
	g := torch.NewGenerator(9)
	for _, s := range sizes {
		torch.Scope(func(*torch.Arena) {
			torch.Inference(func() {
				what := fmt.Sprint(name, " ", s)
				x := nn.Normal_(torch.Empty(torch.S(s[0], 3, s[1], s[2])), 0, 1, g)
				near(t, m.Forward(x), f.Forward(x), what)
				near(t, m.Forward(x), f.Forward(x.ContiguousFormat(torch.ChannelsLast)), what)
				near(t, m.Features(x), f.Features(x), what+", features")
				near(t, m.FeatureMap(x), f.FeatureMap(x), what+", map")
			})
		})
	}
}

// TestFreeze: the frozen form of every kind of network gives its numbers, for sizes and batches that fill no tile.
func TestFreeze(t *testing.T) {
	for name, m := range small() {
		sameAsPlain(t, name, stirred(t, m, 3), [][3]int{{1, 64, 64}, {3, 97, 71}, {5, 66, 130}})
	}
}

// TestFreezeNamed: so do the networks at the size that people use.
func TestFreezeNamed(t *testing.T) {
	names := []string{"mobilenet_v2", "resnet50"}
	if testroot.Nightly() {
		names = Names()
	}
	for _, name := range names {
		m, err := New(name, 80, nn.Generator(torch.NewGenerator(1)))
		require.NoError(t, err)
		sameAsPlain(t, name, stirred(t, m, 5), [][3]int{{2, 224, 224}})
	}
}

// TestFreezeSets: the kernels for other processors give the same numbers.
func TestFreezeSets(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("kernels for several sets of instructions are those of amd64; here there is one set, which the other tests run")
	}
	for _, set := range []string{"avx2", "generic"} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestFreeze$")
		cmd.Env = append(os.Environ(), "GOSPML_CPU="+set)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", set, out)
	}
}

func cosine(x, y []float32) float64 {
	var xy, xx, yy float64
	for i := range x {
		xy += float64(x[i]) * float64(y[i])
		xx += float64(x[i]) * float64(x[i])
		yy += float64(y[i]) * float64(y[i])
	}
	return xy / math.Sqrt(xx*yy)
}

// TestFreezeBF16: bfloat16 keeps the direction of features and logits, whatever the shapes; a processor that does not
// multiply it is an error.
func TestFreezeBF16(t *testing.T) {
	for name, m := range small() {
		f, err := Freeze(stirred(t, m, 3), torch.BFloat16)
		if err != nil {
			require.ErrorContains(t, err, "no AVX512_BF16")
			return
		}
		for _, s := range [][3]int{{1, 64, 64}, {3, 97, 71}} {
			torch.Scope(func(*torch.Arena) {
				torch.Inference(func() {
					x := nn.Normal_(torch.Empty(torch.S(s[0], 3, s[1], s[2])), 0, 1, torch.NewGenerator(8))
					require.Greater(t, cosine(numbers(m.Features(x)), numbers(f.Features(x))), 0.9999, "%s %v", name, s)
					require.Greater(t, cosine(numbers(m.FeatureMap(x)), numbers(f.FeatureMap(x))), 0.9998, "%s %v", name, s)
					require.Equal(t, numbers(Threads(f, 1).Forward(x)), numbers(Threads(f, 3).Forward(x)))
				})
			})
		}
	}
}

// TestFreezeBits: neither the batch nor the number of threads changes a bit.
func TestFreezeBits(t *testing.T) {
	for name, m := range small() {
		f, err := Freeze(stirred(t, m, 7), torch.Float32)
		require.NoError(t, err)
		torch.Scope(func(*torch.Arena) {
			x := nn.Normal_(torch.Empty(torch.S(9, 3, 70, 66)), 0, 1, torch.NewGenerator(2))
			want := numbers(Threads(f, 1).Forward(x))
			for _, threads := range []int{2, 3, 8} {
				require.Equal(t, want, numbers(Threads(f, threads).Forward(x)), "%s by %d threads", name, threads)
			}
			c := len(want) / 9
			for _, n := range []int{1, 2, 4} {
				require.Equal(t, want[:n*c], numbers(Threads(f, 2).Forward(x.Slice(0, 0, n, 1))), "%s, %d images", name, n)
			}
		})
	}
}

// TestFreezeConcurrent: many goroutines share one network.
func TestFreezeConcurrent(t *testing.T) {
	f, err := Freeze(stirred(t, NewSmallCNN(4), 7), torch.Float32)
	require.NoError(t, err)
	x := nn.Normal_(torch.Empty(torch.S(2, 3, 40, 40)), 0, 1, torch.NewGenerator(2))
	want := numbers(f.Forward(x))
	done := make(chan []float32)
	for i := range 16 {
		go func() { done <- numbers(Threads(f, i%3).Forward(x)) }()
	}
	for range 16 {
		require.Equal(t, want, <-done)
	}
}

// foreign is a model from outside.
type foreign struct{ Model }

// TestFreezeRefuses: what has no frozen form is said, and images that do not fit are an error of tensor maths.
func TestFreezeRefuses(t *testing.T) {
	_, err := Freeze(foreign{NewSmallCNN(3)}, torch.Float32)
	require.ErrorIs(t, err, ErrForm)
	m := NewSmallCNN(3)
	m.Blocks[1].(nn.Sequential)[0].(*nn.Conv2d).Dilation = [2]int{2, 2}
	_, err = Freeze(m, torch.Float32)
	require.ErrorIs(t, err, ErrForm)
	require.ErrorContains(t, err, "dilation [2 2]")

	f, err := Freeze(stirred(t, NewResNet(BasicBlocks, [4]int{1, 1, 1, 1}, 3), 1), torch.Float32)
	require.NoError(t, err)
	for words, x := range map[string]*torch.Tensor{
		"float32 on the CPU": torch.Zeros(torch.S(1, 3, 32, 32), torch.Float64),
		"4 channels, want 3": torch.Zeros(torch.S(1, 4, 32, 32)), "[B, C, H, W]": torch.Zeros(torch.S(3, 32, 32)),
	} {
		require.ErrorContains(t, torch.Try(func() { f.Forward(x) }), words)
	}
	tiny := ViTConfig{ImageSize: 32, PatchSize: 16, Dim: 12, Depth: 1, NumHeads: 1}
	v, err := Freeze(stirred(t, NewViT(tiny, 3), 1), torch.Float32)
	require.NoError(t, err)
	require.Error(t, torch.Try(func() { v.Forward(torch.Zeros(torch.S(1, 3, 8, 40))) }))
	require.Empty(t, numbers(f.Forward(torch.Zeros(torch.S(0, 3, 64, 64)))))
}

// TestFreezeNaN: a number that is none stays none.
func TestFreezeNaN(t *testing.T) {
	f, err := Freeze(stirred(t, NewResNet(BasicBlocks, [4]int{1, 1, 1, 1}, 3), 1), torch.Float32)
	require.NoError(t, err)
	x := torch.Zeros(torch.S(1, 3, 64, 64))
	x.Fill_(math.NaN())
	for _, v := range numbers(f.Forward(x)) {
		require.True(t, math.IsNaN(float64(v)))
	}
}

// TestFreezeHead: another head takes the frozen features.
func TestFreezeHead(t *testing.T) {
	m := stirred(t, NewSmallCNN(4), 7)
	f, err := Freeze(m, torch.Float32)
	require.NoError(t, err)
	l := nn.NewLinear(m.FeatureDim(), 9)
	f.SetHead(l)
	m.SetHead(l)
	x := torch.Ones(torch.S(2, 3, 40, 40))
	near(t, m.Forward(x), f.Forward(x), "another head")
}

func BenchmarkFreeze(b *testing.B) {
	for _, name := range []string{"mobilenet_v2", "resnet50"} {
		m, err := New(name, 80)
		require.NoError(b, err)
		f, err := Freeze(stirred(b, m, 1), torch.Float32)
		require.NoError(b, err)
		x := torch.Randn(torch.S(1, 3, 224, 224))
		for form, n := range map[string]Model{"frozen": f, "plain": m} {
			b.Run(name+"/"+form, func(b *testing.B) {
				torch.Inference(func() {
					for b.Loop() {
						torch.Scope(func(*torch.Arena) { n.Forward(x) })
					}
				})
			})
		}
	}
}
