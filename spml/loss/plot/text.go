package plot

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// marks stand for the curves of a sketch, in their order; where curves meet, the first is shown.
const marks = "*o+x#@%&"

const sketchRows = 11

// Text sketches loss and gradient below each other for a terminal of so many columns.
func Text(title string, curves []Series, columns int) string {
	var b strings.Builder
	b.WriteString(title + "\n")
	columns = max(columns, 40)
	for _, of := range quantities {
		sketch(&b, of.name, curves, of.get, columns)
	}
	for i, c := range curves {
		fmt.Fprintf(&b, "  %c %s", marks[i%len(marks)], c.Name)
	}
	b.WriteString("\n")
	return b.String()
}

func sketch(b *strings.Builder, name string, curves []Series, get func(Series) []float64, columns int) {
	r := rangeOf(curves, get)
	const margin = 9
	width := columns - margin - 1
	grid := make([][]byte, sketchRows)
	for i := range grid {
		grid[i] = []byte(strings.Repeat(" ", width))
	}
	row := func(v float64) int {
		return int(math.Round((r.hi - v) / (r.hi - r.lo) * (sketchRows - 1)))
	}
	zero := row(0)
	for x := range grid[zero] {
		grid[zero][x] = '-'
	}
	for i := len(curves) - 1; i >= 0; i-- {
		c := curves[i]
		for x := range width {
			z := r.zlo + (r.zhi-r.zlo)*float64(x)/float64(width-1)
			grid[row(between(c.Z, get(c), z))][x] = marks[i%len(marks)]
		}
	}
	fmt.Fprintf(b, "\n%s over the logit\n", name)
	for i, line := range grid {
		at := ""
		switch i {
		case zero:
			at = "0"
		case 0:
			at = number(r.hi, r.step)
		case sketchRows - 1:
			at = number(r.lo, r.step)
		}
		fmt.Fprintf(b, "%*s |%s\n", margin-1, at, line)
	}
	lo, hi := strconv.FormatFloat(r.zlo, 'g', 3, 64), strconv.FormatFloat(r.zhi, 'g', 3, 64)
	fmt.Fprintf(b, "%*s%s%*s\n", margin+1, "", lo, width-len(lo), hi)
}

// between reads a curve at z on the line between its points.
func between(zs, v []float64, z float64) float64 {
	for i := 1; i < len(zs); i++ {
		if z <= zs[i] {
			f := (z - zs[i-1]) / (zs[i] - zs[i-1])
			return v[i-1] + f*(v[i]-v[i-1])
		}
	}
	return v[len(v)-1]
}
