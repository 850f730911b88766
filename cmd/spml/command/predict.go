package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/internal/screen"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
)

func newPredict() *cobra.Command {
	var (
		asJSON            bool
		threshold         float64
		from, part        string
		options           config.DataOptions
		list, outPath     string
		format            string
		jobs              int
		device, precision string
		pixels            photoFlags
		resume            bool
		second, page      string
		w                 labelWriter
	)
	cmd := &cobra.Command{
		Use:   "predict RUN PHOTO|FOLDER|-… | predict RUN --list FILE | predict RUN --data PATH",
		Short: "Label photos",
		Long: `Prints the labels of photos with their probabilities, in the order of the photos. Labels above the model's threshold are marked.
A folder stands for every picture in and below it, in order of name; - reads names of photos and folders from the standard input, a line each.

  spml predict runs/em photo.jpg other.png
  spml predict runs/em photos --format jsonl --out labels.jsonl             every photo of a folder
  spml predict runs/em photos --format jsonl --out labels.jsonl --resume    only those that the file lacks
  find . -name '*.jpg' | spml predict runs/em - --format csv > labels.csv   the probability of every label, a column each
  spml predict runs/em photos --format parquet --out labels.parquet         the same rows for data frames
  spml predict runs/em --data VOCdevkit/VOC2012 --part test --json          the photos of a data set, in any format of spml data formats
  spml predict runs/em --part test --html test.html                         a page with the test part of the run's own data
  spml predict runs/an --compare runs/vlpl --html bars.html photos          a page with both models' bars beside each photo

A photo that cannot be labelled is named on the standard error and has no row, so --resume tries it again; the exit code says so at the end.`,
		Args: atLeast(1, "a run directory, and photos, --list or --data"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			own := from == "" && part != "" // the run's own data set
			if (len(args) == 1 && list == "") == (from == "" && !own) {
				return usageError{errors.New("predict wants photos, --data PATH or --part NAME of the run's own data, one of them")}
			}
			changed := cmd.Flags().Changed
			if asJSON {
				if changed("format") && format != formatJSONL {
					return usageError{errors.New("--json is --format jsonl; leave one of the two out")}
				}
				format = formatJSONL
			}
			switch {
			case page == "" && second != "":
				return usageError{errors.New("--compare wants --html FILE, the page to write")}
			case page != "" && (changed("format") || asJSON || outPath != "" || resume):
				return usageError{errors.New("--html writes a page; leave --format, --json, --out and --resume out")}
			case !slices.Contains([]string{formatText, formatJSONL, formatCSV, formatParquet}, format):
				return usageError{fmt.Errorf("--format %q is none of %s, %s, %s, %s", format, formatText, formatJSONL, formatCSV, formatParquet)}
			case format == formatParquet && outPath == "":
				return usageError{errors.New("--format parquet wants --out FILE")}
			case resume && (outPath == "" || format == formatText || format == formatParquet):
				return usageError{errors.New("--resume wants --out FILE and --format jsonl or csv, whose rows stand for themselves; a Parquet file is whole or none")}
			case jobs < 0:
				return usageError{fmt.Errorf("--jobs is %d, want a number of photos, or 0 for one a core", jobs)}
			case w.top < 0:
				return usageError{fmt.Errorf("--top is %d, want a number of labels, or 0 for all", w.top)}
			case changed("threshold") && !(threshold >= 0 && threshold <= 1):
				return usageError{fmt.Errorf("--threshold is %v, want a probability", threshold)}
			case format == formatCSV && (changed("top") || changed("threshold")):
				return usageError{errors.New("--format csv has the probability of every label; leave --top and --threshold out, or take --format jsonl")}
			}
			if err := pixels.check(); err != nil {
				return err
			}
			if !changed("precision") {
				precision = "" // the model's own
			}
			tagger := model.TaggerOptions{
				Workers: jobs, Device: device, Precision: precision, EXIF: pixels.exif, MaxPixels: pixels.maxPixels,
			}
			photos := filePhotos(picturesIn(namesFrom(args[1:], list, cmd.InOrStdin()), true, true))
			if from != "" {
				var done func() error
				if photos, done, err = dataPhotos(from, part, options); err != nil {
					return err
				}
				defer done()
			}
			if own {
				var done func() error
				if photos, done, err = runPhotos(args[0], part); err != nil {
					return err
				}
				defer done()
			}
			t, err := model.OpenTagger(args[0], tagger)
			if err != nil {
				return err
			}
			defer t.Close()
			if changed("threshold") {
				t.SetThreshold(threshold)
			}
			if page != "" {
				models, names := []*model.Tagger{t}, [2]string{args[0]}
				if second != "" {
					o, err := model.OpenTagger(second, tagger)
					if err != nil {
						return err
					}
					defer o.Close()
					if changed("threshold") {
						o.SetThreshold(threshold)
					}
					models, names[1] = append(models, o), second
				}
				return predictPage(cmd.Context(), models, names, photos, w.top, page, cmd.ErrOrStderr())
			}
			w.format, w.names = format, t.Config.LabelNames
			w.out, w.color = cmd.OutOrStdout(), screen.HasColor(cmd.OutOrStdout())
			if outPath != "" {
				if err := w.open(outPath, resume); err != nil {
					return err
				}
				defer func() { err = errors.Join(err, w.close()) }()
			}
			if jobs == 0 {
				jobs = runtime.NumCPU()
			}
			return predict(cmd.Context(), t, photos, jobs, &w, cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&list, "list", "", "a file with the name of a photo or folder on each line")
	f.StringVar(&from, "data", "", "a data set whose photos are labelled, in any format of spml data formats")
	addDataOptions(f, &options)
	f.StringVar(&part, "part", "", "train, val or test (default: all rows), of --data, else of the data that the run was trained on")
	f.StringVar(&format, "format", formatText, "text, jsonl (an object a photo, the most probable label first), csv (a column for each label) or parquet (the rows of jsonl)")
	f.BoolVar(&asJSON, "json", false, "--format jsonl")
	f.StringVar(&outPath, "out", "", "write to this file")
	f.BoolVar(&resume, "resume", false, "keep the rows that --out has, and add those of the other photos")
	f.StringVar(&page, "html", "", "write a page of photos with bars instead, one file that needs no other")
	f.StringVar(&second, "compare", "", "with --html: another run, whose bars are drawn beside the first one's")
	f.IntVar(&w.top, "top", 10, "labels per photo (0: all)")
	f.Float64Var(&threshold, "threshold", 0.5, "probability above which a label is marked (default: the model's)")
	f.StringVar(&device, "device", config.DeviceAuto,
		"where to compute: auto (a graphics card where there is one), cpu, cuda or cuda:N")
	f.StringVar(&precision, "precision", config.FP32,
		"of the network on a CPU: fp32, or bf16, about twice as fast where the processor multiplies it")
	pixels.add(f, "", " (default: as the model was trained)")
	f.IntVar(&jobs, "jobs", 0, "photos that are labelled at once (0: one a core)")
	return cmd
}

// predict labels photos side by side and writes them in order.
func predict(ctx context.Context, t *model.Tagger, photos iter.Seq2[photo, error], jobs int, w *labelWriter, errs io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type pending struct {
		photo  photo
		labels []model.Label
		err    error
		ready  chan struct{}
	}
	queue := make(chan *pending, 2*jobs) // in order; its length bounds the photos in work
	var listing error                    // of the photos' names, once queue is closed
	go func() {
		defer close(queue)
		for p, err := range photos {
			if err != nil {
				listing = err
				return
			}
			if w.has(p.name) {
				continue
			}
			x := &pending{photo: p, ready: make(chan struct{})}
			select {
			case queue <- x:
			case <-ctx.Done():
				return
			}
			go func() {
				defer close(x.ready)
				x.labels, x.err = p.tag(ctx, t)
			}()
		}
	}()
	var failed []error
	total := 0
	for open := true; open; {
		var x *pending
		select { // also where the names come from a pipe that is silent
		case x, open = <-queue:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !open {
			break
		}
		<-x.ready
		if ctx.Err() != nil {
			return ctx.Err()
		}
		total++
		if x.err != nil { // said now, counted at the end: the other photos still get their labels
			plain.Fprintf(errs, "spml: %v\n", x.err)
			failed = append(failed, x.err)
			continue
		}
		if err := w.write(x.photo.name, x.labels); err != nil {
			return err
		}
	}
	if listing != nil {
		failed = append(failed, listing)
		return errors.Join(failed...)
	}
	if len(w.done) > 0 {
		plain.Fprintf(errs, "%s: %d rows were there, %d photos added\n", w.path, len(w.done), total-len(failed))
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d photos could not be labelled: %w", len(failed), total, errors.Join(failed...))
	}
	return nil
}

// photo is one that predict labels: a file, or a row of a data set.
type photo struct {
	name string
	row  int
	from data.RawSource

	truth   []int8 // full labels of the data set's classes; nil: not known
	classes []string
}

func (p photo) tag(ctx context.Context, t *model.Tagger) ([]model.Label, error) {
	if p.from == nil {
		return t.TagFile(ctx, p.name)
	}
	b, err := p.from.ReadFile(p.row, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	labels, err := t.Tag(ctx, b)
	if err != nil {
		err = fmt.Errorf("%s: %w", p.name, err)
	}
	return labels, err
}

// filePhotos are files.
func filePhotos(files iter.Seq2[string, error]) iter.Seq2[photo, error] {
	return func(yield func(photo, error) bool) {
		for f, err := range files {
			if !yield(photo{name: f}, err) {
				return
			}
		}
	}
}

// dataPhotos are the photos of a part of a data set.
func dataPhotos(
	from, part string,
	options config.DataOptions,
) (photos iter.Seq2[photo, error], done func() error, err error) {
	o, err := options.Files()
	if err != nil {
		return nil, nil, err
	}
	if o.Missing == "" {
		o.Missing = data.MissingKeep
	}
	if o.Seed == 0 {
		o.Seed = referenceSeeds[0]
	}
	d, err := openAny(from, o)
	if err != nil {
		return nil, nil, err
	}
	return photosOf(d, part)
}

// runPhotos are the photos of a part of the data set that a run was trained on.
func runPhotos(run, part string) (iter.Seq2[photo, error], func() error, error) {
	c, err := rundir.Read(run)
	if err == nil {
		c, err = c.Resolve()
	}
	if err != nil {
		return nil, nil, err
	}
	d, err := c.Data.Open()
	if err != nil {
		return nil, nil, err
	}
	return photosOf(d, part)
}

// photosOf are the photos of a part, or of all rows. done closes the data set.
func photosOf(d *data.Dataset, part string) (photos iter.Seq2[photo, error], done func() error, err error) {
	want := data.Split(255)
	if part != "" {
		if want, err = data.ParseSplit(part); err != nil {
			return nil, nil, errors.Join(usageError{err}, d.Close())
		}
	}
	raw, ok := d.Source.(data.RawSource)
	if !ok {
		d.Close()
		return nil, nil, fmt.Errorf("%w: %s has no photos: name their folder (--data-options images=DIR)", train.ErrData, d.Name)
	}
	return func(yield func(photo, error) bool) {
		for i, name := range d.Images {
			if part != "" && d.Split[i] != want {
				continue
			}
			p := photo{name: name, row: i, from: raw, classes: d.Classes}
			if d.Labels != nil && (d.Full == nil || d.Full[i]) {
				p.truth = d.LabelRow(i)
			}
			if !yield(p, nil) {
				return
			}
		}
	}, d.Close, nil
}
