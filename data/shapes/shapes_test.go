package shapes

import (
	"context"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
)

// TestGoldenPictures: the same bytes on every machine and for ever. Runs that name "shapes" and a seed depend on it.
func TestGoldenPictures(t *testing.T) {
	for seed, want := range map[uint64]string{0: "a94c3620", 1: "a7afc5f3", math.MaxUint64: "f9d95ebf"} {
		h := crc32.NewIEEE()
		buf := make([]byte, PictureBytes)
		for _, part := range []uint64{0, 1 << 32, 2 << 32} {
			for i := range uint64(100) {
				y := Draw(seed, part+i, buf)
				h.Write(buf)
				for _, v := range y {
					h.Write([]byte{byte(v)})
				}
			}
		}
		require.Equal(t, want, fmt.Sprintf("%08x", h.Sum32()), "seed %d", seed)
	}
}

func TestSineTable(t *testing.T) {
	for a := -300; a < 600; a++ {
		require.Equal(t, int(math.RoundToEven(math.Sin(float64(a)*math.Pi/128)*(1<<14))), sine(a), "angle %d", a)
	}
}

// TestLabelsAreVisible: an object leaves its colours and texture in the picture. Each scene is painted on grey without noise; its labels are then found again
// from the pixels of each object's place.
func TestLabelsAreVisible(t *testing.T) {
	grey := make([]byte, PictureBytes)
	for i := range grey {
		grey[i] = 128
	}
	for index := range uint64(2000) {
		objects, _ := scene(3, index)
		require.NotEmpty(t, objects)
		all := append([]byte(nil), grey...)
		for i := range objects {
			objects[i].paint(all)
		}
		for i := range objects {
			o := &objects[i]
			alone := append([]byte(nil), grey...)
			o.paint(alone)
			own, kept, ink, second := 0, 0, 0, 0
			for p := 0; p < PictureBytes; p += 3 {
				a := [3]int{int(alone[p]), int(alone[p+1]), int(alone[p+2])}
				if a == [3]int{128, 128, 128} {
					continue
				}
				own++
				if alone[p] == all[p] && alone[p+1] == all[p+1] && alone[p+2] == all[p+2] {
					kept++
				}
				if a == o.ink {
					ink++
				} else if a == o.second {
					second++
				}
			}
			require.Greater(t, own, 25, "picture %d: object %d has %d pixels", index, i, own)
			require.Greater(t, kept*100, own*70, "picture %d: object %d is hidden", index, i)
			require.Greater(t, ink, 6, "picture %d: object %d shows little of its colour", index, i)
			if o.texture == plain {
				require.Zero(t, second)
			} else {
				require.Greater(t, second+own/8, own/6, "picture %d: object %d shows little of its texture", index, i)
			}
		}
	}
}

func TestStatistics(t *testing.T) {
	d, err := New(1, 20000, 0, 0)
	require.NoError(t, err)
	require.NoError(t, d.Validate())
	total, perClass := 0, make([]int, d.C())
	redCircles, circles, reds := 0, 0, 0
	for i := range d.N() {
		y := d.LabelRow(i)
		for c, v := range y {
			total += int(v)
			perClass[c] += int(v)
		}
		circles, reds, redCircles = circles+int(y[circle]), reds+int(y[firstColour]), redCircles+int(y[circle]*y[firstColour])
	}
	mean := float64(total) / float64(d.N())
	require.InDelta(t, 3.6, mean, 0.1, "labels a picture")
	for c, k := range perClass {
		require.Greater(t, k, d.N()/8, Classes[c])
		require.Less(t, k, d.N()/2, Classes[c])
	}
	require.Greater(t, float64(redCircles)*float64(d.N()), 1.2*float64(circles)*float64(reds), "circles and red do not co-occur")
}

func TestNew(t *testing.T) {
	d, err := New(9, 6, 3, 4)
	require.NoError(t, err)
	require.NoError(t, d.Validate())
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, d.Rows(data.Train))
	require.Equal(t, []int{6, 7, 8}, d.Rows(data.Val))
	require.Equal(t, []int{9, 10, 11, 12}, d.Rows(data.Test))
	require.Equal(t, "val/1", d.Images[7])
	l, err := data.NewLoader(d, data.LoaderOptions{Width: Size, Height: Size, Workers: 2, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer l.Close()
	seen, buf := map[uint32]bool{}, make([]byte, PictureBytes)
	for b, err := range l.Batches(context.Background(), data.Plan{Order: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, BatchSize: 5}) {
		require.NoError(t, err)
		for i, row := range b.Rows {
			image := b.Images[i]
			y := Draw(9, uint64(d.Split[row])<<32|uint64(row-d.Rows(d.Split[row])[0]), buf)
			require.Equal(t, buf, image)
			require.Equal(t, y[:], d.LabelRow(row))
			seen[crc32.ChecksumIEEE(image)] = true
		}
	}
	require.Len(t, seen, 13, "pictures repeat")

	// A larger set begins with the smaller one; parts do not move.
	big, err := New(9, 60, 30, 40)
	require.NoError(t, err)
	require.Equal(t, d.LabelRow(5), big.LabelRow(5))
	require.Equal(t, d.LabelRow(8), big.LabelRow(62))
	require.Equal(t, d.LabelRow(12), big.LabelRow(93))

	// Other sizes are resized as photos are.
	r, err := d.Source.NewReader(data.ReadOptions{Filter: pixel.Bicubic})
	require.NoError(t, err)
	got := make([]byte, 100*90*3)
	require.NoError(t, r.Read(7, 100, 90, got))
	Draw(9, 1<<32+1, buf)
	want, err := pixel.Resize(&pixel.RGB{W: Size, H: Size, Pix: buf}, 100, 90, pixel.Bicubic)
	require.NoError(t, err)
	require.Equal(t, want.Pix, got)
	require.NoError(t, r.Close())

	_, err = New(1, -1, 2, 2)
	require.ErrorContains(t, err, "each must be 0 to")
	_, err = New(1, 0, 0, 0)
	require.Error(t, err)
}

func BenchmarkShapes(b *testing.B) {
	buf := make([]byte, PictureBytes)
	index := uint64(0)
	b.SetBytes(PictureBytes)
	for b.Loop() {
		Draw(1, index, buf)
		index++
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pictures/s")
}
