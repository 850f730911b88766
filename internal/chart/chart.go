// Package chart draws curves, scatters, histograms and bars as SVG.
//
// A picture is an svg element whose colours are CSS classes, so that a page can show it light and dark; [Standalone] makes a file of one or several. Widths are
// those of a column of a page: text stays readable on a narrow one. Functions keep no state and are safe for many goroutines.
package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Width of a picture in its own units, pixels where it is shown at its own size.
const Width = 460

// Series is a curve or a cloud of points. Points that are not finite are left out.
type Series struct {
	Name      string
	X, Y      []float64
	Low, High []float64 // a band around Y; nil: none
	Colour    int       // from 1; 0: by the series' place
	Dash      int       // from 0, a full line
	Notes     []string  // what each point of a curve says when it is pointed at; nil: its numbers
	Bare      bool      // a curve without its points
}

// Plot is a picture with two axes.
type Plot struct {
	Title, X, Y string // what the picture shows, and its axes
	XRange      [2]float64
	YRange      [2]float64 // both ends equal: what the points need
	WholeX      bool       // ticks of X on whole numbers
	LogX        bool       // X by its logarithm, ticks at powers of ten; all X are above 0
	Height      float64    // 270 by default
	Series      []Series
}

const (
	left, right, top, bottom = 46, 14, 30, 44
	legendRow                = 18
)

// Colours is the number of colours; further series repeat them with dashes.
const Colours = 8

func (p *Plot) style(i int) (colour, dash int) {
	s := p.Series[i]
	colour, dash = s.Colour, s.Dash
	if colour == 0 {
		colour = i%Colours + 1
		if dash == 0 {
			dash = i / Colours
		}
	}
	return colour, dash % 4
}

// note is what a point says.
func (s *Series) note(k int) string {
	if k < len(s.Notes) {
		return s.Notes[k]
	}
	return s.Name + ", " + Number(s.X[k]) + ": " + strconv.FormatFloat(s.Y[k], 'g', 5, 64)
}

// Lines draws the series as curves.
func (p Plot) Lines() string { return p.draw(false) }

// Points draws the series as clouds of points.
func (p Plot) Points() string { return p.draw(true) }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// along is where a value lies along the axis of X.
func (p *Plot) along(x float64) float64 {
	if p.LogX {
		return math.Log10(x)
	}
	return x
}

func (p *Plot) ranges() (x, y [2]float64) {
	x, y = p.XRange, p.YRange
	if x[0] != x[1] {
		x[0], x[1] = p.along(x[0]), p.along(x[1])
	}
	fit := func(to *[2]float64, all ...[]float64) {
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, vs := range all {
			for _, v := range vs {
				if finite(v) {
					lo, hi = min(lo, v), max(hi, v)
				}
			}
		}
		if lo > hi {
			lo, hi = 0, 1
		}
		if hi-lo < 1e-12 {
			pad := max(math.Abs(hi)*0.1, 0.5)
			lo, hi = lo-pad, hi+pad
		}
		*to = [2]float64{lo, hi}
	}
	if x[0] == x[1] {
		var all [][]float64
		for _, s := range p.Series {
			at := make([]float64, len(s.X))
			for i, v := range s.X {
				at[i] = p.along(v)
			}
			all = append(all, at)
		}
		fit(&x, all...)
	}
	if y[0] == y[1] {
		var all [][]float64
		for _, s := range p.Series {
			all = append(all, s.Y, s.Low, s.High)
		}
		fit(&y, all...)
		step := Tick(y[1] - y[0])
		y[0], y[1] = math.Floor(y[0]/step+1e-9)*step, math.Ceil(y[1]/step-1e-9)*step
	}
	return x, y
}

