package vlm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/vlm"
	"github.com/gospml/gospml/torch"
)

const side = shapes.Size

// picture is drawn picture i.
func picture(i int) (*image.RGBA, [len(shapes.Classes)]int8) {
	rgb := make([]byte, shapes.PictureBytes)
	y := shapes.Draw(5, uint64(i), rgb)
	m := image.NewRGBA(image.Rect(0, 0, side, side))
	for p := range side * side {
		copy(m.Pix[4*p:], rgb[3*p:3*p+3])
		m.Pix[4*p+3] = 255
	}
	return m, y
}

func encoded(t *testing.T, m image.Image) []byte {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, m))
	return b.Bytes()
}

// folder is a CSV data set of n drawn pictures.
func folder(t *testing.T, n int) string {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "images"), 0o755))
	labels := &strings.Builder{}
	fmt.Fprintf(labels, "filename,%s\n", strings.Join(shapes.Classes[:], ","))
	for i := range n {
		m, y := picture(i)
		name := fmt.Sprintf("%03d.png", i)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "images", name), encoded(t, m), 0o644))
		fmt.Fprint(labels, name)
		for _, v := range y {
			fmt.Fprintf(labels, ",%d", v)
		}
		fmt.Fprintln(labels)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "labels.csv"), []byte(labels.String()), 0o644))
	return dir
}

func open(t *testing.T, dir string) *data.Dataset {
	ds, err := data.Open(dir, data.Options{Seed: 1200})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ds.Close()) })
	return ds
}

