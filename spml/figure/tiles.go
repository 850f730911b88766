package figure

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"html"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"strings"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/chart"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/vlm"
)

// tileEpochs is how many epochs' tiles are drawn.
const tileEpochs = 3

// tiles is Fig. 1 of AEVLP's supplement: a photo, and in each epoch the boxes of its tiles with the tiles themselves beside them.
func tiles(_ context.Context, _ *Figure, paths []string, o Options) ([]string, error) {
	s, err := vlm.Published(vlm.DAMP, o.DataSet, vlm.Default)
	if err != nil {
		return nil, &config.Error{Msg: err.Error()}
	}
	s.Seed = 1200
	var pictures []string
	for row, path := range paths {
		file, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		rgb, err := pixel.Decode(file, pixel.Options{})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for epoch := 1; epoch <= tileEpochs; epoch++ {
			boxes, err := s.Boxes(epoch, row, rgb.W, rgb.H)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			p, err := tilePicture(rgb, boxes, s.Grid, fmt.Sprintf("photo-%d-%d", row, epoch), fmt.Sprintf("%s, epoch %d: %d×%d tiles, overlap to %g", filepath.Base(path), epoch, s.Grid, s.Grid, s.Overlap))
			if err != nil {
				return nil, err
			}
			pictures = append(pictures, p)
		}
	}
	return pictures, nil
}

// tilePicture draws the photo with its boxes at the left, the tiles cut out at the right, in their grid.
func tilePicture(rgb *pixel.RGB, boxes []image.Rectangle, g int, id, title string) (string, error) {
	const top, gap = 30.0, 6.0
	half := (chart.Width - 3*gap) / 2
	scale := min(half/float64(rgb.W), 320/float64(rgb.H))
	w, h := float64(rgb.W)*scale, float64(rgb.H)*scale
	small, err := pixel.Resize(rgb, max(1, int(w*1.5)), max(1, int(h*1.5)), pixel.Bilinear) // sharp on screens with finer pixels too
	if err != nil {
		return "", err
	}
	m := image.NewRGBA(image.Rect(0, 0, small.W, small.H))
	for i := range small.W * small.H {
		copy(m.Pix[4*i:], small.Pix[3*i:3*i+3])
		m.Pix[4*i+3] = 255
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, m, &jpeg.Options{Quality: 85}); err != nil {
		return "", err
	}
	href := "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(file.Bytes())
	b := &strings.Builder{}
	chart.Open(b, title, chart.Width, top+h+gap)
	fmt.Fprintf(b, `<text class="h" x="0" y="16">%s</text>`, html.EscapeString(title))
	fmt.Fprintf(b, `<defs><image id="%s" href="%s" width="%d" height="%d" preserveAspectRatio="none"/></defs><use href="#%[1]s" transform="translate(0 %[5]g) scale(%[6]g)"/>`, id, href, rgb.W, rgb.H, top, scale)
	for i, r := range boxes {
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="none" class="s%d" stroke-width="2"/>`,
			float64(r.Min.X)*scale, top+float64(r.Min.Y)*scale, float64(r.Dx())*scale, float64(r.Dy())*scale, i%chart.Colours+1)
	}
	left, cell, line := w+2*gap, (w-float64(g-1)*gap)/float64(g), (h-float64(g-1)*gap)/float64(g)
	for i, r := range boxes {
		x, y := left+float64(i%g)*(cell+gap), top+float64(i/g)*(line+gap)
		fmt.Fprintf(b, `<svg x="%.1f" y="%.1f" width="%.1f" height="%.1f" viewBox="%d %d %d %d"><use href="#%s"/></svg>`,
			x, y, cell, line, r.Min.X, r.Min.Y, r.Dx(), r.Dy(), id)
	}
	b.WriteString("</svg>")
	return b.String(), nil
}
