package report

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"image"
	"image/jpeg"
	"math"
	"slices"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/overlay"
	"github.com/gospml/gospml/spml/train"
)

// Photo is a card of a page: a photo, where the model looked, and its labels with bars.
type Photo struct {
	Name    string
	Caption string
	Plain   template.URL // of a JPEG
	Heat    template.URL // with the map of HeatOf over it; empty: none
	HeatOf  string       // label, and what the map is
	Labels  []PhotoLabel
}

// PhotoLabel is a label of a photo, with a bar for each model.
type PhotoLabel struct {
	Name    string
	Bars    []PhotoBar
	Present int // 1: the photo has it, 0: it has not, -1: not known
}

// PhotoBar is the probability that a model gives a label.
type PhotoBar struct {
	Probability float64
	Yes         bool // above the model's threshold
}

// Percent is the bar's length.
func (b PhotoBar) Percent() float64 { return math.Round(1000*b.Probability) / 10 }

const (
	photoSide    = 256 // pixels of a photo's long side
	photoQuality = 78
	photoLabels  = 5
)

// Thumbnail decodes a photo, as its options say, and makes it small.
func Thumbnail(photo []byte, o pixel.Options) (*pixel.RGB, error) {
	rgb, err := pixel.Decode(photo, o)
	if err != nil {
		return nil, err
	}
	scale := min(1, photoSide/float64(max(rgb.W, rgb.H)))
	if scale == 1 {
		return rgb, nil
	}
	return pixel.Resize(rgb, max(1, int(float64(rgb.W)*scale)), max(1, int(float64(rgb.H)*scale)), pixel.Bilinear)
}

// DataURI encodes a picture as JPEG.
func DataURI(m image.Image) (template.URL, error) {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: photoQuality}); err != nil {
		return "", err
	}
	return template.URL("data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(b.Bytes())), nil
}

// draw puts in the photo, and with a map of h rows and w columns the heat over it.
func (p *Photo) draw(file []byte, o pixel.Options, heat []float32, h, w int) error {
	small, err := Thumbnail(file, o)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	plain, err := overlay.Draw(small, []float32{0}, 1, 1)
	if err != nil {
		return err
	}
	if p.Plain, err = DataURI(plain); err != nil || heat == nil {
		return err
	}
	over, err := overlay.Draw(small, heat, h, w)
	if err == nil {
		p.Heat, err = DataURI(over)
	}
	return err
}

// SetPhoto puts in the photo of a card.
func (p *Photo) SetPhoto(file []byte, o pixel.Options) error { return p.draw(file, o, nil, 0, 0) }

// reader opens a run's data set for its photos and its model; nil functions where there are none, with the reason as a
// note of the run.
func (r *run) reader() (ds *data.Dataset, raw data.RawSource, t *model.Tagger, err error) {
	mc, err := model.ReadConfig(r.Record.Dir)
	if err != nil {
		return nil, nil, nil, err
	}
	if mc.FeaturesOnly {
		r.notes = append(r.notes, "The model is a head on stored features, so there are no photos to look at.")
		return nil, nil, nil, nil
	}
	c, err := r.Record.Config.Resolve()
	if err != nil {
		return nil, nil, nil, err
	}
	if ds, err = c.Data.Open(); err != nil {
		return nil, nil, nil, err
	}
	raw, ok := ds.Source.(data.RawSource)
	if !ok {
		r.notes = append(r.notes, "The data set has no photos to look at.")
		return nil, nil, nil, ds.Close()
	}
	o := model.TaggerOptions{Workers: 1, MaxPixels: int64(c.Data.MaxPixels)}
	if t, err = model.OpenTagger(r.Record.Dir, o); err != nil {
		return nil, nil, nil, errors.Join(err, ds.Close())
	}
	return ds, raw, t, nil
}

