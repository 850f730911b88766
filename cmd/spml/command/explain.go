package command

import (
	"context"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/overlay"
	"github.com/gospml/gospml/spml/train"
)

func newExplain() *cobra.Command {
	var run, out, part, device string
	var labels []string
	var top, most int
	var pixels photoFlags
	cmd := &cobra.Command{
		Use:   "explain PHOTO|DIR… --run RUN [--label NAME] [--out DIR] | explain --run RUN --part test",
		Short: "Draw where a model looked for each label",
		Long: `Writes photos with a heat map for each label: the attention of a label-wise decoder (--head decoder), or the class activation map of a
linear head. Several photos, or a folder, also give sheet.png with a row for each. Photos of one name, a/x.jpg and b/x.jpg, give a_x.jpg.dog.png
and b_x.jpg.dog.png.

  spml explain photo.jpg --run runs/lac                    the three most probable labels
  spml explain photo.jpg --run runs/lac --label dog        one label
  spml explain photos --run runs/em --out explained        a folder
  spml explain --run runs/em --part test --out explained   the first photos of the run's own test part`,
		Args: atLeast(0, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if run == "" {
				return usageError{fmt.Errorf("%s wants --run RUN, a run directory of spml train", cmd.CommandPath())}
			}
			if err := pixels.check(); err != nil {
				return err
			}
			if (len(args) == 0) == (part == "") {
				return usageError{fmt.Errorf("%s wants a photo, a folder, or --part NAME of the run's own data", cmd.CommandPath())}
			}
			from := filePhotos(picturesIn(pathsOf(args), false, false))
			if part != "" {
				own, done, err := runPhotos(run, part)
				if err != nil {
					return err
				}
				defer done()
				from = own
			}
			var photos []photo
			for p, err := range from {
				if err != nil {
					return err
				}
				if photos = append(photos, p); part != "" && len(photos) == most {
					break
				}
			}
			t, err := model.OpenTagger(run, model.TaggerOptions{Device: device, EXIF: pixels.exif, MaxPixels: pixels.maxPixels})
			if err != nil {
				return err
			}
			defer t.Close()
			for _, l := range labels {
				if !slices.Contains(t.Config.LabelNames, l) {
					return usageError{fmt.Errorf("the model has no label %q; it has %s", l, strings.Join(t.Config.LabelNames, ", "))}
				}
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			e := explainer{t: t, out: out, labels: labels, top: top, say: cmd.OutOrStdout()}
			return e.all(cmd.Context(), cmd.ErrOrStderr(), photos)
		},
	}
	f := cmd.Flags()
	f.StringVar(&run, "run", "", "run directory")
	pixels.add(f, "", " (default: as the model was trained)")
	f.StringArrayVar(&labels, "label", nil, "label to draw; repeatable (default: the most probable ones)")
	f.StringVar(
		&device,
		"device",
		config.DeviceAuto,
		"where to compute: auto (a graphics card where there is one), cpu, cuda or cuda:N",
	)
	f.IntVar(&top, "top", 3, "how many of the most probable labels are drawn")
	f.StringVar(&out, "out", ".", "folder for the pictures")
	f.StringVar(&part, "part", "", "train, val or test: photos of the data that the run was trained on")
	f.IntVar(&most, "photos", 8, "how many photos of --part (0: all)")
	return cmd
}

type explainer struct {
	t      *model.Tagger
	out    string
	labels []string
	top    int
	say    io.Writer
}

const (
	sheetRows = 50  // a sheet holds the first so many photos
	sheetSide = 224 // of a picture on it
)

func (e *explainer) all(ctx context.Context, errs io.Writer, photos []photo) error {
	var rows [][]overlay.Tile
	failed := 0
	var paths []string
	for _, p := range photos {
		paths = append(paths, p.name)
	}
	names := pictureNames(paths)
	for i, p := range photos {
		row, err := e.photo(ctx, p, names[i])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // said now, counted at the end: the other photos still get their pictures
			plain.Fprintf(errs, "spml: %s: %v\n", p.name, err)
			failed++
			continue
		}
		if len(rows) < sheetRows {
			rows = append(rows, row)
		}
	}
	if len(photos) > 1 && len(rows) > 0 {
		to := filepath.Join(e.out, "sheet.png")
		if err := writePNG(to, overlay.Sheet(rows, sheetSide)); err != nil {
			return err
		}
		plain.Fprintf(e.say, "%s: %d photos\n", to, len(rows))
	}
	if failed > 0 {
		return fmt.Errorf("%w: %d of %d photos could not be explained", train.ErrData, failed, len(photos))
	}
	return nil
}

