package input

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/csrc/cuda/emulator"
	"github.com/gospml/gospml/torch"
)

// TestGPUNormalize: the card's bits are the CPU's.
func TestGPUNormalize(t *testing.T) {
	d, here := emulator.Device(t)
	if !here {
		return
	}
	const b, h, w = 5, 64, 70
	pixels := torch.FromSlice(everyLevel(b, h, w), b, h, w, 3)
	flip := torch.FromSlice([]bool{true, false, true, true, false})
	for _, o := range constants {
		for _, dt := range []torch.DType{torch.Float32, torch.Float16, torch.BFloat16} {
			for _, last := range []bool{false, true} {
				o.DType, o.ChannelsLast = dt, last
				want, err := Normalize(pixels, flip, o)
				require.NoError(t, err)
				got, err := Normalize(pixels.ToDevice(d), flip.ToDevice(d), o)
				require.NoError(t, err)
				sameBits(t, torch.ToSlice[float32](want.ToDType(torch.Float32)), torch.ToSlice[float32](got.ToDevice(torch.CPU).ToDType(torch.Float32)), fmt.Sprint(dt, last))
			}
		}
	}
}

// TestGPUResize: the card's resampling gives the bytes of pixel.Resize.
func TestGPUResize(t *testing.T) {
	d, here := emulator.Device(t)
	if !here {
		return
	}
	var r Resizer
	for i, s := range [][4]int{{500, 375, 448, 448}, {227, 227, 448, 448}, {33, 400, 30, 17}, {1, 9, 5, 1}, {640, 480, 298, 224}} {
		bytes := noise(uint32(i), s[0]*s[1]*3)
		for _, f := range []pixel.Filter{pixel.Bilinear, pixel.Bicubic} {
			want, err := pixel.Resize(&pixel.RGB{W: s[0], H: s[1], Pix: bytes}, s[2], s[3], f)
			require.NoError(t, err)
			got, err := r.Resize(torch.FromSlice(bytes, 1, s[1], s[0], 3).ToDevice(d), s[2], s[3], f)
			require.NoError(t, err)
			require.Equal(t, want.Pix, torch.ToSlice[uint8](got.ToDevice(torch.CPU)), "%v %v", s, f)
		}
	}
}

// TestGPUInput: batches by way of the device's cache are the CPU's.
func TestGPUInput(t *testing.T) {
	d, here := emulator.Device(t)
	if !here {
		return
	}
	const n, h, w = 14, 32, 30
	for _, bytes := range []int64{0, 5 * 3 * h * w, HalfOfFree} {
		in, err := New(d, w, h, 2*n, bytes, Options{ChannelsLast: true})
		require.NoError(t, err)
		here, err := New(torch.CPU, w, h, 2*n, 0, Options{ChannelsLast: true})
		require.NoError(t, err)
		for _, b := range batches(n, h, w) {
			want, err := here.Batch(b, 0, b.Len(), true)
			require.NoError(t, err)
			got, err := in.Batch(b, 0, b.Len(), true)
			require.NoError(t, err)
			sameBits(t, torch.ToSlice[float32](want), torch.ToSlice[float32](got.ToDevice(torch.CPU)), fmt.Sprint(bytes))
		}
		in.Close()
	}
}
