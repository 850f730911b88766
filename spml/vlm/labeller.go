package vlm

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/torch"
)

// graphHidden is the width between the layers of the label graph's network.
const graphHidden = 1024

// Labeller makes pseudo-labels of photos. It is safe for many goroutines.
type Labeller struct {
	settings Settings
	classes  []string
	model    *clip.Model
	prepare  *clip.Preprocessor
	text     *torch.Tensor // [C, E], normalised
	there    *torch.Tensor // the same on the model's device; nil where that is the CPU
	source   string        // where the text features come from, where that is worth a word
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
	if l.prepare, err = clip.NewPreprocessor(p, h, w, 0, s.pixels()); err != nil {
		return nil, err
	}
	l.prepare.SendBytes(m)
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
	if d := m.Device(); err == nil && d.Type != torch.DeviceCPU {
		err = torch.Try(func() { compute.Outside(func() { l.there = l.text.ToDevice(d) }) })
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
		return readMatrix(s.TextFeatures, "classes and this model's embeddings", len(l.classes), c.EmbedDim)
	}
	names, err := s.names(l.classes)
	if err != nil {
		return nil, err
	}
	if c.Text == nil {
		return nil, fmt.Errorf("%w: the model has no text tower; give text features (.npy of %d × %d) in place of prompts", ErrSettings, len(names), c.EmbedDim)
	}
	kept, err := l.cachedText(names)
	if err != nil {
		return nil, err
	}
	return l.throughCache(kept, len(names), c.EmbedDim, func() (*torch.Tensor, error) {
		if len(s.Templates) == 1 {
			return l.model.EncodeText(ctx, s.prompts(s.Templates[0], names))
		}
		templates := make([]string, len(s.Templates))
		for i, t := range s.Templates {
			templates[i] = s.prompts(t, []string{"{}"})[0]
		}
		return l.model.ClassFeatures(ctx, names, templates)
	})
}

// Source says whether the text features came from the cache or went there, "" without a cache.
func (l *Labeller) Source() string { return l.source }

// weights are the paths of the model's files.
func (l *Labeller) weights() []string {
	m := l.model.Loaded()
	dir := m.Path
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		dir = filepath.Dir(dir)
	}
	var files []string
	for _, w := range m.Weights {
		if !filepath.IsAbs(w) {
			w = filepath.Join(dir, w)
		}
		files = append(files, w)
	}
	return files
}