func model(t *testing.T) *clip.Model {
	m, err := clip.OpenBuiltin(clip.Options{})
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

func settings(t *testing.T, m vlm.Method, form string, batch int) vlm.Settings {
	s, err := vlm.Published(m, "coco", form)
	require.NoError(t, err)
	s.Batch, s.Seed = batch, 7
	if m == vlm.DAMP {
		s.Grid = 2
	}
	return s
}

func readNPY(t *testing.T, path string) []int8 {
	a, err := npy.Read(path)
	require.NoError(t, err)
	require.Equal(t, "|i1", a.Dtype)
	v, err := a.Int64()
	require.NoError(t, err)
	out := make([]int8, len(v))
	for i, x := range v {
		out[i] = int8(x)
	}
	return out
}

// The labels of a run are those of label.VLPL and label.DAMP on cosines computed another way: parts cut by the standard
// library, one batch.
func TestRunGivesTheMethodsLabels(t *testing.T) {
	const n = 11
	ds, m := open(t, folder(t, n)), model(t)
	c := ds.C()
	ctx := t.Context()
	for _, test := range []struct {
		method vlm.Method
		form   string
		noise  bool
	}{{vlm.VLPL, vlm.Default, false}, {vlm.VLPL, vlm.Code, false}, {vlm.VLPL, vlm.Paper, false}, {vlm.DAMP, vlm.Default, false}, {vlm.DAMP, vlm.Default, true}, {vlm.DAMP, vlm.Paper, false}, {vlm.DAMP, vlm.Code, false}, {vlm.DAMP, vlm.Count, true}} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			s := settings(t, test.method, test.form, 4)
			s.Noise, s.Delta, s.Theta = test.noise, 0.3, 0.25
			l, err := vlm.New(ctx, m, ds.Classes, s)
			require.NoError(t, err)
			dir := t.TempDir()
			o := vlm.Outputs{Labels: filepath.Join(dir, "l.npy"), Evidence: filepath.Join(dir, "l.jsonl"), Sheet: filepath.Join(dir, "l.html"), Photos: 5}
			sum, err := l.Run(ctx, ds, o, vlm.Events{})
			require.NoError(t, err)
			require.NoFileExists(t, o.Labels+".partial")

			texts := make([]string, c)
			for i, name := range ds.Classes {
				texts[i] = s.Templates[0]
				texts[i] = strings.ReplaceAll(texts[i], "{name}", name)
			}
			raw, err := m.EncodeText(ctx, texts)
			require.NoError(t, err)
			text := clip.Normalize(raw)
			if test.noise {
				g, err := label.NewGraph(text.Matmul(text.T()), label.GraphConfig{TopU: c, Weight: 0.2, Tau: 1})
				require.NoError(t, err)
				net, err := label.NewGraphNoise(raw.Size(1), 1024, 7, false)
				require.NoError(t, err)
				_, text, err = net.Noise(g.Bar, raw)
				require.NoError(t, err)
			}
			features, err := l.Text()
			require.NoError(t, err)
			require.Equal(t, torch.ToSlice[float32](text), features)
			pre, err := clip.NamedPreprocess(s.Preprocess)
			require.NoError(t, err)
			h, w := m.ImageSize()
			p, err := clip.NewPreprocessor(pre, h, w, 1, pixel.Options{})
			require.NoError(t, err)
			cosines := func(files [][]byte) *torch.Tensor {
				x, err := p.Batch(ctx, files)
				require.NoError(t, err)
				z, err := m.EncodeImage(ctx, x)
				require.NoError(t, err)
				return clip.Normalize(z).Matmul(text.T())
			}
			views := make([][][]byte, 1+4) // [view][photo]
			for i := range n {
				pic, _ := picture(i)
				boxes := []image.Rectangle{pic.Rect}
				if test.method == vlm.DAMP {
					tiles, err := s.Boxes(0, i, side, side)
					require.NoError(t, err)
					boxes = append(boxes, tiles...)
				}
				for v, b := range boxes {
					views[v] = append(views[v], encoded(t, pic.SubImage(b)))
				}
			}
			global := cosines(views[0])
			var want []int8
			var scores []float32
			if test.method == vlm.VLPL {
				delta := s.Delta
				if test.form == vlm.Default {
					delta = 0
				}
				pseudo, similarity, err := label.VLPL(global, s.Tau, s.Theta, delta)
				require.NoError(t, err)
				want, scores = torch.ToSlice[int8](pseudo), torch.ToSlice[float32](similarity)
			} else {
				var patches []*torch.Tensor
				for _, v := range views[1:] {
					patches = append(patches, cosines(v))
				}
				form := label.DAMPForm(test.form)
				r, err := label.DAMP(global, torch.Stack(patches, 0), torch.FromSlice(ds.Observed, n, c),
					label.DAMPConfig{Tau: s.Tau, Nu: s.Nu, TopK: s.TopK, Zeta: s.Theta, Negative: s.Delta, Form: form})
				require.NoError(t, err)
				want, scores = torch.ToSlice[int8](r.Pseudo), torch.ToSlice[float32](r.Final)
			}
			want = vlm.Merge(want, ds.Observed)
			got := readNPY(t, o.Labels)
			if test.method == vlm.VLPL && test.form == vlm.Default { // negatives of our own: no positive taken back
				p := torch.ToSlice[float32](global)
				for i := range n {
					require.Equal(t, 3, count(got[i*c:(i+1)*c], -1), "floor(0.3·12)")
					for a := range c {
						for b := range c {
							if got[i*c+a] == -1 && got[i*c+b] == 0 {
								require.LessOrEqual(t, p[i*c+a], p[i*c+b])
							}
						}
					}
				}
				for i := range got {
					got[i] = max(got[i], 0)
				}
			}
			require.Equal(t, want, got)
			require.Contains(t, want, int8(1))
			require.Equal(t, n, sum.Photos)
			require.Equal(t, n, sum.Observed)
			require.Equal(t, n, sum.Known)
			require.Equal(t, count(want, 1), sum.Positives)
			require.Equal(t, sum.Positives-n, sum.Quality.Pseudo)
			require.Contains(t, sum.String(), "precision")

			lines, err := os.ReadFile(o.Evidence)
			require.NoError(t, err)
			i := 0
			for line := range bytes.Lines(lines) {
				var e vlm.Evidence
				require.NoError(t, json.Unmarshal(line, &e))
				require.Equal(t, ds.Images[i], e.Image)
				require.Len(t, e.Positives, count(want[i*c:(i+1)*c], 1))
				require.Equal(t, test.method == vlm.DAMP, e.Refused[0].Box != nil)
				for _, x := range append(e.Positives, e.Refused...) {
					require.InDelta(t, scores[i*c+slices.Index(ds.Classes, x.Class)], x.Score, 1e-5)
					if x.Box != nil {
						boxes, err := s.Boxes(0, i, side, side)
						require.NoError(t, err)
						b := boxes[*x.Tile]
						require.Equal(t, [4]int{b.Min.X, b.Min.Y, b.Max.X, b.Max.Y}, *x.Box)
					}
				}
				i++
			}
			require.Equal(t, n, i)
			html, err := os.ReadFile(o.Sheet)
			require.NoError(t, err)
			require.Equal(t, 5, bytes.Count(html, []byte("data:image/jpeg;base64,")))
			require.NotContains(t, string(html), "ZgotmplZ")
		})
	}
}

