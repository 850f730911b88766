package vlm

import (
	"context"
	"fmt"
	"image"
	"math"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/torch"
)

// graphHidden is the width between the layers of the label graph's network, and graphTau the temperature of a matrix that the code does not use.
const (
	graphHidden = 1024
	graphTau    = 0.3
)

// Labeller makes pseudo-labels of photos. It is safe for many goroutines.
type Labeller struct {
	settings Settings
	classes  []string
	model    *clip.Model
	prepare  *clip.Preprocessor
	text     *torch.Tensor // [C, E], normalised
}

// New makes a labeller for classes. The model stays the caller's and must not be closed before the labeller's last use.
func New(ctx context.Context, m *clip.Model, classes []string, s Settings) (*Labeller, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if len(classes) == 0 {
		return nil, fmt.Errorf("%w: there are no classes", ErrSettings)
	}
	c := m.Config()
	if c.Vision == nil {
		return nil, fmt.Errorf("%w: the model has no image tower; choose a CLIP with both towers", ErrSettings)
	}
	p, err := clip.NamedPreprocess(s.Preprocess)
	if err != nil {
		return nil, err
	}
	h, w := m.ImageSize()
	l := &Labeller{settings: s, classes: classes, model: m}
	if l.prepare, err = clip.NewPreprocessor(p, h, w, 0, pixel.Options{}); err != nil {
		return nil, err
	}
	raw, err := l.features(ctx, c)
	if err != nil {
		return nil, err
	}
	finite := false
	err = torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(a *torch.Arena) {
				l.text = clip.Normalize(raw)
				finite = l.text.IsFinite().All().Item() != 0
				a.Keep(l.text)
			})
		})
	})
	if err == nil && !finite {
		err = fmt.Errorf("%w: the text features hold zero rows or values that are not finite", ErrSettings)
	}
	if err == nil && s.Method == DAMP && s.Noise {
		l.text, err = l.noise(raw)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// features are the text embeddings [C, E] as the tower or a file gives them.
func (l *Labeller) features(ctx context.Context, c clip.Config) (*torch.Tensor, error) {
	s := &l.settings
	if s.TextFeatures != "" {
		return readFeatures(s.TextFeatures, len(l.classes), c.EmbedDim)
	}
	names, err := s.names(l.classes)
	if err != nil {
		return nil, err
	}
	if c.Text == nil {
		return nil, fmt.Errorf("%w: the model has no text tower; give text features (.npy of %d × %d) in place of prompts", ErrSettings, len(names), c.EmbedDim)
	}
	if len(s.Templates) == 1 {
		return l.model.EncodeText(ctx, s.prompts(s.Templates[0], names))
	}
	templates := make([]string, len(s.Templates))
	for i, t := range s.Templates {
		templates[i] = s.prompts(t, []string{"{}"})[0]
	}
	return l.model.ClassFeatures(ctx, names, templates)
}

// readFeatures reads released text features.
func readFeatures(path string, classes, width int) (*torch.Tensor, error) {
	a, err := npy.Read(path)
	if err != nil {
		return nil, err
	}
	if len(a.Shape) != 2 || a.Shape[0] != int64(classes) || a.Shape[1] != int64(width) {
		return nil, fmt.Errorf("%w: %s has the shape %v; %d classes and this model's embeddings want [%d %d]", ErrSettings, path, a.Shape, classes, classes, width)
	}
	v, err := a.Float64()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f := make([]float32, len(v))
	for i, x := range v {
		f[i] = float32(x)
	}
	var t *torch.Tensor
	err = torch.Try(func() { t = torch.FromSlice(f, classes, width) })
	return t, err
}

// noise gives text features with the noise of a label graph over them, as the released code has it: Ā, no activation after the last layer.
func (l *Labeller) noise(raw *torch.Tensor) (*torch.Tensor, error) {
	s, n := &l.settings, len(l.classes)
	u := s.TopU
	if u == 0 || u > n {
		u = n
	}
	var sim *torch.Tensor
	if err := torch.Try(func() { sim = l.text.Matmul(l.text.T()) }); err != nil {
		return nil, err
	}
	g, err := label.NewGraph(sim, label.GraphConfig{TopU: u, Weight: s.Weight, Tau: graphTau})
	if err != nil {
		return nil, err
	}
	net, err := label.NewGraphNoise(raw.Size(1), graphHidden, int64(s.Seed), false)
	if err != nil {
		return nil, err
	}
	_, text, err := net.Noise(g.Bar, raw)
	return text, err
}

// Text gives the normalised text features, [C, E] in row-major order.
func (l *Labeller) Text() (features []float32, err error) {
	err = torch.Try(func() { features = torch.ToSlice[float32](l.text) })
	return features, err
}

// Settings are those of New.
func (l *Labeller) Settings() Settings { return l.settings }

// Boxes are the tiles of a photo of w × h: a function of seed, row and size alone.
func (s *Settings) Boxes(row, w, h int) ([]image.Rectangle, error) {
	if w < s.Grid || h < s.Grid {
		return nil, fmt.Errorf("a picture of %d×%d pixels has no %d×%d tiles", w, h, s.Grid, s.Grid)
	}
	var overlap func(int) (float64, float64)
	if s.Overlap > 0 {
		x := uint64(s.Seed)<<32 | uint64(uint32(row)) // splitmix64, so that neighbours draw independently
		x += 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		overlap = label.RandomOverlap(uint32(x^x>>31), s.Overlap)
	}
	return label.Tiles(w, h, s.Grid, overlap), nil
}

// batch is some photos, ready for the tower.
type batch struct {
	rows   []int
	x      *torch.Tensor // [B·views, 3, H, W]
	boxes  [][]image.Rectangle
	broken []error
}

// load prepares photos. unread says which could not be read; nil: none.
func (l *Labeller) load(ctx context.Context, rows []int, files [][]byte, unread []error) (*batch, error) {
	b := &batch{rows: rows, boxes: make([][]image.Rectangle, len(rows))}
	var parts func(i, w, h int) ([]image.Rectangle, error)
	if l.settings.Method == DAMP {
		parts = func(i, w, h int) ([]image.Rectangle, error) {
			tiles, err := l.settings.Boxes(rows[i], w, h)
			b.boxes[i] = tiles
			return append([]image.Rectangle{image.Rect(0, 0, w, h)}, tiles...), err
		}
	}
	var err error
	b.x, b.broken, err = l.prepare.Views(ctx, files, l.settings.views(), parts)
	for i, e := range unread {
		if e != nil && err == nil {
			b.broken[i] = e
		}
	}
	return b, err
}

// cosines are those of the whole photos [B, C] and of their tiles [R, B, C], nil without tiles.
func (l *Labeller) cosines(ctx context.Context, b *batch) (global, tiles *torch.Tensor, err error) {
	z, err := l.model.EncodeImage(ctx, b.x)
	if err != nil {
		return nil, nil, err
	}
	err = torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(a *torch.Arena) {
				v := l.settings.views()
				cos := clip.Normalize(z).Matmul(l.text.T()).Reshape(len(b.rows), v, len(l.classes))
				global = cos.Select(1, 0).Contiguous()
				a.Keep(global)
				if v > 1 {
					tiles = cos.Slice(1, 1, v, 1).Permute(1, 0, 2).Contiguous()
					a.Keep(tiles)
				}
			})
		})
		z.Free()
	})
	return global, tiles, err
}

