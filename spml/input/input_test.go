package input

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/spml/internal/oplib"
	"github.com/gospml/gospml/torch"
)

func noise(seed uint32, n int) []byte {
	g := random.New(seed)
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.RandomSample() * 256)
	}
	return b
}

// everyLevel is noise that holds each of the 256 levels in each channel.
func everyLevel(b, h, w int) []byte {
	p := noise(7, 3*b*h*w)
	for i := range min(768, len(p)) {
		p[i] = byte(i / 3)
	}
	return p
}

var constants = []Options{
	{},
	{Mean: pixel.CLIPMean, Std: pixel.CLIPStd},
	{Mean: [3]float32{0.5, 0, 0.1234567}, Std: [3]float32{0.5, 1, 0.0371}},
}

// The bits are those of pixel.Normalize, whose test compares them with torchvision's, in every type, layout and for any number of threads.
func TestNormalize(t *testing.T) {
	require.NoError(t, oplib.CPU())
	for _, shape := range [][3]int{{1, 1, 1}, {2, 3, 5}, {3, 16, 16}, {2, 33, 47}, {5, 64, 70}} {
		b, h, w := shape[0], shape[1], shape[2]
		bytes := everyLevel(b, h, w)
		pixels := torch.FromSlice(bytes, b, h, w, 3)
		flips := make([]bool, b)
		for i := range flips {
			flips[i] = i%2 == 1
		}
		for k, o := range constants {
			for _, flipped := range []bool{false, true} {
				f := o.filled()
				want := make([]float32, len(bytes))
				per := 3 * h * w
				for i := range b {
					require.NoError(t, pixel.Normalize(want[i*per:(i+1)*per], bytes[i*per:(i+1)*per], w, h, f.Mean, f.Std, flipped && flips[i]))
				}
				var flip *torch.Tensor
				if flipped {
					flip = torch.FromSlice(flips)
				}
				for _, last := range []bool{false, true} {
					o.ChannelsLast = last
					name := fmt.Sprintf("%v constants %d flip %v channels last %v", shape, k, flipped, last)
					x, err := Normalize(pixels, flip, o)
					require.NoError(t, err, name)
					require.Equal(t, []int{b, 3, h, w}, x.Shape())
					sameBits(t, want, torch.ToSlice[float32](x), name)
					require.True(t, !last || torch.ToSlice[float32](x.Permute(0, 2, 3, 1))[0] == want[0])
					for _, dt := range []torch.DType{torch.Float16, torch.BFloat16} {
						o.DType = dt
						y, err := Normalize(pixels, flip, o)
						require.NoError(t, err, name)
						require.Equal(t, dt, y.DType())
						require.Equal(t, torch.ToSlice[float32](x.ToDType(dt).ToDType(torch.Float32)), torch.ToSlice[float32](y.ToDType(torch.Float32)), name)
					}
					o.DType = 0
					require.InDeltaSlice(t, want, torch.ToSlice[float32](composed(pixels, flip, o.filled())), 1e-5, name)
				}
			}
		}
	}
}

func sameBits(t *testing.T, want, got []float32, name string) {
	t.Helper()
	require.Equal(t, len(want), len(got), name)
	for i := range want {
		if math.Float32bits(want[i]) != math.Float32bits(got[i]) {
			t.Fatalf("%s: value %d is %v, want %v", name, i, got[i], want[i])
		}
	}
}

func TestNormalizeRefuses(t *testing.T) {
	pixels := torch.Zeros(torch.S(2, 4, 4, 3), torch.Uint8)
	for name, c := range map[string]struct {
		pixels, flip *torch.Tensor
		o            Options
		want         string
	}{
		"no pictures": {want: "no pictures"},
		"floats":      {pixels: torch.Zeros(torch.S(2, 4, 4, 3)), want: "uint8 [B, H, W, 3]"},
		"channels":    {pixels: torch.Zeros(torch.S(2, 3, 4, 4), torch.Uint8), want: "uint8 [B, H, W, 3]"},
		"flips":       {pixels: pixels, flip: torch.FromSlice([]bool{true}), want: "want bool [2]"},
		"deviation":   {pixels: pixels, o: Options{Std: [3]float32{1, 0, 1}}, want: "channel 1"},
		"type":        {pixels: pixels, o: Options{DType: torch.Float64}, want: "want float32"},
	} {
		_, err := Normalize(c.pixels, c.flip, c.o)
		require.ErrorContains(t, err, c.want, name)
	}
	x, err := Normalize(torch.Zeros(torch.S(0, 4, 4, 3), torch.Uint8), nil, Options{})
	require.NoError(t, err)
	require.Equal(t, []int{0, 3, 4, 4}, x.Shape())
}