// photos picks the test photos whose labels the model gets best and worst, by their log loss.
func (r *run) photos(ctx context.Context, n int) error {
	if r.test == nil {
		return nil
	}
	ds, raw, t, err := r.reader()
	if err != nil || ds == nil {
		return err
	}
	defer ds.Close()
	defer t.Close()
	loss := perImage(r)
	order := make([]int, len(loss))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(loss[a], loss[b]) })
	n = min(n, len(order)/2)
	pick := func(at []int, what string) error {
		for _, i := range at {
			p, err := r.photo(ctx, raw, t, i)
			if err != nil {
				return err
			}
			p.Caption = fmt.Sprintf("%s, log loss %.3f", what, loss[i])
			r.Photos = append(r.Photos, *p)
		}
		return nil
	}
	if err := pick(order[:n], "among the best"); err != nil {
		return err
	}
	worst := slices.Clone(order[len(order)-n:])
	slices.Reverse(worst)
	return pick(worst, "among the worst")
}

// photo makes the card of a test image.
func (r *run) photo(ctx context.Context, raw data.RawSource, t *model.Tagger, i int) (*Photo, error) {
	row, c := r.test.Rows[i], r.ds.C()
	p := &Photo{Name: r.ds.Images[row]}
	scores, truth := r.test.Values[i*c:(i+1)*c], r.ds.LabelRow(row)
	worst, most := 0, -1.0 // the label that costs most, which the map shows
	for k, y := range truth {
		v := float64(scores[k])
		if y == 1 {
			v = 1 - v
		}
		if v > most {
			worst, most = k, v
		}
	}
	if most < 0.5 { // every label is right: the most probable one
		for k := range truth {
			if scores[k] > scores[worst] || truth[worst] == 0 {
				worst = k
			}
		}
	}
	for _, k := range shown(truth, scores) {
		p.Labels = append(p.Labels, PhotoLabel{r.ds.Classes[k], []PhotoBar{{float64(scores[k]), float64(scores[k]) > t.Config.Threshold}}, int(truth[k])})
	}
	file, err := raw.ReadFile(row, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	x, err := t.Explain(ctx, file)
	if err != nil {
		if !errors.Is(err, train.ErrData) {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		return p, p.draw(file, t.Pixels(), nil, 0, 0) // the head has no map for a label
	}
	kind := map[string]string{"cam": "class activation", "attention": "attention"}[x.Kind]
	p.HeatOf = fmt.Sprintf("%s for %s", kind, r.ds.Classes[worst])
	return p, p.draw(file, t.Pixels(), x.Maps[worst], x.H, x.W)
}

// shown are the labels of a card: those that the photo has and the most probable others, by probability.
func shown(truth []int8, scores []float32) []int {
	order := make([]int, len(scores))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	others := photoLabels
	for k := range truth {
		if truth[k] == 1 {
			others--
		}
	}
	others = max(others, 2)
	return slices.DeleteFunc(order, func(k int) bool {
		if truth[k] == 1 {
			return false
		}
		others--
		return others < 0
	})
}

// differing are the test photos whose log loss two runs disagree about most, with both models' bars: half where b is
// better, half where a is.
func differing(ctx context.Context, a, b *run, n int) ([]Photo, error) {
	if a.test == nil || b.test == nil || !slices.Equal(a.test.Rows, b.test.Rows) || a.Record.Environment.DataSHA256 != b.Record.Environment.DataSHA256 {
		return nil, nil
	}
	ds, raw, t, err := b.reader()
	if err != nil || ds == nil {
		return nil, err
	}
	defer ds.Close()
	defer t.Close()
	x, y := perImage(a), perImage(b)
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(x[j]-y[j], x[i]-y[i]) })
	n = min(n, len(order))
	var out []Photo
	c := b.ds.C()
	for k, i := range slices.Concat(order[:n-n/2], reversed(order[len(order)-n/2:])) {
		p, err := b.photo(ctx, raw, t, i)
		if err != nil {
			return nil, err
		}
		for l := range p.Labels {
			at := i*c + slices.Index(b.ds.Classes, p.Labels[l].Name)
			p.Labels[l].Bars = append([]PhotoBar{{float64(a.test.Values[at]), float64(a.test.Values[at]) > threshold(a.Record)}}, p.Labels[l].Bars...)
		}
		better := b.Name
		if k >= n-n/2 {
			better = a.Name
		}
		p.Caption = fmt.Sprintf("%s is better: log loss %.3f and %.3f", better, x[i], y[i])
		out = append(out, *p)
	}
	return out, nil
}

func reversed(v []int) []int {
	v = slices.Clone(v)
	slices.Reverse(v)
	return v
}
