package clip_test

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/caught"
)

// TestFaultsInPartsBreakOnePhoto: a caller's function runs on goroutines of the preprocessor, where a panic would end
// the program.
func TestFaultsInPartsBreakOnePhoto(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewRGBA(image.Rect(0, 0, 30, 20))))
	p, err := clip.NewPreprocessor(clip.OpenAIPreprocess, 16, 16, 3, pixel.Options{})
	require.NoError(t, err)
	x, broken, err := p.Views(context.Background(), [][]byte{b.Bytes(), b.Bytes(), b.Bytes()}, 1, func(i, w, h int) ([]image.Rectangle, error) {
		if i == 1 {
			panic("a fault in parts")
		}
		return []image.Rectangle{image.Rect(0, 0, w, h)}, nil
	})
	require.NoError(t, err)
	x.Free()
	var fault *caught.Error
	require.ErrorAs(t, broken[1], &fault)
	require.Contains(t, string(fault.Stack), "faults_test.go")
	require.NoError(t, broken[0])
	require.NoError(t, broken[2])
}

// TestExtremeOptions: whatever stands in a number of the options, it is an error or the model works.
func TestExtremeOptions(t *testing.T) {
	try := func(what string, o clip.Options) {
		m, err := clip.OpenBuiltin(o)
		if err != nil {
			return
		}
		defer m.Close()
		y, err := m.EncodeText(context.Background(), []string{"a cat", ""})
		require.NoError(t, err, what)
		y.Free()
		_, err = m.EncodeFiles(context.Background(), [][]byte{[]byte("no picture")})
		require.Error(t, err, what)
	}
	for i := range reflect.TypeFor[clip.Options]().NumField() {
		f := reflect.TypeFor[clip.Options]().Field(i)
		for _, x := range []int{math.MinInt64, -1, 1 << 31, 1 << 62, math.MaxInt64} {
			var o clip.Options
			switch v := reflect.ValueOf(&o).Elem().Field(i); v.Kind() {
			case reflect.Int:
				v.SetInt(int64(x))
			case reflect.Array:
				v.Index(0).SetInt(int64(x))
				v.Index(1).SetInt(int64(x))
			default:
				continue
			}
			try(f.Name, o)
		}
	}
}
