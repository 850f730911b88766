package chart

import (
	"fmt"
	"html"
	"strings"
)

// Histogram is a row of [Ridges].
type Histogram struct {
	Name   string
	Counts []int // equal bins on 0…1
	Mean   float64
	Colour int // from 1
}

// Sizes of a row of Ridges, which a script that redraws them needs.
const (
	RidgeLeft, RidgeWidth = 8, Width - 16
	RidgeHeight           = 54 // of the bars
	ridgeRow              = RidgeHeight + 26
)

// Ridges draws histograms below each other over a common axis 0…1, each scaled by its own highest bin, with its number of entries and its mean.
func Ridges(title, x string, rows []Histogram) string {
	var b strings.Builder
	height := float64(28 + ridgeRow*len(rows) + 34)
	Open(&b, title, Width, height)
	fmt.Fprintf(&b, `<text class="h" x="4" y="16">%s</text>`, html.EscapeString(title))
	for i, r := range rows {
		y := float64(28 + i*ridgeRow)
		n := 0
		for _, k := range r.Counts {
			n += k
		}
		fmt.Fprintf(&b, `<g class="ridge"><text x="%d" y="%.0f">%s <tspan class="m count">%s</tspan></text><path class="f%d bars" fill-opacity=".8" transform="translate(0 %.0f)" d="%s"/>`,
			RidgeLeft, y+14, html.EscapeString(r.Name), RidgeNote(n, r.Mean), r.Colour, y+20, RidgePath(r.Counts))
		fmt.Fprintf(&b, `<path class="axis" d="M%d %.0fh%d"/><path class="axis mean" stroke-dasharray="3 2" d="M%.1f %.0fv%d"/></g>`, RidgeLeft, y+20+RidgeHeight, RidgeWidth, RidgeLeft+RidgeWidth*r.Mean, y+20, RidgeHeight)
	}
	base := float64(28 + len(rows)*ridgeRow)
	for k := 0; k <= 5; k++ {
		anchor := "middle"
		if k == 0 {
			anchor = "start"
		} else if k == 5 {
			anchor = "end"
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%.0f" text-anchor="%s">%s</text>`, RidgeLeft+float64(RidgeWidth*k)/5, base+8, anchor, Number(float64(k)/5))
	}
	fmt.Fprintf(&b, `<text class="m" x="%d" y="%.0f" text-anchor="middle">%s</text></svg>`, Width/2, base+26, html.EscapeString(x))
	return b.String()
}

// RidgeNote is what stands behind a row's name.
func RidgeNote(n int, mean float64) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprintf("%d, mean %.2f", n, mean)
}

// RidgePath draws counts as bars within RidgeHeight.
func RidgePath(counts []int) string {
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	var b strings.Builder
	w := float64(RidgeWidth) / float64(max(len(counts), 1))
	for i, n := range counts {
		if n > 0 {
			h := max(0.8, RidgeHeight*float64(n)/float64(most))
			fmt.Fprintf(&b, "M%.1f %dv%.1fh%.1fv%.1fz", RidgeLeft+w*float64(i), RidgeHeight, -h, w, h)
		}
	}
	return b.String()
}

// Bar is a row of [Bars]: a name and a value of each series, NaN for none.
type Bar struct {
	Name   string
	Values []float64
	Note   string // behind the bars
}

// Bars draws rows of horizontal bars from 0 to most (0: the largest value), one bar for each of the series.
func Bars(title string, series []string, most float64, rows []Bar) string {
	const name, note, thick = 122, 58, 13
	var b strings.Builder
	per := float64(max(len(series), 1)*thick + 7)
	keys := legend(series)
	if len(series) < 2 {
		keys = nil
	}
	height := 28 + per*float64(len(rows)) + 8 + float64(legendRow*len(keys))
	Open(&b, title, Width, height)
	fmt.Fprintf(&b, `<text class="h" x="4" y="16">%s</text>`, html.EscapeString(title))
	if most == 0 {
		for _, r := range rows {
			for _, v := range r.Values {
				if finite(v) {
					most = max(most, v)
				}
			}
		}
	}
	for i, r := range rows {
		y := 28 + per*float64(i)
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`, name-6, y+per/2+1, html.EscapeString(Shorten(r.Name, 19)))
		for k, v := range r.Values {
			if !finite(v) {
				continue
			}
			w := (Width - name - note) * v / max(most, 1e-12)
			fmt.Fprintf(&b, `<rect class="f%d" x="%d" y="%.1f" width="%.1f" height="%d" rx="2"><title>%s %s: %s</title></rect><text class="m" font-size="10" x="%.1f" y="%.1f">%s</text>`,
				k%Colours+1, name, y+float64(k*thick), max(w, 0.5), thick-2, html.EscapeString(r.Name), html.EscapeString(pick(series, k)), Number(v), name+w+4, y+float64(k*thick)+9, short(v))
		}
		if r.Note != "" {
			fmt.Fprintf(&b, `<text class="m" x="%d" y="%.1f" text-anchor="end">%s</text>`, Width-4, y+per/2+1, html.EscapeString(r.Note))
		}
	}
	i := 0
	for r, row := range keys {
		ly := height - float64(legendRow*(len(keys)-r)) + 8
		for _, e := range row {
			fmt.Fprintf(&b, `<rect class="f%d" x="%.0f" y="%.1f" width="12" height="10" rx="2"/><text x="%.0f" y="%.1f">%s</text>`, i%Colours+1, e.x, ly-5, e.x+18, ly+4, html.EscapeString(e.name))
			i++
		}
	}
	b.WriteString("</svg>")
	return b.String()
}

// Matrix draws a square of shares 0…1, the darker the larger, with names before its rows. note is what a square says
// when it is pointed at; squares of 0 are left out.
func Matrix(
	title string, names []string, share func(row, column int) float64, note func(row, column int) string,
) string {
	const name = 122
	cell := min(16, (Width-name-4)/float64(max(len(names), 1)))
	var b strings.Builder
	Open(&b, title, Width, 28+cell*float64(len(names))+8)
	fmt.Fprintf(&b, `<text class="h" x="4" y="16">%s</text>`, html.EscapeString(title))
	for i, n := range names {
		y := 28 + cell*float64(i)
		if cell >= 9 {
			fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end" font-size="%.0f">%s</text>`,
				name-6, y+cell-2, min(11, cell), html.EscapeString(Shorten(n, 19)))
		}
		for j := range names {
			if p := share(i, j); p > 0 {
				fmt.Fprintf(&b, `<rect class="f1" x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill-opacity="%.3f">`+
					`<title>%s</title></rect>`,
					name+cell*float64(j), y, cell, cell, p, html.EscapeString(note(i, j)))
			}
		}
	}
	b.WriteString("</svg>")
	return b.String()
}

func pick(s []string, i int) string {
	if i < len(s) {
		return s[i]
	}
	return ""
}

func short(v float64) string {
	switch {
	case v == float64(int(v)):
		return fmt.Sprint(int(v))
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// Shorten keeps a name within so many letters.
func Shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
