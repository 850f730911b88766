package command

import (
	"fmt"

	"github.com/gospml/gospml/internal/chart"
	"github.com/gospml/gospml/spml/metric"
)

// reliabilitySVG draws the share of positives over the mean probability of each bin, with the bins' counts below: on
// the dashed line probabilities are what they say.
func reliabilitySVG(c *metric.Calibration) []byte {
	even := chart.Series{Name: "what probabilities say", X: []float64{0, 1}, Y: []float64{0, 1}, Colour: 6, Dash: 1}
	even.Bare = true
	got := chart.Series{Name: "share of positives", Colour: 1}
	rows := chart.Histogram{Name: "entries", Colour: 1}
	total, sum := 0, 0.0
	for _, n := range c.Bins {
		rows.Counts = append(rows.Counts, n.Count)
		if n.Count > 0 {
			got.X, got.Y = append(got.X, n.Confidence), append(got.Y, n.Positives)
			got.Notes = append(got.Notes, fmt.Sprintf("%d entries, mean probability %.3f, share of positives %.3f",
				n.Count, n.Confidence, n.Positives))
			total, sum = total+n.Count, sum+float64(n.Count)*n.Confidence
		}
	}
	if total > 0 {
		rows.Mean = sum / float64(total)
	}
	unit := [2]float64{0, 1}
	p := chart.Plot{
		Title: fmt.Sprintf("reliability: ECE %.4f, largest gap %.4f", c.ECE, c.MCE), X: "mean probability",
		XRange: unit, YRange: unit, Height: 420, Series: []chart.Series{even, got},
	}
	title := fmt.Sprintf("Reliability diagram, expected calibration error %.4f", c.ECE)
	return chart.Standalone(title, p.Lines(), chart.Ridges("entries of each bin", "probability", []chart.Histogram{rows}))
}
