//go:build cgo

package augment

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/internal/testroot"
)

// draw makes the same picture as picture() of testdata/augment/make.py.
func draw(seed uint32, w, h int) *pixel.RGB {
	g := random.New(seed)
	p := &pixel.RGB{W: w, H: h, Pix: make([]byte, 3*w*h)}
	for i := range p.Pix {
		u := g.RandomSample()
		switch i % 3 {
		case 1:
			u *= u
		case 2:
			u = 0.2 + 0.5*u
		}
		if seed%2 == 1 {
			u = (u + float64(i/3%w)/float64(w)*3 + float64(i/3/w)/float64(h)*4) / 8
		}
		if seed%5 == 4 {
			u = 0.3
		}
		p.Pix[i] = byte(u * 256)
	}
	return p
}

func clone(p *pixel.RGB) *pixel.RGB { return &pixel.RGB{W: p.W, H: p.H, Pix: slices.Clone(p.Pix)} }

// applied does what the name of a golden says.
func applied(t *testing.T, name string, p *pixel.RGB, centre [2]int) *pixel.RGB {
	words := strings.Fields(name)
	args := make([]float64, len(words)-1)
	for i := range args {
		v, err := strconv.ParseFloat(words[1+i], 64)
		require.NoError(t, err)
		args[i] = v
	}
	switch words[0] {
	case "Hue":
		Hue(p, args[0])
	case "Gray":
		Gray(p)
	case "Flip":
		Flip(p)
	case "Turn":
		Rotate(p, args[0])
	case "Crop":
		x, y := int(args[0]), int(args[1])
		q, err := pixel.Transform(p, pixel.Geometry{W: int(args[4]), H: int(args[4]), Filter: map[float64]pixel.Filter{2: pixel.Bilinear, 3: pixel.Bicubic}[args[5]],
			Source: image.Rect(x, y, x+int(args[2]), y+int(args[3]))})
		require.NoError(t, err)
		return q
	case "Cutout":
		o, err := FindOperation("Cutout")
		require.NoError(t, err)
		graySquare(p, int(o.Levels[int(args[0])]), centre[0], centre[1])
	default:
		o, err := FindOperation(words[0])
		require.NoError(t, err)
		o.Apply(p, math.Copysign(o.Levels[int(math.Abs(args[0]))], args[0]), nil)
	}
	return p
}

func TestOperationsAsPillow(t *testing.T) {
	var g struct {
		Pictures []struct {
			Seed   uint32
			WH     [2]int
			CRC32  uint32
			Centre [2]int
			Ops    map[string]uint32
		}
	}
	b, err := os.ReadFile(testroot.Testdata("augment", "ops.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &g))
	require.Len(t, g.Pictures, 10)
	n := 0
	var wrong []string
	for _, c := range g.Pictures {
		p := draw(c.Seed, c.WH[0], c.WH[1])
		require.Equal(t, c.CRC32, crc32.ChecksumIEEE(p.Pix), "the picture itself")
		for _, name := range slices.Sorted(maps.Keys(c.Ops)) {
			n++
			q := applied(t, name, clone(p), c.Centre)
			if crc32.ChecksumIEEE(q.Pix) != c.Ops[name] {
				wrong = append(wrong, fmt.Sprintf("%v %s", c.WH, name))
			}
		}
	}
	require.Empty(t, wrong)
	require.Greater(t, n, 2000)
}