func count(v []int8, x int8) (n int) {
	for _, y := range v {
		if y == x {
			n++
		}
	}
	return n
}

// A pass that is stopped, or whose journal is cut off or damaged, ends in the identical files.
func TestResume(t *testing.T) {
	const n = 11
	ds, m := open(t, folder(t, n)), model(t)
	l, err := vlm.New(t.Context(), m, ds.Classes, settings(t, vlm.DAMP, vlm.Default, 2))
	require.NoError(t, err)
	outputs := func() vlm.Outputs {
		dir := t.TempDir()
		return vlm.Outputs{Labels: filepath.Join(dir, "l.npy"), Evidence: filepath.Join(dir, "l.jsonl")}
	}
	read := func(o vlm.Outputs) [2]string {
		a, err := os.ReadFile(o.Labels)
		require.NoError(t, err)
		b, err := os.ReadFile(o.Evidence)
		require.NoError(t, err)
		return [2]string{string(a), string(b)}
	}
	whole := outputs()
	_, err = l.Run(t.Context(), ds, whole, vlm.Events{})
	require.NoError(t, err)
	for name, spoil := range map[string]func([]byte) []byte{
		"as it is": func(b []byte) []byte { return b },
		"cut off":  func(b []byte) []byte { return b[:len(b)-5] },
		"damaged":  func(b []byte) []byte { b[len(b)-9] ^= 1; return b },
	} {
		t.Run(name, func(t *testing.T) {
			o := outputs()
			ctx, cancel := context.WithCancel(t.Context())
			_, err := l.Run(ctx, ds, o, vlm.Events{Step: func(done, _ int, _ float64) {
				if done == 6 {
					cancel()
				}
			}})
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, "stopped after 6 of 11 photos")
			require.NoFileExists(t, o.Labels)
			b, err := os.ReadFile(o.Labels + ".partial")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(o.Labels+".partial", spoil(b), 0o644))
			var notes []string
			sum, err := l.Run(t.Context(), ds, o, vlm.Events{Note: func(s string) { notes = append(notes, s) }})
			require.NoError(t, err)
			want := 6
			if name != "as it is" {
				want = 4
			}
			require.Equal(t, want, sum.Resumed)
			require.Contains(t, strings.Join(notes, "\n"), fmt.Sprintf("going on after %d of 11", want))
			require.Equal(t, read(whole), read(o))
		})
	}
	t.Run("twice at once", func(t *testing.T) {
		o := outputs()
		_, err := l.Run(t.Context(), ds, o, vlm.Events{Step: func(done, _ int, _ float64) {
			if done == 2 {
				_, err := l.Run(t.Context(), ds, o, vlm.Events{})
				require.ErrorContains(t, err, "is being written by process")
			}
		}})
		require.NoError(t, err)
		require.Equal(t, read(whole), read(o))
	})
	t.Run("another run's", func(t *testing.T) {
		o := outputs()
		ctx, cancel := context.WithCancel(t.Context())
		_, err := l.Run(ctx, ds, o, vlm.Events{Step: func(int, int, float64) { cancel() }})
		require.ErrorIs(t, err, context.Canceled)
		s := l.Settings()
		s.Tau = 0.5
		other, err := vlm.New(t.Context(), m, ds.Classes, s)
		require.NoError(t, err)
		var notes []string
		sum, err := other.Run(t.Context(), ds, o, vlm.Events{Note: func(s string) { notes = append(notes, s) }})
		require.NoError(t, err)
		require.Zero(t, sum.Resumed)
		require.Contains(t, strings.Join(notes, "\n"), "starting anew")
	})
}

