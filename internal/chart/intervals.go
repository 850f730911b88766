package chart

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Interval is a row of [Intervals]: a value, and between what bounds it may be; NaN or equal bounds: none are drawn.
type Interval struct {
	Name             string
	Value, Low, High float64
	// Apart says that the bounds leave out the reference: the row has a colour.
	Apart bool
	Note  string // behind the row; "": the value
	Says  string // what the note says when it is pointed at
}

// Intervals draws rows of points with their bounds on one axis, around the reference, a line from top to bottom; NaN:
// none.
func Intervals(title, unit string, reference float64, rows []Interval) string {
	const name, note, per = 150, 58, 20
	r := [2]float64{math.Inf(1), math.Inf(-1)}
	fit := func(all ...float64) {
		for _, v := range all {
			if finite(v) {
				r[0], r[1] = min(r[0], v), max(r[1], v)
			}
		}
	}
	fit(reference)
	for _, row := range rows {
		if fit(row.Value); row.Low < row.High {
			fit(row.Low, row.High)
		}
	}
	if r[0] > r[1] {
		r = [2]float64{0, 1}
	}
	if r[1]-r[0] < 1e-12 {
		r[0], r[1] = r[0]-0.5, r[1]+0.5
	}
	step := Tick(r[1] - r[0])
	r[0], r[1] = math.Floor(r[0]/step+1e-9)*step, math.Ceil(r[1]/step-1e-9)*step
	at := func(v float64) float64 { return name + (v-r[0])/(r[1]-r[0])*(Width-name-note) }
	base := float64(28 + per*len(rows))
	var b strings.Builder
	Open(&b, title, Width, base+40)
	fmt.Fprintf(&b, `<text class="h" x="4" y="16">%s</text>`, html.EscapeString(title))
	for _, v := range ticks(r, false) {
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f 24V%.0f"/><text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`,
			at(v), base, at(v), base+16, Number(v))
	}
	if finite(reference) {
		fmt.Fprintf(&b, `<path class="axis" stroke-dasharray="3 2" d="M%.1f 24V%.0f"/>`, at(reference), base)
	}
	for i, row := range rows {
		y := 28 + per*(float64(i)+0.5)
		colour := 6
		if row.Apart {
			colour = 1
			if row.Value < reference {
				colour = 2
			}
		}
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`, name-8, y+4,
			html.EscapeString(Shorten(row.Name, 23)))
		says := html.EscapeString(row.Name) + ": "
		if finite(row.Low) && finite(row.High) && row.Low < row.High {
			fmt.Fprintf(&b, `<path class="s%d" d="M%.1f %.1fH%.1f"/>`, colour, at(row.Low), y, at(row.High))
			says += Number(row.Low) + " … " + Number(row.High) + ", "
		}
		note := row.Note
		if finite(row.Value) {
			fmt.Fprintf(&b, `<circle class="f%d" cx="%.1f" cy="%.1f" r="4"><title>%s%s</title></circle>`, colour,
				at(row.Value), y, says, Number(row.Value))
			if note == "" {
				note = short(row.Value)
			}
		}
		fmt.Fprintf(&b, `<text class="m" x="%d" y="%.1f" text-anchor="end">`, Width-4, y+4)
		if row.Says != "" {
			fmt.Fprintf(&b, `<title>%s</title>`, html.EscapeString(row.Says))
		}
		fmt.Fprintf(&b, `%s</text>`, html.EscapeString(note))
	}
	fmt.Fprintf(&b, `<text class="m" x="%d" y="%.0f" text-anchor="middle">%s</text></svg>`, (name+Width-note)/2, base+34,
		html.EscapeString(unit))
	return b.String()
}
