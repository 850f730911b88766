package command

import (
	"bytes"
	"fmt"

	"github.com/gospml/gospml/spml/metric"
)

// reliabilitySVG draws the share of positives over the mean probability of each bin, with the bins' counts below: on the dashed line probabilities are what they say.
func reliabilitySVG(c *metric.Calibration) []byte {
	const left, top, side, counts = 50.0, 20.0, 300.0, 60.0
	x := func(p float64) float64 { return left + side*p }
	y := func(p float64) float64 { return top + side*(1-p) }
	b := &bytes.Buffer{}
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 380 %g" font-family="sans-serif" font-size="11" role="img" aria-label="Reliability diagram, expected calibration error %.4f">`+"\n", top+side+counts+50, c.ECE)
	b.WriteString(`<style>.back{fill:#fff}text{fill:#222}.grid{stroke:#ccc}.even{stroke:#777;stroke-dasharray:5 4}.line{fill:none;stroke:#1f77b4;stroke-width:2}.bar{fill:#9aa5ad}@media(prefers-color-scheme:dark){.back{fill:#161616}text{fill:#e6e6e6}.grid{stroke:#444}}</style><rect class="back" width="100%" height="100%"/>` + "\n")
	for _, p := range []float64{0, 0.25, 0.5, 0.75, 1} {
		fmt.Fprintf(b, `<line class="grid" x1="%g" x2="%g" y1="%g" y2="%g"/><text x="%g" y="%g" text-anchor="end">%g</text><text x="%g" y="%g" text-anchor="middle">%g</text>`+"\n",
			left, left+side, y(p), y(p), left-6, y(p)+4, p, x(p), top+side+14, p)
	}
	fmt.Fprintf(b, `<line class="even" x1="%g" y1="%g" x2="%g" y2="%g"/>`+"\n"+`<polyline class="line" points="`, x(0), y(0), x(1), y(1))
	most := 1
	for _, n := range c.Bins {
		most = max(most, n.Count)
		if n.Count > 0 {
			fmt.Fprintf(b, "%.1f,%.1f ", x(n.Confidence), y(n.Positives))
		}
	}
	b.WriteString(`"/>` + "\n")
	floor := top + side + 25 + counts
	for i, n := range c.Bins {
		if n.Count > 0 {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="#1f77b4"><title>%d entries, mean probability %.3f, share of positives %.3f</title></circle>`+"\n", x(n.Confidence), y(n.Positives), n.Count, n.Confidence, n.Positives)
			h, w := counts*float64(n.Count)/float64(most), side/float64(len(c.Bins))
			fmt.Fprintf(b, `<rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%d entries</title></rect>`+"\n", left+w*float64(i), floor-h, max(w-1, 0.5), h, n.Count)
		}
	}
	fmt.Fprintf(b, `<text x="%g" y="%g" text-anchor="middle">mean probability; below: entries in each bin. ECE %.4f, largest gap %.4f</text>`+"\n</svg>\n", left+side/2, floor+18, c.ECE, c.MCE)
	return b.Bytes()
}
