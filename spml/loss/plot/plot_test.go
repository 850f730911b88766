package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
)

// The drawn gradient is the slope of the drawn loss, for every loss whose factors all have gradients.
func TestGradientIsSlope(t *testing.T) {
	for _, id := range []string{"an", "epr", "em-apl", "focal", "hill", "ll-ct", "vlpl"} {
		e, err := loss.Lookup(id)
		require.NoError(t, err)
		curves, err := Curves(e, "voc", nil, loss.Options{})
		require.NoError(t, err)
		for _, c := range curves {
			for i := 1; i+1 < len(c.Z); i++ {
				slope := (c.Loss[i+1] - c.Loss[i-1]) / (c.Z[i+1] - c.Z[i-1])
				require.InDelta(t, slope, c.Grad[i], 2e-2, "%s, %s at %v", id, c.Name, c.Z[i])
			}
		}
	}
}

func TestKnownCurves(t *testing.T) {
	e, _ := loss.Lookup("an")
	c, err := Curves(e, "voc", nil, loss.Options{})
	require.NoError(t, err)
	require.Len(t, c, 2)
	mid := len(c[0].Z) / 2
	require.Zero(t, c[0].Z[mid])
	require.InDelta(t, math.Ln2, c[0].Loss[mid], 1e-12)
	require.InDelta(t, -0.5, c[0].Grad[mid], 1e-12)
	require.InDelta(t, 0.5, c[1].Grad[mid], 1e-12)
	e, _ = loss.Lookup("wan")
	c, err = Curves(e, "voc", nil, loss.Options{})
	require.NoError(t, err)
	require.InDelta(t, 0.5/19, c[1].Grad[mid], 1e-12)
}

func TestSVG(t *testing.T) {
	for _, id := range []string{"role", "lac", "smile-encoder", "en-scl", "gpr", "splc", "ll-r"} {
		e, err := loss.Lookup(id)
		require.NoError(t, err)
		c, err := Curves(e, "voc", nil, loss.Options{})
		require.NoError(t, err, e.ID)
		svg := string(SVG(e.Title+" <&>", c))
		require.NotContains(t, svg, "NaN", e.ID)
		require.NotContains(t, svg, "Inf", e.ID)
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, e.ID)
		}
	}
}

// A sketch shows the curve's points at their place.
func TestText(t *testing.T) {
	line := Series{Name: "up", Z: []float64{-1, 0, 1}, Loss: []float64{0, 0.5, 1}, Grad: []float64{0.5, 0.5, 0.5}}
	flat := Series{Name: "zero", Z: []float64{-1, 0, 1}, Loss: []float64{0, 0, 0}, Grad: []float64{0, 0, 0}}
	lines := strings.Split(Text("a title", []Series{line, flat}, 50), "\n")
	require.Equal(t, "a title", lines[0])
	require.Equal(t, "loss over the logit", lines[2])
	require.Regexp(t, `^       1 \|.*\*$`, lines[3], "the curve ends at its top")
	require.Regexp(t, `^       0 \|\*+o+$`, lines[13])
	require.Regexp(t, `^ +-1 +1$`, lines[14])
	for _, l := range lines {
		require.LessOrEqual(t, len(l), 50)
	}
	require.Contains(t, strings.Join(lines, "\n"), "* up  o zero")
}

// Many curves get a second row of names and differ in colour or dash.
func TestManyCurves(t *testing.T) {
	var c []Series
	for i := range 14 {
		c = append(c, Series{Name: "curve", Z: []float64{-1, 1}, Loss: []float64{0, float64(i)}, Grad: []float64{0, 1}})
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`<path d="M\d+ \d+h22" (stroke="[^"]+" stroke-width="2" stroke-dasharray="[^"]*")`).FindAllStringSubmatch(string(SVG("many", c)), -1) {
		seen[m[1]] = true
	}
	require.Len(t, seen, len(c))
}

func TestTick(t *testing.T) {
	for span, want := range map[float64]float64{1: 0.2, 6: 1, 0.05: 0.01, 100: 20} {
		require.InDelta(t, want, tick(span), 1e-12)
	}
}
