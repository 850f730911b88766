package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
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

func TestTick(t *testing.T) {
	for span, want := range map[float64]float64{1: 0.2, 6: 1, 0.05: 0.01, 100: 20} {
		require.InDelta(t, want, tick(span), 1e-12)
	}
}