func (p Plot) draw(points bool) string {
	if p.Height == 0 {
		p.Height = 270
	}
	names := make([]string, 0, len(p.Series))
	for _, s := range p.Series {
		names = append(names, s.Name)
	}
	rows := legend(names)
	w, h := float64(Width-left-right), p.Height-top-bottom
	total := p.Height + float64(legendRow*len(rows))
	x, y := p.ranges()
	px := func(v float64) float64 { return left + (p.along(v)-x[0])/(x[1]-x[0])*w }
	py := func(v float64) float64 { return top + (y[1]-v)/(y[1]-y[0])*h }
	var b strings.Builder
	Open(&b, p.Title, Width, total)
	fmt.Fprintf(&b, `<text class="h" x="4" y="16">%s</text>`, html.EscapeString(p.Title))
	for _, v := range ticks(y, false) {
		class := "grid"
		if v == 0 && y[0] < 0 {
			class = "axis"
		}
		fmt.Fprintf(&b, `<path class="%s" d="M%d %.1fh%.0f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`, class, left, py(v), w, left-6, py(v)+4, Number(v))
	}
	for _, v := range ticks(x, p.WholeX || p.LogX) {
		if p.LogX {
			v = math.Pow(10, v)
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, px(v), top+h+16, Number(v))
	}
	fmt.Fprintf(&b, `<path class="axis" d="M%d %.1fh%.0f"/>`, left, top+h, w)
	fmt.Fprintf(&b, `<text class="m" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, left+w/2, top+h+34, html.EscapeString(p.X))
	if p.Y != "" {
		fmt.Fprintf(&b, `<text class="m" x="%d" y="16" text-anchor="end">%s</text>`, Width-right, html.EscapeString(p.Y))
	}
	for i, s := range p.Series {
		c, d := p.style(i)
		if points {
			for k := range s.X {
				if finite(s.X[k]) && finite(s.Y[k]) {
					fmt.Fprintf(&b, `<circle class="f%d" cx="%.1f" cy="%.1f" r="2.4" fill-opacity=".75"/>`, c, px(s.X[k]), py(s.Y[k]))
				}
			}
			continue
		}
		if len(s.Low) == len(s.X) && len(s.High) == len(s.X) && len(s.X) > 1 {
			var up, down strings.Builder
			for k := range s.X {
				fmt.Fprintf(&up, "%.1f,%.1f ", px(s.X[k]), py(s.High[k]))
			}
			for k := len(s.X) - 1; k >= 0; k-- {
				fmt.Fprintf(&down, "%.1f,%.1f ", px(s.X[k]), py(s.Low[k]))
			}
			fmt.Fprintf(&b, `<polygon class="f%d" fill-opacity=".13" points="%s%s"/>`, c, up.String(), strings.TrimSpace(down.String()))
		}
		var at []string
		flush := func() {
			if len(at) > 0 {
				fmt.Fprintf(&b, `<polyline class="s%d d%d" points="%s"><title>%s</title></polyline>`, c, d, strings.Join(at, " "), html.EscapeString(s.Name))
			}
			at = nil
		}
		for k := range s.X {
			if !finite(s.X[k]) || !finite(s.Y[k]) {
				flush()
				continue
			}
			at = append(at, fmt.Sprintf("%.1f,%.1f", px(s.X[k]), py(s.Y[k])))
		}
		flush()
		if len(s.X) > 40 || s.Bare {
			continue
		}
		for k := range s.X {
			if finite(s.Y[k]) {
				fmt.Fprintf(&b, `<circle class="f%d" cx="%.1f" cy="%.1f" r="2.6"><title>%s</title></circle>`,
					c, px(s.X[k]), py(s.Y[k]), html.EscapeString(s.note(k)))
			}
		}
	}
	i := 0
	for r, row := range rows {
		ly := p.Height + float64(r*legendRow)
		for _, e := range row {
			c, d := p.style(i)
			if points {
				fmt.Fprintf(&b, `<circle class="f%d" cx="%.0f" cy="%.1f" r="4"/>`, c, e.x+10, ly)
			} else {
				fmt.Fprintf(&b, `<path class="s%d d%d" d="M%.0f %.1fh20"/>`, c, d, e.x, ly)
			}
			fmt.Fprintf(&b, `<text x="%.0f" y="%.1f">%s</text>`, e.x+25, ly+4, html.EscapeString(e.name))
			i++
		}
	}
	b.WriteString("</svg>")
	return b.String()
}

type entry struct {
	name string
	x    float64
}

// legend lays names out in rows.
func legend(names []string) (rows [][]entry) {
	x := float64(left)
	var row []entry
	for _, n := range names {
		w := 25 + 6.4*float64(len([]rune(n))) + 16
		if len(row) > 0 && x+w > Width {
			rows, row, x = append(rows, row), nil, left
		}
		row = append(row, entry{n, x})
		x += w
	}
	if len(row) > 0 {
		rows = append(rows, row)
	}
	return rows
}

// Open begins a picture; the caller ends it with </svg>.
func Open(b *strings.Builder, title string, width, height float64) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s" font-family="system-ui,sans-serif" font-size="12">`, width, height, html.EscapeString(title))
}