// readMatrix reads a .npy file of numbers [rows, columns]; what says of what.
func readMatrix(path, what string, rows, columns int) (*torch.Tensor, error) {
	a, err := npy.Read(path)
	if err != nil {
		return nil, err
	}
	if len(a.Shape) != 2 || a.Shape[0] != int64(rows) || a.Shape[1] != int64(columns) {
		return nil, fmt.Errorf("%w: %s has the shape %v; %d %s want [%d %d]", ErrSettings, path, a.Shape, rows, what, rows, columns)
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
	err = torch.Try(func() { t = torch.FromSlice(f, rows, columns) })
	return t, err
}

// noise gives text features with the noise of a label graph over them: Ā and no activation after the last layer as in
// the released code, or A* and one as printed.
func (l *Labeller) noise(raw *torch.Tensor) (*torch.Tensor, error) {
	s, n := &l.settings, len(l.classes)
	u := s.TopU
	if u == 0 || u > n {
		u = n
	}
	sim, err := l.relation()
	if err != nil {
		return nil, err
	}
	g, err := label.NewGraph(sim, label.GraphConfig{TopU: u, Weight: s.Weight, Tau: cmp.Or(s.GraphTau, 1)})
	if err != nil {
		return nil, err
	}
	seed := s.NoiseSeed
	if seed == 0 {
		seed = s.Seed
	}
	net, err := label.NewGraphNoise(raw.Size(1), graphHidden, int64(seed), s.Last)
	if err != nil {
		return nil, err
	}
	graph := g.Bar
	if s.Star {
		graph = g.Star
	}
	_, text, err := net.Noise(graph, raw)
	return text, err
}

// relation are the similarities of the classes [C, C].
func (l *Labeller) relation() (sim *torch.Tensor, err error) {
	n := len(l.classes)
	path := l.settings.Relation
	if path == "" {
		err = torch.Try(func() { sim = l.text.Matmul(l.text.T()) })
		return sim, err
	}
	if sim, err = readMatrix(path, "classes", n, n); err == nil {
		finite := false
		err = torch.Try(func() { finite = sim.IsFinite().All().Item() != 0 })
		if err == nil && !finite {
			err = fmt.Errorf("%w: %s holds values that are not finite", ErrSettings, path)
		}
	}
	return sim, err
}

// Text gives the normalised text features, [C, E] in row-major order.
func (l *Labeller) Text() (features []float32, err error) {
	err = torch.Try(func() { features = torch.ToSlice[float32](l.text) })
	return features, err
}

// Settings are those of New.
func (l *Labeller) Settings() Settings { return l.settings }

// Boxes are the tiles of a photo of w × h: a function of seed, epoch, row and size alone. Epoch 0 is the pass outside
// training.
func (s *Settings) Boxes(epoch, row, w, h int) ([]image.Rectangle, error) {
	if w < s.Grid || h < s.Grid {
		return nil, fmt.Errorf("a picture of %d×%d pixels has no %d×%d tiles", w, h, s.Grid, s.Grid)
	}
	var overlap func(int) (float64, float64)
	if s.Overlap > 0 {
		overlap = label.RandomOverlap(uint32(random.Mix(uint64(s.Seed), uint64(row), uint64(epoch))), s.Overlap)
	}
	return label.Tiles(w, h, s.Grid, overlap), nil
}

// mirrored says which views of a photo are mirrored in an epoch of training, each with probability 0.5, as the released
// code draws them.
func (s *Settings) mirrored(epoch, row int) []bool {
	m := make([]bool, s.views())
	for i := range m {
		m[i] = random.Mix(uint64(s.Seed)^mirrorSalt, uint64(row), uint64(epoch), uint64(i))>>63 == 1
	}
	return m
}

// mirrorSalt keeps these draws apart from those of the tiles.
const mirrorSalt = 0x6d6972726f72

// batch is some photos, ready for the tower.
type batch struct {
	rows   []int
	x      *torch.Tensor // [B·views, 3, H, W], or bytes [B·views, H, W, 3]
	boxes  [][]image.Rectangle
	broken []error
}

// load prepares photos. unread says which could not be read; nil: none.
func (l *Labeller) load(ctx context.Context, p Photos, unread []error) (*batch, error) {
	b := &batch{rows: p.Rows, boxes: make([][]image.Rectangle, len(p.Rows))}
	var parts func(i, w, h int) ([]image.Rectangle, error)
	if l.settings.Method == DAMP {
		parts = func(i, w, h int) ([]image.Rectangle, error) {
			tiles, err := l.settings.Boxes(p.Epoch, p.Rows[i], w, h)
			b.boxes[i] = tiles
			return append([]image.Rectangle{image.Rect(0, 0, w, h)}, tiles...), err
		}
	}
	var err error
	if b.x, b.broken, err = l.prepare.Views(ctx, p.Files, l.settings.views(), parts); err != nil {
		return nil, err
	}
	for i, e := range unread {
		if e != nil {
			b.broken[i] = e
		}
	}
	if p.Epoch > 0 || p.Mirror != nil {
		l.mirror(b.x, p)
	}
	return b, nil
}

// mirror turns the views that training sees mirrored, [B·views, 3, H, W], or bytes [B·views, H, W, 3], in place.
func (l *Labeller) mirror(x *torch.Tensor, p Photos) {
	views := l.settings.views()
	turned := func(i int) []bool {
		t := make([]bool, views)
		if l.settings.Method == DAMP && p.Epoch > 0 {
			t = l.settings.mirrored(p.Epoch, p.Rows[i])
		} else if p.Mirror != nil {
			t[0] = p.Mirror[i]
		}
		return t
	}
	if x.DType() == torch.Uint8 {
		width := x.Size(2)
		torch.View(x, func(data []byte) {
			mirrorRows(data, len(p.Rows), views, 3*width, turned, func(row []byte) {
				for a, b := 0, 3*(width-1); a < b; a, b = a+3, b-3 {
					for c := range 3 {
						row[a+c], row[b+c] = row[b+c], row[a+c]
					}
				}
			})
		})
		return
	}
	torch.View(x, func(data []float32) {
		mirrorRows(data, len(p.Rows), views, x.Size(3), turned, slices.Reverse[[]float32])
	})
}

// mirrorRows turns each row of width numbers of the views for which turned says so.
func mirrorRows[T any](data []T, photos, views, width int, turned func(i int) []bool, turn func(row []T)) {
	size := len(data) / (photos * views)
	for i := range photos {
		for v, yes := range turned(i) {
			if !yes {
				continue
			}
			picture := data[(i*views+v)*size : (i*views+v+1)*size]
			for at := 0; at < size; at += width {
				turn(picture[at : at+width])
			}
		}
	}
}

// cosines are those of the whole photos [B, C] and of their tiles [R, B, C], nil without tiles.
func (l *Labeller) cosines(ctx context.Context, b *batch) (global, tiles *torch.Tensor, err error) {
	z, err := l.model.EncodeImage(ctx, b.x)
	if err != nil {
		return nil, nil, err
	}
	return l.compare(z, l.text)
}

// compare gives the cosines of embeddings z, which it frees, with the classes'.
func (l *Labeller) compare(z, text *torch.Tensor) (global, tiles *torch.Tensor, err error) {
	err = torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(a *torch.Arena) {
				v := l.settings.views()
				cos := clip.Normalize(z).Matmul(text.T()).Reshape(z.Size(0)/v, v, len(l.classes))
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

// Photos are photos to label.
type Photos struct {
	Rows  []int    // their places in the data set, which seed the tiles
	Files [][]byte // the bytes of their files
	// Epoch of training, counted from 1: tiles are drawn anew in each, and DAMP's views are mirrored at random. 0 stands
	// for a pass outside training.
	Epoch  int
	Mirror []bool // VLPL: the photos that the classifier sees mirrored; nil: none
}

// Label makes labels of photos; observed are their labels [B, C]. broken has the reason of each photo that could not be
// read, whose labels mean nothing.
func (l *Labeller) Label(ctx context.Context, p Photos, observed []int8) (labels *Labels, broken []error, err error) {
	if len(observed) != len(p.Rows)*len(l.classes) {
		return nil, nil, fmt.Errorf("%w: %d photos, %d observed labels of %d classes", ErrSettings, len(p.Rows), len(observed), len(l.classes))
	}
	global, tiles, broken, err := l.Cosines(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	defer global.Free()
	if tiles != nil {
		defer tiles.Free()
	}
	labels, err = l.settings.Labels(global, tiles, observed)
	if err == nil {
		err = l.finite(labels, p.Rows, broken)
	}
	return labels, broken, err
}

// Cosines are those of the photos with the classes [B, C] and of their tiles [R, B, C], which is nil for VLPL. The
// caller frees them. broken is as in Label.
func (l *Labeller) Cosines(ctx context.Context, p Photos) (global, tiles *torch.Tensor, broken []error, err error) {
	return l.cosinesOf(ctx, p, l.cosines)
}

// cosinesThere is Cosines with the results on the model's device, which is not the CPU. Nothing waits for them.
func (l *Labeller) cosinesThere(ctx context.Context, p Photos) (global, tiles *torch.Tensor, broken []error,
	err error) {
	return l.cosinesOf(ctx, p, func(ctx context.Context, b *batch) (global, tiles *torch.Tensor, err error) {
		z, err := l.model.EncodeImageThere(ctx, b.x)
		if err != nil {
			return nil, nil, err
		}
		return l.compare(z, l.there)
	})
}

func (l *Labeller) cosinesOf(ctx context.Context, p Photos,
	of func(context.Context, *batch) (global, tiles *torch.Tensor, err error)) (global, tiles *torch.Tensor,
	broken []error, err error) {
	if len(p.Rows) != len(p.Files) || len(p.Rows) == 0 || p.Mirror != nil && len(p.Mirror) != len(p.Rows) {
		return nil, nil, nil, fmt.Errorf("%w: %d rows, %d files, %d to mirror", ErrSettings, len(p.Rows), len(p.Files), len(p.Mirror))
	}
	b, err := l.load(ctx, p, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	defer b.x.Free()
	global, tiles, err = of(ctx, b)
	return global, tiles, b.broken, err
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
		err = l.finite(out, b.rows, b.broken)
	}
	return out, err
}

// finite refuses scores that are no numbers.
func (l *Labeller) finite(labels *Labels, rows []int, broken []error) error {
	for i, v := range labels.Scores {
		if k := i / len(l.classes); math.IsNaN(float64(v)) && broken[k] == nil {
			return fmt.Errorf("%w: row %d: the model gives no number for the photo", ErrSettings, rows[k])
		}
	}
	return nil
}