// photo writes a picture for each label and gives the row of the sheet: the photo, then the labels.
func (e *explainer) photo(ctx context.Context, p photo, name string) ([]overlay.Tile, error) {
	b, err := p.read()
	if err != nil {
		return nil, err
	}
	x, err := e.t.Explain(ctx, b)
	if err != nil {
		return nil, err
	}
	rgb, err := pixel.Decode(b, e.t.Pixels())
	if err != nil {
		return nil, err
	}
	photo, err := overlay.Draw(rgb, []float32{0}, 1, 1)
	if err != nil {
		return nil, err
	}
	row := []overlay.Tile{{Image: photo, Caption: name}}
	for _, c := range e.chosen(x.Probabilities) {
		m, err := overlay.Draw(rgb, x.Maps[c], x.H, x.W)
		if err != nil {
			return nil, err
		}
		label := e.t.Config.LabelNames[c]
		to := filepath.Join(e.out, fmt.Sprintf("%s.%s.png", name, fileName(label)))
		if err := writePNG(to, m); err != nil {
			return nil, err
		}
		plain.Fprintf(e.say, "%s  %s %.3f (%s)\n", to, label, x.Probabilities[c], x.Kind)
		row = append(row, overlay.Tile{Image: m, Caption: fmt.Sprintf("%s %.2f", label, x.Probabilities[c])})
	}
	return row, nil
}

// pictureNames gives each photo a name of its own for the pictures made of it: the file's without its ending, where two
// share that the path's parts joined by "_", and a number behind what is still taken. Case does not tell names apart,
// because some file systems do not.
func pictureNames(photos []string) []string {
	stem := func(p string) string { return strings.TrimSuffix(filepath.Base(p), filepath.Ext(p)) }
	count := map[string]int{"sheet": 2} // sheet.png is the sheet's
	for _, p := range photos {
		count[strings.ToLower(stem(p))]++
	}
	names, taken := make([]string, len(photos)), map[string]bool{}
	for i, p := range photos {
		if n := stem(p); count[strings.ToLower(n)] == 1 {
			names[i], taken[strings.ToLower(n)] = n, true
		}
	}
	for i, p := range photos {
		if names[i] != "" {
			continue
		}
		full := fileName(strings.Trim(strings.TrimPrefix(filepath.ToSlash(filepath.Clean(p)), filepath.VolumeName(p)), "./"))
		name := full
		for k := 2; taken[strings.ToLower(name)]; k++ {
			name = fmt.Sprintf("%s-%d", full, k)
		}
		names[i], taken[strings.ToLower(name)] = name, true
	}
	return names
}

// chosen are the classes to draw.
func (e *explainer) chosen(p []float32) []int {
	if len(e.labels) > 0 {
		var c []int
		for _, l := range e.labels {
			c = append(c, slices.Index(e.t.Config.LabelNames, l))
		}
		return c
	}
	c := make([]int, len(p))
	for i := range c {
		c[i] = i
	}
	sort.SliceStable(c, func(i, j int) bool { return p[c[i]] > p[c[j]] })
	return c[:min(max(e.top, 1), len(c))]
}

// fileName makes a label a part of a file's name.
func fileName(label string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>| `, r) || r < ' ' {
			return '_'
		}
		return r
	}, label)
}

func writePNG(path string, m image.Image) error {
	return atomicfile.WriteFile(path, 0o644, func(w io.Writer) error { return png.Encode(w, m) })
}
