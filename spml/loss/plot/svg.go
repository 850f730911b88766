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
	perRow, rowHeight       = 5, 16 // of the legend
)

// quantities are what a picture shows of a curve.
var quantities = []struct {
	name string
	get  func(Series) []float64
}{{"loss", func(s Series) []float64 { return s.Loss }}, {"gradient", func(s Series) []float64 { return s.Grad }}}

// Colours that people with any colour vision can tell apart (Okabe and Ito 2008), with dashes beside.
var (
	colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}
	dashes  = []string{"", "6 3", "2 2", "8 2 2 2", "1 3", "4 4"}
)

// dash differs between curves of one colour.
func dash(i int) string { return dashes[(i+i/len(colours))%len(dashes)] }

// SVG draws loss and gradient side by side.
func SVG(title string, curves []Series) []byte {
	var b bytes.Buffer
	w, h := left+2*panelWidth+gap+12, top+panelHeight+bottom+(len(curves)-1)/perRow*rowHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", w, h)
	fmt.Fprintf(&b, `<title>%s</title><rect width="%d" height="%d" fill="#fff"/>`+"\n", html.EscapeString(title), w, h)
	for i, of := range quantities {
		panel(&b, left+i*(panelWidth+gap), of.name, curves, of.get)
	}
	for i, c := range curves {
		x, y := left+i%perRow*150, h-8-((len(curves)-1)/perRow-i/perRow)*rowHeight
		fmt.Fprintf(&b, `<path d="M%d %dh22" stroke="%s" stroke-width="2" stroke-dasharray="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			x, y-4, colours[i%len(colours)], dash(i), x+26, y, html.EscapeString(c.Name))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func panel(b io.Writer, x0 int, name string, curves []Series, get func(Series) []float64) {
	r := rangeOf(curves, get)
	lo, hi, zlo, zhi, step := r.lo, r.hi, r.zlo, r.zhi, r.step
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
		fmt.Fprintf(b, `<path d="M%d %.1fh%d" stroke="%s"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", x0, py(v), panelWidth, colour, x0-5, py(v)+4, number(v, step))
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
			strings.TrimSpace(d.String()), colours[i%len(colours)], dash(i))
	}
}

// limits are the ends of both axes, those of the values on a multiple of step.
type limits struct{ lo, hi, zlo, zhi, step float64 }

func rangeOf(curves []Series, get func(Series) []float64) limits {
	r := limits{zlo: math.Inf(1), zhi: math.Inf(-1)}
	for _, c := range curves {
		for i, v := range get(c) {
			r.lo, r.hi = min(r.lo, v), max(r.hi, v)
			r.zlo, r.zhi = min(r.zlo, c.Z[i]), max(r.zhi, c.Z[i])
		}
	}
	if r.hi-r.lo < 1e-9 {
		r.hi = r.lo + 1
	}
	r.step = tick(r.hi - r.lo)
	r.lo, r.hi = math.Floor(r.lo/r.step)*r.step, math.Ceil(r.hi/r.step)*r.step
	return r
}

// number spells a multiple of step.
func number(v, step float64) string {
	return strconv.FormatFloat(math.Round(v/step)*step, 'g', 3, 64)
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
