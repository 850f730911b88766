package stat

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
)

const (
	svgWidth  = 960
	rowHeight = 16
	nameWidth = 170
	maxShown  = 120 // classes in the picture, the most frequent ones
)

// SVG draws the counts: positives of each class with the share that training sees, labels a row, and how often classes
// occur together. One file without anything outside it.
func SVG(w io.Writer, s *Labels) error {
	b := bufio.NewWriter(w)
	order := make([]int, len(s.Classes))
	for i := range order {
		order[i] = i
	}
	count := func(c int) int { return max(s.Classes[c].Positives.Sum(), s.Classes[c].Observed.Sum()) }
	slices.SortStableFunc(order, func(x, y int) int { return count(y) - count(x) })
	left := len(order)
	order = order[:min(len(order), maxShown)]
	bars := 60 + len(order)*rowHeight
	hist := 170
	cell := max(2, min(16, (svgWidth-nameWidth-40)/max(1, len(order))))
	heat := 70 + cell*len(order)
	if s.Full.Sum() == 0 {
		hist, heat = 0, 0
	}
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11" role="img" aria-label="Label counts of %s">`+"\n",
		svgWidth, bars+hist+heat+20, html.EscapeString(s.Name))
	fmt.Fprintf(b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	text := func(x, y int, anchor, size, t string) {
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s" font-size="%s">%s</text>`+"\n", x, y, anchor, size, html.EscapeString(t))
	}
	text(10, 20, "start", "14", fmt.Sprintf("%s: %d images (%d train, %d val, %d test), %d classes", s.Name, s.Rows.Sum(), s.Rows[0], s.Rows[1], s.Rows[2], left))
	text(10, 40, "start", "11", fmt.Sprintf("images by class, dark: train positives that training sees; %d of %d classes are shown", len(order), left))
	most := 1
	for _, c := range order {
		most = max(most, count(c))
	}
	scale := float64(svgWidth-nameWidth-90) / float64(most)
	for i, c := range order {
		y := 50 + i*rowHeight
		k := s.Classes[c]
		text(nameWidth-6, y+12, "end", "11", shorten(k.Name, 26))
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="#9ecae1"/>`, nameWidth, y+2, scale*float64(count(c)), rowHeight-4)
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="#08519c"/>`+"\n", nameWidth, y+2, scale*float64(k.Observed[0]), rowHeight-4)
		text(nameWidth+4+int(scale*float64(count(c))), y+12, "start", "11", fmt.Sprintf("%d, seen %d", count(c), k.Observed[0]))
	}
	if s.Full.Sum() > 0 {
		histogram(b, s, bars, text)
		coOccurrence(b, s, order, bars+hist, cell, text)
	}
	fmt.Fprintln(b, "</svg>")
	return b.Flush()
}

func histogram(b io.Writer, s *Labels, top int, text func(x, y int, anchor, size, t string)) {
	text(10, top+14, "start", "11", fmt.Sprintf("images by number of labels, mean %.2f", s.Cardinality))
	most := slices.Max(s.Histogram)
	step := max(4, min(40, (svgWidth-40)/len(s.Histogram)))
	for k, n := range s.Histogram {
		h := int(math.Ceil(100 * float64(n) / float64(max(most, 1))))
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="#6baed6"><title>%d labels: %d images</title></rect>`+"\n", 20+k*step, top+130-h, step-2, h, k, n)
		if step >= 16 || k%5 == 0 {
			text(20+k*step+step/2, top+144, "middle", "10", fmt.Sprint(k))
		}
	}
}

func coOccurrence(b io.Writer, s *Labels, order []int, top, cell int, text func(x, y int, anchor, size, t string)) {
	text(10, top+14, "start", "11", "share of the row's class in whose images the column's class is too (white 0, blue 1)")
	at := map[int]int{} // of a class in the table
	for k, c := range s.Together {
		at[c] = k
	}
	for i, r := range order {
		x, known := at[r]
		if !known {
			continue
		}
		n := s.CoOccurrence[x][x]
		if cell >= 9 {
			text(nameWidth-6, top+32+i*cell+cell-2, "end", fmt.Sprint(min(11, cell)), shorten(s.Classes[r].Name, 26))
		}
		for j, c := range order {
			y, known := at[c]
			if !known || n == 0 || s.CoOccurrence[x][y] == 0 {
				continue
			}
			p := float64(s.CoOccurrence[x][y]) / float64(n)
			fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="#08519c" fill-opacity="%.3f"><title>%s with %s: %.0f %%</title></rect>`+"\n",
				nameWidth+j*cell, top+30+i*cell, cell, cell, p, html.EscapeString(s.Classes[r].Name), html.EscapeString(s.Classes[c].Name), 100*p)
		}
	}
}

func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