// A photo that cannot be read is named once, keeps its observed labels, and changes no other.
func TestCorruptPhoto(t *testing.T) {
	const n, bad = 6, 3
	dir, m := folder(t, n), model(t)
	ds := open(t, dir)
	c := ds.C()
	for _, method := range []vlm.Method{vlm.VLPL, vlm.DAMP} {
		s := settings(t, method, vlm.Paper, 4)
		s.Delta = 0.5
		l, err := vlm.New(t.Context(), m, ds.Classes, s)
		require.NoError(t, err)
		run := func() (out []int8, named []string) {
			o := vlm.Outputs{Labels: filepath.Join(t.TempDir(), "l.npy"), Sheet: filepath.Join(t.TempDir(), "l.html")}
			_, err := l.Run(t.Context(), ds, o, vlm.Events{Broken: func(b data.Broken) { named = append(named, b.Name) }})
			require.NoError(t, err)
			return readNPY(t, o.Labels), named
		}
		path := filepath.Join(dir, "images", "003.png")
		good, err := os.ReadFile(path)
		require.NoError(t, err)
		want, named := run()
		require.Empty(t, named)
		require.NoError(t, os.WriteFile(path, good[:len(good)/2], 0o644))
		got, named := run()
		require.NoError(t, os.WriteFile(path, good, 0o644))
		require.Equal(t, []string{"003.png"}, named)
		require.NotEqual(t, want, got)
		copy(want[bad*c:(bad+1)*c], ds.ObservedRow(bad))
		require.Equal(t, want, got)
	}
}

// Tiles depend on seed and row, not on what else is in the batch.
func TestBoxes(t *testing.T) {
	s := settings(t, vlm.DAMP, vlm.Default, 4)
	s.Grid = 4
	boxes := func(seed uint32, row int) []image.Rectangle {
		s.Seed = seed
		b, err := s.Boxes(0, row, 500, 375)
		require.NoError(t, err)
		require.Len(t, b, 16)
		return b
	}
	require.Equal(t, boxes(1, 5), boxes(1, 5))
	require.NotEqual(t, boxes(1, 5), boxes(1, 6))
	require.NotEqual(t, boxes(1, 5), boxes(2, 5))
	plain := label.Tiles(500, 375, 4, nil)
	for i, b := range boxes(1, 5) {
		require.True(t, plain[i].In(b))
		require.LessOrEqual(t, b.Dx(), 125+2*25)
		require.LessOrEqual(t, b.Dy(), 93+2*18)
	}
	s.Overlap = 0
	require.Equal(t, plain, boxes(1, 5))
	_, err := s.Boxes(0, 0, 3, 100)
	require.ErrorContains(t, err, "4×4 tiles")
}

// Labels from scores of features that are already there: a photo of 80 classes, VLPL and DAMP with 16 tiles.
func BenchmarkLabels(b *testing.B) {
	const photos, c = 1024, 80
	for _, method := range []vlm.Method{vlm.VLPL, vlm.DAMP} {
		b.Run(string(method), func(b *testing.B) {
			s, err := vlm.Published(method, "coco", vlm.Default)
			require.NoError(b, err)
			global := torch.Rand([]int{photos, c}, torch.Float32).MulScalar(0.3)
			tiles := torch.Rand([]int{16, photos, c}, torch.Float32).MulScalar(0.3)
			observed := make([]int8, photos*c)
			for i := range photos {
				observed[i*c+i%c] = 1
			}
			for b.Loop() {
				_, err := s.Labels(global, tiles, observed)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*photos), "µs/photo")
		})
	}
}

func TestErrors(t *testing.T) {
	m := model(t)
	classes := []string{"circle", "square"}
	s := settings(t, vlm.VLPL, vlm.Default, 4)
	wants := func(s vlm.Settings, m *clip.Model, text string) {
		t.Helper()
		_, err := vlm.New(t.Context(), m, classes, s)
		require.ErrorIs(t, err, vlm.ErrSettings)
		require.ErrorContains(t, err, text)
	}
	features := filepath.Join(t.TempDir(), "text.npy")
	a, err := npy.New([]int64{2, 7}, make([]float32, 14))
	require.NoError(t, err)
	require.NoError(t, npy.Write(features, a))
	x := s
	x.TextFeatures = features
	wants(x, m, fmt.Sprintf("has the shape [2 7]; 2 classes and this model's embeddings want [2 %d]", m.Config().EmbedDim))
	a, err = npy.New([]int64{2, int64(m.Config().EmbedDim)}, make([]float32, 2*m.Config().EmbedDim))
	require.NoError(t, err)
	require.NoError(t, npy.Write(features, a))
	wants(x, m, "zero rows")
	x = s
	x.Names = []string{"circle", " "}
	wants(x, m, `class 2 ("square") has no text`)
	x.Names = []string{"circle"}
	wants(x, m, "1 class texts and 2 classes")
	x = s
	x.Templates = []string{"a photo"}
	wants(x, m, "no {name}")
	x = s
	x.Tau = 0
	wants(x, m, "τ")
	x = s
	x.Form = vlm.Count
	wants(x, m, "no form")
	_, err = vlm.Published(vlm.VLPL, "imagenet", "")
	require.ErrorContains(t, err, "voc, coco, nus, cub")

	blind, _, err := clip.Builtin()
	require.NoError(t, err)
	blind.Config.Vision, blind.Visual = nil, nil
	b, err := clip.NewModel(blind, clip.Options{})
	require.NoError(t, err)
	defer b.Close()
	wants(s, b, "no image tower")
}

