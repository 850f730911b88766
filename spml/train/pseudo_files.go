package train

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gospml/gospml/internal/atomicfile"
)

// pseudoFiles writes pseudo_labels.csv and pseudo_labels.svg anew: how good the pseudo-labels of each epoch were.
func (r *runDir) pseudoFiles(epochs []EpochRecord) error {
	var with []EpochRecord
	for _, e := range epochs {
		if e.Pseudo != nil {
			with = append(with, e)
		}
	}
	if r.path == "" || len(with) == 0 {
		return nil
	}
	err := atomicfile.WriteFile(filepath.Join(r.path, "pseudo_labels.csv"), 0o644, func(w io.Writer) error {
		c := csv.NewWriter(w)
		_ = c.Write([]string{"epoch", "precision", "recall", "f1", "confidence", "pseudo_positives", "correct", "hidden_positives", "negatives", "wrong_negatives"})
		f := func(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }
		for _, e := range with {
			p := e.Pseudo
			_ = c.Write([]string{strconv.Itoa(e.Epoch), f(p.Precision), f(p.Recall), f(p.F1), f(p.Confidence), strconv.Itoa(p.PseudoQuality.Pseudo), strconv.Itoa(p.Correct), strconv.Itoa(p.Hidden), strconv.Itoa(p.Negatives), strconv.Itoa(p.Wrong)})
		}
		c.Flush()
		return c.Error()
	})
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(r.path, "pseudo_labels.svg"), 0o644, drawPseudo(with))
}

// drawPseudo draws precision, recall, F1 and confidence over the epochs, in percent.
func drawPseudo(epochs []EpochRecord) []byte {
	const left, top, width, height = 46, 24, 420, 240
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11"><title>Pseudo-labels by epoch</title><rect width="%d" height="%d" fill="#fff"/>`+"\n", left+width+20, top+height+62, left+width+20, top+height+62)
	first, last := epochs[0].Epoch, epochs[len(epochs)-1].Epoch
	x := func(epoch int) float64 {
		return left + width*(float64(epoch-first)+0.5)/float64(last-first+1)
	}
	y := func(v float64) float64 { return top + height*(1-v/100) }
	fmt.Fprintf(&b, `<text x="%d" y="%d" font-size="13">pseudo-labels by epoch, %%</text>`+"\n", left, top-9)
	for v := 0; v <= 100; v += 20 {
		fmt.Fprintf(&b, `<path d="M%d %.1fh%d" stroke="#e4e4e4"/><text x="%d" y="%.1f" text-anchor="end">%d</text>`+"\n", left, y(float64(v)), width, left-6, y(float64(v))+4, v)
	}
	step := max(1, (last-first+1)/10)
	for e := first; e <= last; e += step {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x(e), top+height+16, e)
	}
	for i, c := range []struct {
		name, colour, dash string
		get                func(*PseudoRecord) float64
	}{
		{"precision", "#0072b2", "", func(p *PseudoRecord) float64 { return p.Precision }},
		{"recall", "#d55e00", "6 3", func(p *PseudoRecord) float64 { return p.Recall }},
		{"F1", "#009e73", "2 2", func(p *PseudoRecord) float64 { return p.F1 }},
		{"confidence", "#cc79a7", "8 2 2 2", func(p *PseudoRecord) float64 { return 100 * p.Confidence }},
	} {
		var points []string
		for _, e := range epochs {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(e.Epoch), y(c.get(e.Pseudo))))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"><title>%s, epoch %d: %.2f</title></circle>`, x(e.Epoch), y(c.get(e.Pseudo)), c.colour, c.name, e.Epoch, c.get(e.Pseudo))
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n", strings.Join(points, " "), c.colour, c.dash)
		fmt.Fprintf(&b, `<path d="M%d %dh22" stroke="%s" stroke-width="2" stroke-dasharray="%s"/><text x="%d" y="%d">%s</text>`+"\n", left+i*105, top+height+40, c.colour, c.dash, left+26+i*105, top+height+44, c.name)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// clipFile is the image-text model where it is a single file, else "".
func (c *Config) clipFile() string { return singleFile(c.Clip) }

// weightsFile is the file of the backbone's weights; a CLIP may be a folder.
func (c *Config) weightsFile() string {
	if c.Backbone == BackboneClip {
		return singleFile(c.Weights)
	}
	return c.Weights
}

func singleFile(path string) string {
	if st, err := os.Stat(path); path == "" || path == BuiltinClip || err != nil || st.IsDir() {
		return ""
	}
	return path
}
