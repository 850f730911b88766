package rundir

import (
	"encoding/csv"
	"io"
	"path/filepath"
	"strconv"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/chart"
	"github.com/gospml/gospml/spml/metric"
)

// PseudoLabels writes pseudo_labels.csv and pseudo_labels.svg anew: how good the pseudo-labels of each epoch were.
func (r *Dir) PseudoLabels(epochs []EpochRecord) error {
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
		_ = c.Write(
			[]string{
				"epoch",
				"precision",
				"recall",
				"f1",
				"confidence",
				"pseudo_positives",
				"correct",
				"hidden_positives",
				"negatives",
				"wrong_negatives",
			},
		)
		f := func(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }
		for _, e := range with {
			p := e.Pseudo
			_ = c.Write(
				[]string{
					strconv.Itoa(e.Epoch),
					f(p.Precision),
					f(p.Recall),
					f(p.F1),
					f(p.Confidence),
					strconv.Itoa(p.PseudoQuality.Pseudo),
					strconv.Itoa(p.Correct),
					strconv.Itoa(p.Hidden),
					strconv.Itoa(p.Negatives),
					strconv.Itoa(p.Wrong),
				},
			)
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
	p := chart.Plot{Title: "pseudo-labels by epoch, %", X: "epoch", WholeX: true, YRange: [2]float64{0, 100}}
	for i, c := range []struct {
		name string
		get  func(*metric.PseudoRecord) float64
	}{
		{"precision", func(p *metric.PseudoRecord) float64 { return p.Precision }},
		{"recall", func(p *metric.PseudoRecord) float64 { return p.Recall }},
		{"F1", func(p *metric.PseudoRecord) float64 { return p.F1 }},
		{"confidence", func(p *metric.PseudoRecord) float64 { return 100 * p.Confidence }},
	} {
		s := chart.Series{Name: c.name, Colour: i + 1, Dash: i}
		for _, e := range epochs {
			s.X, s.Y = append(s.X, float64(e.Epoch)), append(s.Y, c.get(e.Pseudo))
		}
		p.Series = append(p.Series, s)
	}
	return chart.Standalone("Pseudo-labels by epoch", p.Lines())
}
