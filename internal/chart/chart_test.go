package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func sound(t *testing.T, svg string) {
	require.NotContains(t, svg, "NaN")
	require.NotContains(t, svg, "Inf")
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

// A curve goes through its points: the ends of both axes are the corners of the plot.
func TestLines(t *testing.T) {
	p := Plot{Title: "a <&>", X: "x", XRange: [2]float64{0, 10}, YRange: [2]float64{0, 1}, Series: []Series{{Name: "up \"<", X: []float64{0, 5, 10}, Y: []float64{0, 0.5, 1}}}}
	svg := p.Lines()
	sound(t, svg)
	require.Contains(t, svg, `points="46.0,226.0 246.0,128.0 446.0,30.0"`)
	// A gap parts the curve; constant and empty curves have axes all the same.
	p.Series = []Series{{Name: "gap", X: []float64{0, 1, 2, 3, 4}, Y: []float64{1, 2, math.NaN(), 2, math.Inf(1)}}, {Name: "none"}}
	p.XRange, p.YRange = [2]float64{}, [2]float64{}
	require.Equal(t, 2, strings.Count(p.Lines(), "<polyline"))
	sound(t, p.Lines())
	sound(t, p.Points())
	sound(t, Plot{Series: []Series{{X: []float64{3}, Y: []float64{7}}}}.Lines())
	sound(t, Plot{}.Lines())
}

func TestManySeries(t *testing.T) {
	var p Plot
	for range 20 {
		p.Series = append(p.Series, Series{Name: "a rather long name", X: []float64{0, 1}, Y: []float64{0, 1}})
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`<polyline class="([^"]+)"`).FindAllStringSubmatch(p.Lines(), -1) {
		seen[m[1]] = true
	}
	require.Len(t, seen, 20, "no two look alike")
}

func TestLogAxis(t *testing.T) {
	s := Series{Name: "s", X: []float64{10, 100, 1000}, Y: []float64{0, 0.5, 1}}
	p := Plot{Title: "t", X: "k", LogX: true, YRange: [2]float64{0, 1}, Series: []Series{s}}
	svg := p.Lines()
	sound(t, svg)
	require.Contains(t, svg, `points="46.0,226.0 246.0,128.0 446.0,30.0"`, "a power of ten is a step")
	for _, tick := range []string{">10<", ">100<", ">1000<", "s, 100: 0.5"} {
		require.Contains(t, svg, tick)
	}
}

func TestTicks(t *testing.T) {
	require.InDeltaSlice(t, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}, ticks([2]float64{0, 1}, false), 1e-12)
	require.Equal(t, []float64{1, 2, 3, 4}, ticks([2]float64{1, 4}, true))
	for span, want := range map[float64]float64{1: 0.2, 6: 1, 0.05: 0.01, 100: 20} {
		require.InDelta(t, want, Tick(span), 1e-12)
	}
}

func TestRidgesAndBars(t *testing.T) {
	svg := Ridges("scores", "p", []Histogram{{"a", []int{0, 4, 2}, 0.5, 1}, {"none", make([]int, 3), 0, 2}})
	sound(t, svg)
	require.Contains(t, svg, "6, mean 0.50")
	require.Equal(t, "M156.0 54v-54.0h148.0v54.0zM304.0 54v-27.0h148.0v27.0z", RidgePath([]int{0, 4, 2}))
	svg = Bars("b", []string{"x", "y"}, 0, []Bar{{"first", []float64{1, 2}, ""}, {"second", []float64{math.NaN(), 4}, "n"}})
	sound(t, svg)
	require.Equal(t, 3, strings.Count(svg, `rx="2"><title>`))
	require.Contains(t, svg, `width="280.0"`, "the largest is as wide as the space")
}

// A file of several pictures is sound XML and brings its colours along.
func TestStandalone(t *testing.T) {
	one := Plot{Title: "one", Series: []Series{{Name: "s", X: []float64{0, 1}, Y: []float64{0, 1}}}}.Lines()
	svg := string(Standalone("two", one, one))
	sound(t, svg)
	require.Equal(t, 3, strings.Count(svg, "<svg "))
	require.Contains(t, svg, "prefers-color-scheme: dark")
}

func TestIntervals(t *testing.T) {
	rows := []Interval{
		{Name: "an", Value: 50, Low: math.NaN(), High: math.NaN()}, {Name: "em", Value: 60, Low: 55, High: 65, Apart: true},
		{Name: "role", Value: 45, Low: 40, High: 49, Apart: true}, {Name: "gr", Value: 51, Low: 49, High: 53},
		{Name: "<lac>", Value: math.NaN(), Note: "left out"},
	}
	svg := Intervals("mAP", "%", 50, rows)
	sound(t, svg)
	// The axis goes from 40 to 65; what is drawn lies between 150 and 402.
	require.Contains(t, svg, `<circle class="f1" cx="351.6"`, "above the reference")
	require.Contains(t, svg, `<path class="s1" d="M301.2 58.0H402.0"/>`)
	require.Contains(t, svg, `<circle class="f2" cx="200.4"`, "below it")
	require.Contains(t, svg, `<circle class="f6" cx="260.9"`, "not apart from it")
	require.Equal(t, 4, strings.Count(svg, "<circle"))
	sound(t, Intervals("", "", math.NaN(), nil))
	sound(t, Intervals("", "", 3, []Interval{{Name: "one", Value: 3, Low: 3, High: 3}}))
}
