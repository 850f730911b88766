package backbone

import (
	"errors"
	"iter"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// pictures are drawn inputs with the spread of photos: a smooth part and noise.
func pictures(n, side int, seed int64) iter.Seq2[*torch.Tensor, error] {
	return func(yield func(*torch.Tensor, error) bool) {
		g := torch.NewGenerator(seed)
		for range n {
			x := nn.Normal_(torch.Empty(torch.S(1, 3, 8, 8)), 0, 1, g)
			x = nn.Interpolate(x, nn.Interpolation{Size: []int{side, side}, Mode: "bilinear"})
			if !yield(x.Add(nn.Normal_(torch.Empty(torch.S(1, 3, side, side)), 0, 0.3, g)), nil) {
				return
			}
		}
	}
}

// quantized is a model's int8 form; the test ends where the processor has none.
func quantized(t testing.TB, m Model, side int) Model {
	c, err := Calibrate(m, pictures(8, side, 5))
	require.NoError(t, err)
	require.Equal(t, 8, c.Photos)
	f, err := Quantize(m, c)
	if err != nil && strings.Contains(err.Error(), "no AVX512_VNNI") {
		t.Skip("this processor does not multiply int8; TestQuantizeRefuses sees that it says so")
	}
	require.NoError(t, err)
	return f
}

// TestQuantize: int8 keeps the direction of features and logits of every kind of network, for other images and sizes
// than those of the calibration, and its bits depend neither on the batch nor on the threads.
func TestQuantize(t *testing.T) {
	for name, m := range small() {
		t.Run(name, func(t *testing.T) {
			f := quantized(t, stirred(t, m, 3), 72)
			for x := range pictures(2, 97, 8) {
				torch.Inference(func() {
					require.Greater(t, cosine(numbers(m.Features(x)), numbers(f.Features(x))), 0.99, "features")
					require.Greater(t, cosine(numbers(m.FeatureMap(x)), numbers(f.FeatureMap(x))), 0.98, "maps")
					require.Greater(t, cosine(numbers(m.Forward(x)), numbers(f.Forward(x))), 0.99, "logits")
				})
			}
			var all []*torch.Tensor
			for x := range pictures(9, 70, 2) {
				all = append(all, x)
			}
			x := torch.Cat(all, 0)
			want := numbers(Threads(f, 1).Forward(x))
			for _, threads := range []int{2, 3, 8} {
				require.Equal(t, want, numbers(Threads(f, threads).Forward(x)), "%d threads", threads)
			}
			for _, n := range []int{1, 2, 4} {
				require.Equal(t, want[:n*len(want)/9], numbers(Threads(f, 2).Forward(x.Slice(0, 0, n, 1))), "%d images", n)
			}
			require.Equal(t, want, numbers(f.Forward(x.ContiguousFormat(torch.ChannelsLast))))
		})
	}
}

// TestQuantizeNaN: the scores of an image with a number that is none are none; the others keep theirs.
func TestQuantizeNaN(t *testing.T) {
	f := quantized(t, stirred(t, NewSmallCNN(4), 3), 40)
	x := torch.Zeros(torch.S(2, 3, 40, 40))
	want := numbers(f.Forward(x))
	x.Select(0, 1).Select(0, 2).Select(0, 7).Slice(0, 3, 4, 1).Fill_(math.NaN())
	got := numbers(f.Forward(x))
	require.Equal(t, want[:4], got[:4])
	for _, v := range got[4:] {
		require.True(t, math.IsNaN(float64(v)))
	}
}

// TestQuantizeRefuses: a calibration of nothing, of what is no number and of another network, and a processor that does
// not multiply int8, are errors that say so.
func TestQuantizeRefuses(t *testing.T) {
	m := stirred(t, NewSmallCNN(4), 3)
	_, err := Calibrate(m, pictures(0, 40, 1))
	require.ErrorContains(t, err, "at least one photo")
	_, err = Calibrate(m, func(yield func(*torch.Tensor, error) bool) { yield(nil, errors.New("torn")) })
	require.ErrorContains(t, err, "torn")
	_, err = Calibrate(m, func(yield func(*torch.Tensor, error) bool) {
		x := torch.Zeros(torch.S(1, 3, 40, 40))
		x.Fill_(math.Inf(1))
		yield(x, nil)
	})
	require.ErrorContains(t, err, "photo 1 of the calibration: an activation is not finite")
	_, err = Calibrate(m, func(yield func(*torch.Tensor, error) bool) { yield(torch.Zeros(torch.S(1, 4, 40, 40)), nil) })
	require.ErrorContains(t, err, "4 channels, want 3")
	_, err = Calibrate(foreign{m}, pictures(1, 40, 1))
	require.ErrorIs(t, err, ErrForm)

	other, err := Calibrate(NewSqueezeNet("squeezenet1_1", 4), pictures(1, 64, 1))
	require.NoError(t, err)
	_, err = Quantize(m, other)
	require.ErrorIs(t, err, ErrInt8)
	own, err := Calibrate(m, pictures(1, 40, 1))
	require.NoError(t, err)
	own.Scales[1].Scale = 0
	_, err = Quantize(m, own)
	require.ErrorIs(t, err, ErrInt8)

	if os.Getenv("GOSPML_CPU") == "avx2" {
		own, err = Calibrate(m, pictures(1, 40, 1))
		require.NoError(t, err)
		_, err = Quantize(m, own)
		require.ErrorContains(t, err, "no AVX512_VNNI")
		return
	}
	if runtime.GOARCH == "amd64" {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestQuantizeRefuses$")
		cmd.Env = append(os.Environ(), "GOSPML_CPU=avx2")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// BenchmarkQuantize alternates the float32 and the int8 form.
func BenchmarkQuantize(b *testing.B) {
	names := []string{"resnet50", "mobilenet_v2", "resnet18", "squeezenet1_1", "convnext_tiny", "vit_base_patch16"}
	for _, name := range names {
		for _, batch := range []int{1, 8} {
			m, err := New(name, 80)
			require.NoError(b, err)
			stirred(b, m, 1)
			q := Threads(quantized(b, m, 224), 1)
			f, err := Freeze(m, torch.Float32)
			require.NoError(b, err)
			f = Threads(f, 1)
			x := torch.Randn(torch.S(batch, 3, 224, 224)).ContiguousFormat(torch.ChannelsLast)
			b.Run(name, func(b *testing.B) {
				var floats, ints time.Duration
				torch.Inference(func() {
					for b.Loop() {
						torch.Scope(func(*torch.Arena) {
							begun := time.Now()
							f.Forward(x)
							half := time.Now()
							q.Forward(x)
							floats, ints = floats+half.Sub(begun), ints+time.Since(half)
						})
					}
				})
				b.ReportMetric(float64(floats)/float64(ints), "times-float32")
				b.ReportMetric(float64(ints.Milliseconds())/float64(b.N), "ms-int8")
			})
		}
	}
}