// The operator's resampling gives the bytes of pixel.Resize, whose tests compare them with Pillow's.
func TestResize(t *testing.T) {
	var r Resizer
	g := random.New(11)
	size := func() int { return 1 + int(g.RandomSample()*g.RandomSample()*120) }
	for i := range 60 {
		b, h, w := 1+i%3, size(), size()
		oh, ow := size(), size()
		if i%7 == 0 {
			oh = h
		}
		if i%11 == 0 {
			ow = w
		}
		bytes := noise(uint32(i), b*h*w*3)
		for _, f := range []pixel.Filter{pixel.Bilinear, pixel.Bicubic} {
			got, err := r.Resize(torch.FromSlice(bytes, b, h, w, 3), ow, oh, f)
			require.NoError(t, err)
			require.Equal(t, []int{b, oh, ow, 3}, got.Shape())
			var want []byte
			for k := range b {
				p, err := pixel.Resize(&pixel.RGB{W: w, H: h, Pix: bytes[k*h*w*3 : (k+1)*h*w*3]}, ow, oh, f)
				require.NoError(t, err)
				want = append(want, p.Pix...)
			}
			require.Equal(t, want, torch.ToSlice[uint8](got), "%d×%d to %d×%d %v", w, h, ow, oh, f)
		}
	}
	_, err := r.Resize(torch.Zeros(torch.S(1, 4, 4, 3), torch.Uint8), 2, 2, pixel.TorchvisionBicubic)
	require.ErrorContains(t, err, "pixel.Resize")
	_, err = r.Resize(torch.Zeros(torch.S(4, 4, 3), torch.Uint8), 2, 2, pixel.Bicubic)
	require.ErrorContains(t, err, "[B, H, W, 3]")
	_, err = r.Resize(torch.Zeros(torch.S(1, 4, 4, 3), torch.Uint8), 0, 2, pixel.Bicubic)
	require.Error(t, err)
}

func TestConcurrentResize(t *testing.T) {
	var r Resizer
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 10 {
				torch.Scope(func(*torch.Arena) { // its tables must outlive the scope
					_, err := r.Resize(torch.Zeros(torch.S(1, 9, 8+k, 3), torch.Uint8), 5+i%2, 4, pixel.Bicubic)
					require.NoError(t, err)
				})
			}
		})
	}
	wg.Wait()
}

// batches are rows of a data set of n pictures, each with its own noise, three times over in other orders.
func batches(n, h, w int) []*data.Batch {
	images := make([][]byte, n)
	for i := range images {
		images[i] = noise(uint32(100+i), 3*h*w)
	}
	g := random.New(3)
	var out []*data.Batch
	for range 3 {
		order := g.Permutation(n)
		for at := 0; at < n; at += 4 {
			b := &data.Batch{Width: w, Height: h}
			for _, r := range order[at:min(at+4, n)] {
				b.Rows, b.Images, b.Flip = append(b.Rows, int(r)), append(b.Images, images[r]), append(b.Flip, r%3 == 0)
			}
			if at == 0 { // a row twice in a batch
				b.Rows, b.Images, b.Flip = append(b.Rows, b.Rows[0]), append(b.Images, b.Images[0]), append(b.Flip, true)
			}
			out = append(out, b)
		}
	}
	return out
}

// A cache of any size changes nothing, also where it holds some of the rows only.
func TestBatchWithCache(t *testing.T) {
	const n, h, w = 14, 6, 5
	for _, places := range []int{0, 1, 3, 7, n, 2 * n} {
		in, err := New(torch.CPU, w, h, 2*n, int64(places*3*h*w+5), Options{ChannelsLast: true})
		require.NoError(t, err)
		for _, b := range batches(n, h, w) {
			for _, flip := range []bool{false, true} {
				torch.Scope(func(*torch.Arena) {
					x, err := in.Batch(b, 1, b.Len(), flip)
					require.NoError(t, err)
					got := torch.ToSlice[float32](x)
					want := make([]float32, 3*h*w)
					for i := 1; i < b.Len(); i++ {
						require.NoError(t, pixel.Normalize(want, b.Images[i], w, h, pixel.ImageNetMean, pixel.ImageNetStd, flip && b.Flip[i]))
						sameBits(t, want, got[(i-1)*len(want):i*len(want)], fmt.Sprint(places, b.Rows, i))
					}
				})
			}
		}
		if places >= 2*n {
			require.Equal(t, n, in.Cached())
		}
		require.LessOrEqual(t, in.Cached(), places)
		in.Close()
		require.Zero(t, in.Cached())
	}
}

