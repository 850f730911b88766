package plot

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
	"strings"
)

// Sizes of the picture in its own units.
const (
	panelWidth, panelHeight = 330, 220
	left, top, gap, bottom  = 46, 30, 60, 40
)

// Colours that people with any colour vision can tell apart (Okabe and Ito 2008), with dashes beside.
var (
	colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}
	dashes  = []string{"", "6 3", "2 2", "8 2 2 2", "1 3", "4 4"}
)

// SVG draws loss and gradient side by side.
func SVG(title string, curves []Series) []byte {
	var b bytes.Buffer
	w, h := left+2*panelWidth+gap+12, top+panelHeight+bottom
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", w, h)
	fmt.Fprintf(&b, `<title>%s</title><rect width="%d" height="%d" fill="#fff"/>`+"\n", html.EscapeString(title), w, h)
	for i, of := range []struct {
		name string
		get  func(Series) []float64
	}{{"loss", func(s Series) []float64 { return s.Loss }}, {"gradient", func(s Series) []float64 { return s.Grad }}} {
		panel(&b, left+i*(panelWidth+gap), of.name, curves, of.get)
	}
	for i, c := range curves {
		x, y := left+i*150, h-8
		fmt.Fprintf(&b, `<path d="M%d %dh22" stroke="%s" stroke-width="2" stroke-dasharray="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			x, y-4, colours[i%len(colours)], dashes[i%len(dashes)], x+26, y, html.EscapeString(c.Name))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func panel(b io.Writer, x0 int, name string, curves []Series, get func(Series) []float64) {
	lo, hi := 0.0, 0.0
	zlo, zhi := math.Inf(1), math.Inf(-1)
	for _, c := range curves {
		for i, v := range get(c) {
			lo, hi = min(lo, v), max(hi, v)
			zlo, zhi = min(zlo, c.Z[i]), max(zhi, c.Z[i])
		}
	}
	if hi-lo < 1e-9 {
		hi = lo + 1
	}
	step := tick(hi - lo)
	lo, hi = math.Floor(lo/step)*step, math.Ceil(hi/step)*step
	px := func(z float64) float64 { return float64(x0) + (z-zlo)/(zhi-zlo)*panelWidth }
	py := func(v float64) float64 { return top + (hi-v)/(hi-lo)*panelHeight }
	fmt.Fprintf(b, `<text x="%d" y="%d" font-size="13">%s over the logit</text>`+"\n", x0, top-10, name)
	for k := 0; ; k++ {
		v := lo + float64(k)*step
		if v > hi+step/2 {
			break
		}
		colour := "#e4e4e4"
		if math.Abs(v) < step/2 {
			colour, v = "#888", 0
		}
		fmt.Fprintf(b, `<path d="M%d %.1fh%d" stroke="%s"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", x0, py(v), panelWidth, colour, x0-5, py(v)+4, strconv.FormatFloat(math.Round(v/step)*step, 'g', 3, 64))
	}
	for z := math.Ceil(zlo/2) * 2; z <= zhi; z += 2 {
		fmt.Fprintf(b, `<path d="M%.1f %dv%d" stroke="#e4e4e4"/><text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n", px(z), top, panelHeight, px(z), top+panelHeight+14, z)
	}
	for i, c := range curves {
		var d strings.Builder
		for k, v := range get(c) {
			fmt.Fprintf(&d, "%.1f,%.1f ", px(c.Z[k]), py(v))
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n",
			strings.TrimSpace(d.String()), colours[i%len(colours)], dashes[i%len(dashes)])
	}
}

// tick is 1, 2 or 5 times a power of ten, four to nine of them in a span.
func tick(span float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(span/4)))
	for _, m := range []float64{5, 2, 1} {
		if span/(m*p) >= 4 {
			return m * p
		}
	}
	return p
}
