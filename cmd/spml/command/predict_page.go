package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sort"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/report"
)

// pagePhotos is how many photos a page holds at most.
const pagePhotos = 200

// predictPage writes photos with the probabilities of one model, or of two side by side (VLPL's Fig. 4), as one HTML
// file. A photo of a data set shows the labels that it has; others the most probable ones.
func predictPage(ctx context.Context, models []*model.Tagger, names [2]string, photos iter.Seq2[photo, error], top int, out string, errs io.Writer) error {
	classes := models[0].Config.LabelNames
	if len(models) > 1 && !slices.Equal(classes, models[1].Config.LabelNames) {
		return usageError{fmt.Errorf("%s and %s have other labels, or in another order; --compare wants two models of the same classes", names[0], names[1])}
	}
	var cards []report.Photo
	var notes []string
	var failed []error
	for p, err := range photos {
		if err != nil {
			return err
		}
		if len(cards) == pagePhotos {
			notes = append(notes, fmt.Sprintf("The page holds the first %d photos.", pagePhotos))
			break
		}
		card, err := pageCard(ctx, models, p, top)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			plain.Fprintf(errs, "spml: %v\n", err)
			failed = append(failed, err)
			continue
		}
		cards = append(cards, *card)
	}
	err := atomicfile.WriteFile(out, 0o644, func(w io.Writer) error {
		title, subtitle := "Labels of "+names[0], fmt.Sprintf("%d photos, the probability of each label.", len(cards))
		if names[1] != "" {
			title = names[0] + " and " + names[1]
		}
		return report.WritePhotos(w, title, subtitle, names, cards, notes)
	})
	if err != nil {
		return err
	}
	plain.Fprintf(errs, "%s: %d photos\n", out, len(cards))
	if len(failed) > 0 {
		return fmt.Errorf("%d photos could not be labelled: %w", len(failed), errors.Join(failed...))
	}
	return nil
}

func pageCard(ctx context.Context, models []*model.Tagger, p photo, top int) (*report.Photo, error) {
	file, err := p.read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	classes := models[0].Config.LabelNames
	var scores [][]float32
	for _, t := range models {
		s, err := t.Probabilities(ctx, file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		scores = append(scores, s)
	}
	known := p.truth != nil && slices.Equal(p.classes, classes)
	order := make([]int, len(classes))
	for k := range order {
		order[k] = k
	}
	best := func(k int) (v float32) { // of both models
		for _, s := range scores {
			v = max(v, s[k])
		}
		return v
	}
	sort.SliceStable(order, func(a, b int) bool {
		x, y := order[a], order[b]
		if known && p.truth[x] != p.truth[y] {
			return p.truth[x] == 1
		}
		return best(x) > best(y)
	})
	if top > 0 {
		n := 0
		if known {
			for _, y := range p.truth {
				n += int(y)
			}
		}
		order = order[:min(len(order), max(top, n))]
	}
	card := &report.Photo{Name: p.name}
	for _, k := range order {
		l := report.PhotoLabel{Name: classes[k], Present: -1}
		if known {
			l.Present = int(p.truth[k])
		}
		for i, t := range models {
			l.Bars = append(l.Bars, report.PhotoBar{Probability: float64(scores[i][k]), Yes: t.Present(k, scores[i][k])})
		}
		card.Labels = append(card.Labels, l)
	}
	return card, card.SetPhoto(file, models[0].Pixels())
}

// read gives the photo's file.
func (p photo) read() ([]byte, error) {
	if p.from == nil {
		return pixel.ReadFile(p.name)
	}
	return p.from.ReadFile(p.row, nil)
}