// Label makes labels of photos by their bytes; rows are their places in the data set, which seed the tiles, observed their labels [B, C]. broken has the reason of
// each photo that could not be read, whose labels mean nothing.
func (l *Labeller) Label(ctx context.Context, rows []int, files [][]byte, observed []int8) (labels *Labels, broken []error, err error) {
	if len(rows) != len(files) || len(observed) != len(rows)*len(l.classes) || len(rows) == 0 {
		return nil, nil, fmt.Errorf("%w: %d rows, %d files, %d observed labels of %d classes", ErrSettings, len(rows), len(files), len(observed), len(l.classes))
	}
	b, err := l.load(ctx, rows, files, nil)
	if err != nil {
		return nil, nil, err
	}
	defer b.x.Free()
	labels, err = l.label(ctx, b, observed)
	return labels, b.broken, err
}

func (l *Labeller) label(ctx context.Context, b *batch, observed []int8) (*Labels, error) {
	global, tiles, err := l.cosines(ctx, b)
	if err != nil {
		return nil, err
	}
	out, err := l.settings.Labels(global, tiles, observed)
	global.Free()
	if tiles != nil {
		tiles.Free()
	}
	if err == nil {
		for i, v := range out.Scores {
			if math.IsNaN(float64(v)) && b.broken[i/len(l.classes)] == nil {
				return nil, fmt.Errorf("%w: row %d: the model gives no number for the photo", ErrSettings, b.rows[i/len(l.classes)])
			}
		}
	}
	return out, err
}
