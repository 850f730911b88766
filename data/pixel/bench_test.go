//go:build cgo

package pixel

import (
	"path/filepath"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/stretchr/testify/require"
)

// benchFiles are the photos of the Python peers: COCO and VOC originals, and every 25th bird.
func benchFiles(b *testing.B, kind string) (files [][]byte) {
	patterns := map[string][]string{
		"scene": {"coco/coco128/*/*.jpg", "coco/coco_mini/val2017/*.jpg", "VOCdevkit/VOC2012/JPEGImages/*.jpg"},
		"cub":   {"cub/images/*/*.jpg"},
	}[kind]
	every := map[string]int{"scene": 1, "cub": 25}[kind]
	for _, p := range patterns {
		paths, err := filepath.Glob(filepath.Join(testroot.Shared(b, "data"), p))
		require.NoError(b, err)
		for i := 0; i < len(paths); i += every {
			files = append(files, readFile(b, paths[i]))
		}
	}
	require.NotEmpty(b, files)
	return files
}

func benchDecoder(b *testing.B, f func(d *Decoder, file []byte) error) {
	for _, kind := range []string{"scene", "cub"} {
		b.Run(kind, func(b *testing.B) {
			files := benchFiles(b, kind)
			d, err := NewDecoder(Options{})
			require.NoError(b, err)
			defer d.Close()
			size := 0
			for _, file := range files {
				size += len(file)
				require.NoError(b, f(d, file))
			}
			b.SetBytes(int64(size / len(files)))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := f(d, files[i%len(files)]); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// JPEG bytes to uint8 [448, 448, 3], one goroutine.
func BenchmarkDecodeResize448(b *testing.B) {
	pixels := make([]byte, 448*448*3)
	benchDecoder(b, func(d *Decoder, file []byte) error { return d.Resized(file, 448, 448, Bilinear, pixels) })
}

// JPEG bytes to normalized float32 [3, 448, 448], one goroutine.
func BenchmarkDecodeNormalize448(b *testing.B) {
	values := make([]float32, 448*448*3)
	benchDecoder(b, func(d *Decoder, file []byte) error {
		return d.Normalized(file, 448, 448, Bilinear, ImageNetMean, ImageNetStd, false, values)
	})
}

// A cached picture uint8 [448, 448, 3] to normalized float32 [3, 448, 448].
func BenchmarkNormalize448(b *testing.B) {
	p, values := fillImage("bench", 448, 448), make([]float32, 448*448*3)
	b.SetBytes(int64(len(p.Pix)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Normalize(values, p.Pix, 448, 448, ImageNetMean, ImageNetStd, true); err != nil {
			b.Fatal(err)
		}
	}
}

// CLIP's geometry from a decoded photo-sized picture.
func BenchmarkTransformCLIP224(b *testing.B) {
	p := fillImage("bench", 500, 375)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Transform(p, ShortSide(p.W, p.H, 224, Bicubic)); err != nil {
			b.Fatal(err)
		}
	}
}