// Tick is 1, 2 or 5 times a power of ten, four to nine of them in a span.
func Tick(span float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(span/4)))
	for _, m := range []float64{5, 2, 1} {
		if span/(m*p) >= 4-1e-9 {
			return m * p
		}
	}
	return p
}

func ticks(r [2]float64, whole bool) []float64 {
	step := Tick(r[1] - r[0])
	if whole {
		step = max(1, math.Ceil(step))
	}
	var out []float64
	for k := math.Ceil(r[0]/step - 1e-9); k*step <= r[1]+step*1e-9; k++ {
		out = append(out, math.Round(k*step/step)*step)
	}
	return out
}

// Number spells a value of an axis.
func Number(v float64) string {
	if math.Abs(v) < 1e-12 {
		return "0"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// Style are the classes of pictures; a page gives the colours --fg, --muted, --line and --s1 to --s8.
const Style = `.chart text{fill:var(--fg)}.chart .m{fill:var(--muted)}.chart .h{font-size:13px;font-weight:600}.chart .grid{stroke:var(--line)}.chart .axis{stroke:var(--muted)}
.chart polyline,.chart path.s1,.chart path.s2,.chart path.s3,.chart path.s4,.chart path.s5,.chart path.s6,.chart path.s7,.chart path.s8{fill:none;stroke-width:2;stroke-linejoin:round}
.s1{stroke:var(--s1)}.s2{stroke:var(--s2)}.s3{stroke:var(--s3)}.s4{stroke:var(--s4)}.s5{stroke:var(--s5)}.s6{stroke:var(--s6)}.s7{stroke:var(--s7)}.s8{stroke:var(--s8)}
.f1{fill:var(--s1)}.f2{fill:var(--s2)}.f3{fill:var(--s3)}.f4{fill:var(--s4)}.f5{fill:var(--s5)}.f6{fill:var(--s6)}.f7{fill:var(--s7)}.f8{fill:var(--s8)}
.d1{stroke-dasharray:6 3}.d2{stroke-dasharray:2 3}.d3{stroke-dasharray:9 3 2 3}
`

// Light and Dark give the colours: the accent first, the others apart from each other for any colour vision (after Okabe and Ito 2008).
const (
	Light = `--bg:#fff;--fg:#1b1f24;--muted:#5f6873;--line:#e4e7eb;--card:#f6f7f9;--s1:#0b6bcb;--s2:#d55e00;--s3:#00835f;--s4:#b0589a;--s5:#a87b00;--s6:#727b86;--s7:#7048c6;--s8:#1f8aa3`
	Dark  = `--bg:#14171b;--fg:#e8ebef;--muted:#9ba5b0;--line:#2d333b;--card:#1c2026;--s1:#5aa9f5;--s2:#ff9152;--s3:#3ccb9b;--s4:#e295d2;--s5:#efc04a;--s6:#9ba5b0;--s7:#b79cff;--s8:#62cce2`
)

// Standalone makes a file of pictures below each other.
func Standalone(title string, pictures ...string) []byte {
	var b strings.Builder
	total := 0.0
	sizes := make([][2]float64, len(pictures))
	widest := float64(Width)
	for i, p := range pictures {
		var w, h float64
		at := strings.Index(p, `viewBox="0 0 `)
		if at >= 0 {
			fmt.Sscanf(p[at:], `viewBox="0 0 %f %f"`, &w, &h)
		}
		sizes[i] = [2]float64{w, h}
		widest = max(widest, w)
		total += h + 12
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" role="img"><title>%s</title>`, widest+16, total+8, widest+16, html.EscapeString(title))
	fmt.Fprintf(&b, "<style>:root{%s}\n%s@media (prefers-color-scheme: dark){:root{%s}}</style>", Light, Style, Dark)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" style="fill:var(--bg)"/>`+"\n")
	y := 8.0
	for i, p := range pictures {
		b.WriteString(strings.Replace(p, "<svg ", fmt.Sprintf(`<svg x="8" y="%.0f" width="%.0f" height="%.0f" `, y, sizes[i][0], sizes[i][1]), 1))
		b.WriteByte('\n')
		y += sizes[i][1] + 12
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}