func TestInputRefuses(t *testing.T) {
	_, err := New(torch.CPU, 0, 4, 1, 0, Options{})
	require.Error(t, err)
	_, err = New(torch.CPU, 4, 4, 1, -2, Options{})
	require.Error(t, err)
	in, err := New(torch.CPU, 4, 4, 1, 0, Options{})
	require.NoError(t, err)
	_, err = in.Batch(&data.Batch{Width: 5, Height: 4}, 0, 0, false)
	require.ErrorContains(t, err, "5 × 4")
	_, err = in.Batch(&data.Batch{Width: 4, Height: 4}, 0, 1, false)
	require.ErrorContains(t, err, "0 to 1")
}

func BenchmarkBatch448(b *testing.B) {
	const n, side = 16, 448
	batch := &data.Batch{Width: side, Height: side}
	for i := range n {
		batch.Rows, batch.Images, batch.Flip = append(batch.Rows, i), append(batch.Images, noise(uint32(i), 3*side*side)), append(batch.Flip, i%2 == 0)
	}
	in, err := New(torch.CPU, side, side, n, 0, Options{ChannelsLast: true})
	require.NoError(b, err)
	b.SetBytes(n * side * side * 3)
	b.Run("fused", func(b *testing.B) {
		for b.Loop() {
			torch.Scope(func(*torch.Arena) {
				if _, err := in.Batch(batch, 0, n, true); err != nil {
					b.Fatal(err)
				}
			})
		}
	})
	b.Run("separate", func(b *testing.B) { // normalised row-major, copied into a tensor, laid out anew
		x := make([]float32, n*3*side*side)
		for b.Loop() {
			torch.Scope(func(*torch.Arena) {
				for i := range n {
					if err := pixel.Normalize(x[i*3*side*side:(i+1)*3*side*side], batch.Images[i], side, side, pixel.ImageNetMean, pixel.ImageNetStd, batch.Flip[i]); err != nil {
						b.Fatal(err)
					}
				}
				torch.FromSlice(x, n, 3, side, side).ContiguousFormat(torch.ChannelsLast)
			})
		}
	})
}

// TestAhead: batches that are gathered ahead are those of the loader, whole and in parts, with a cache of any size,
// also where the loader takes the memory of a batch back; an error comes behind the batches before it, and a walk that
// is left early ends.
func TestAhead(t *testing.T) {
	const n, h, w = 14, 6, 5
	want := batches(n, h, w)
	broken := errors.New("a cable")
	memory := make([][]byte, 5)
	for i := range memory {
		memory[i] = make([]byte, 3*h*w)
	}
	lent := func(end error) func(ctx context.Context) iter.Seq2[*data.Batch, error] {
		return func(context.Context) iter.Seq2[*data.Batch, error] {
			return func(yield func(*data.Batch, error) bool) {
				for _, b := range want {
					c := *b
					c.Images = nil
					for i, m := range b.Images {
						copy(memory[i], m)
						c.Images = append(c.Images, memory[i])
					}
					ok := yield(&c, nil)
					for _, m := range memory {
						clear(m)
					}
					if !ok {
						return
					}
				}
				if end != nil {
					yield(nil, end)
				}
			}
		}
	}
	for _, places := range []int{0, 3, 7, 2 * n} {
		in, err := New(torch.CPU, w, h, 2*n, int64(places*3*h*w), Options{})
		require.NoError(t, err)
		plain, err := New(torch.CPU, w, h, 2*n, 0, Options{})
		require.NoError(t, err)
		k := 0
		for g, err := range in.Ahead(t.Context(), lent(broken)) {
			if k == len(want) {
				require.ErrorIs(t, err, broken)
				break
			}
			require.NoError(t, err)
			require.Equal(t, want[k].Rows, g.Batch.Rows)
			for _, part := range [][2]int{{0, want[k].Len()}, {1, want[k].Len()}, {0, 1}} {
				torch.Scope(func(*torch.Arena) {
					a, err := plain.Batch(want[k], part[0], part[1], true)
					require.NoError(t, err)
					b, err := in.BatchOf(g, part[0], part[1], true)
					require.NoError(t, err)
					sameBits(t, torch.ToSlice[float32](a), torch.ToSlice[float32](b), fmt.Sprint(places, k, part))
				})
			}
			k++
		}
		require.Equal(t, len(want), k)
		for range in.Ahead(t.Context(), lent(nil)) {
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ended := 0
		for _, err := range in.Ahead(ctx, func(ctx context.Context) iter.Seq2[*data.Batch, error] {
			return func(yield func(*data.Batch, error) bool) { yield(nil, ctx.Err()) }
		}) {
			require.ErrorIs(t, err, context.Canceled)
			ended++
		}
		require.Equal(t, 1, ended)
		in.Close()
	}
}