// Text features from a file do what the prompts' own do.
func TestTextFeatures(t *testing.T) {
	ds, m := open(t, folder(t, 5)), model(t)
	s := settings(t, vlm.VLPL, vlm.Default, 4)
	prompted, err := vlm.New(t.Context(), m, ds.Classes, s)
	require.NoError(t, err)
	f, err := prompted.Text()
	require.NoError(t, err)
	for i := range f {
		f[i] *= 17 // stored features need not be normalised
	}
	a, err := npy.New([]int64{int64(ds.C()), int64(len(f) / ds.C())}, f)
	require.NoError(t, err)
	s.TextFeatures = filepath.Join(t.TempDir(), "text.npy")
	require.NoError(t, npy.Write(s.TextFeatures, a))
	filed, err := vlm.New(t.Context(), m, ds.Classes, s)
	require.NoError(t, err)
	var files [][]byte
	for i := range 5 {
		pic, _ := picture(i)
		files = append(files, encoded(t, pic))
	}
	rows := []int{0, 1, 2, 3, 4}
	want, broken, err := prompted.Label(t.Context(), vlm.Photos{Rows: rows, Files: files}, ds.Observed)
	require.NoError(t, err)
	require.Equal(t, make([]error, 5), broken)
	got, _, err := filed.Label(t.Context(), vlm.Photos{Rows: rows, Files: files}, ds.Observed)
	require.NoError(t, err)
	require.Equal(t, want.Pseudo, got.Pseudo)
	require.InDeltaSlice(t, want.Scores, got.Scores, 1e-5)
}

func TestLabelsAtTheEdges(t *testing.T) {
	for _, method := range []vlm.Method{vlm.VLPL, vlm.DAMP} {
		for _, c := range []int{1, 2, 10_000} {
			s := settings(t, method, vlm.Default, 4)
			s.Delta = 0.5
			var tiles *torch.Tensor
			if method == vlm.DAMP {
				tiles = torch.Zeros([]int{4, 2, c}, torch.Float32)
			}
			l, err := s.Labels(torch.Zeros([]int{2, c}, torch.Float32), tiles, make([]int8, 2*c)) // all equal, nothing observed
			require.NoError(t, err)
			require.Len(t, l.Pseudo, 2*c)
			require.InDelta(t, 1/float64(c), l.Scores[2*c-1], 1e-6)
			if c == 1 { // the only class has the whole softmax
				require.Equal(t, []int8{1, 1}, l.Pseudo)
			}
			if c == 10_000 {
				want := c // half of the classes of both photos
				if method == vlm.DAMP {
					want -= 2 // the class that stands in for the observed one is among the lowest
				}
				require.Equal(t, want, count(l.Pseudo, -1))
				require.Equal(t, int8(0), l.Pseudo[c-1], "ties go to the lower class")
			}
		}
	}
	// The spec's example: floor(0.4·5) = 2 negatives, neither the positive nor the observed one.
	s := settings(t, vlm.VLPL, vlm.Default, 4)
	s.Tau, s.Theta, s.Delta = 0.03, 0.3, 0.4
	l, err := s.Labels(torch.FromSlice([]float32{0.30, 0.25, 0.24, 0.10, 0.20}, 1, 5), nil, []int8{0, 0, 0, 1, 0})
	require.NoError(t, err)
	require.Equal(t, []int8{1, 0, -1, 0, -1}, l.Pseudo)
	require.InDelta(t, 0.734669, l.Scores[0], 1e-6)
}
