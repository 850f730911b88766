package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/train"
)

func newPredict() *cobra.Command {
	var (
		asJSON    bool
		top       int
		threshold float64
		from      string
		part      string
		options   string
	)
	cmd := &cobra.Command{
		Use:   "predict RUN PHOTO… | predict RUN --data PATH",
		Short: "Label photos",
		Long: `Prints the labels of photos with their probabilities. Labels above the model's threshold are marked.

  spml predict runs/em photo.jpg other.png
  spml predict runs/em photos/*.jpg --json > labels.jsonl
  spml predict runs/em --data VOCdevkit/VOC2012 --part test --json      the photos of a data set, in any format of spml data formats`,
		Args: atLeast(1, "a run directory, and photos or --data"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (from == "") {
				return usageError{errors.New("predict wants photos or --data PATH, one of the two")}
			}
			photos, done, err := photosOf(args[1:], from, part, options)
			if err != nil {
				return err
			}
			defer done()
			t, err := train.Load(args[0], train.TaggerOptions{})
			if err != nil {
				return err
			}
			defer t.Close()
			if cmd.Flags().Changed("threshold") {
				t.Config.Threshold = threshold
			}
			out := cmd.OutOrStdout()
			enc := json.NewEncoder(out)
			color := isTerminal(out)
			var failed []error
			for _, p := range photos {
				path := p.name
				labels, err := p.tag(cmd.Context(), t)
				if cmd.Context().Err() != nil {
					return cmd.Context().Err()
				}
				if err != nil { // said now, counted at the end: the other photos still get their labels
					fmt.Fprintf(cmd.ErrOrStderr(), "spml: %v\n", err)
					failed = append(failed, err)
					continue
				}
				if top > 0 && top < len(labels) {
					labels = labels[:top]
				}
				if asJSON {
					err = enc.Encode(struct {
						Image  string        `json:"image"`
						Labels []train.Label `json:"labels"`
					}{path, labels})
				} else {
					err = printBars(out, path, labels, color)
				}
				if err != nil {
					return err
				}
			}
			if len(failed) > 0 {
				return fmt.Errorf("%d of %d photos could not be labelled: %w", len(failed), len(photos), errors.Join(failed...))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "data", "", "a data set whose photos are labelled, in any format of `spml data formats`")
	f.StringVar(&options, "data-options", "", dataOptionHelp)
	f.StringVar(&part, "part", "", "with --data: train, val or test (default: all rows)")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a photo")
	f.IntVar(&top, "top", 10, "labels per photo (0: all)")
	f.Float64Var(&threshold, "threshold", 0.5, "probability above which a label is marked (default: the model's)")
	return cmd
}

// photo is one that predict labels: a file, or a row of a data set.
type photo struct {
	name string
	row  int
	from data.RawSource
}

func (p photo) tag(ctx context.Context, t *train.Tagger) ([]train.Label, error) {
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

// photosOf lists files, or the photos of a part of a data set.
func photosOf(files []string, from, part, options string) (photos []photo, done func() error, err error) {
	for _, f := range files {
		photos = append(photos, photo{name: f})
	}
	if from == "" {
		return photos, func() error { return nil }, nil
	}
	o, err := train.ParseDataOptions(options)
	if err != nil {
		return nil, nil, usageError{err}
	}
	if o.Missing == "" {
		o.Missing = data.MissingKeep
	}
	d, err := data.Open(from, o)
	if err != nil {
		return nil, nil, err
	}
	raw, ok := d.Source.(data.RawSource)
	if !ok {
		d.Close()
		return nil, nil, fmt.Errorf("%w: %s has no photos: name their folder (--data-options images=DIR)", train.ErrData, d.Name)
	}
	want := data.Split(255)
	if part != "" {
		if want, err = data.ParseSplit(part); err != nil {
			d.Close()
			return nil, nil, usageError{err}
		}
	}
	for i, name := range d.Images {
		if part == "" || d.Split[i] == want {
			photos = append(photos, photo{name, i, raw})
		}
	}
	return photos, d.Close, nil
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == ""
}

// printBars draws one line a label: probability, bar, mark, name.
func printBars(w interface{ Write([]byte) (int, error) }, path string, labels []train.Label, color bool) error {
	const width = 30
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", path)
	for _, l := range labels {
		n := int(l.Probability*width + 0.5)
		bar := strings.Repeat("█", n) + strings.Repeat("·", width-n)
		mark := " "
		if l.Present {
			mark = "✓"
			if color {
				bar = "\x1b[32m" + bar + "\x1b[0m"
			}
		}
		fmt.Fprintf(&b, "  %5.1f %%  %s  %s %s\n", 100*l.Probability, bar, mark, l.Name)
	}
	_, err := w.Write([]byte(b.String()))
	return err
}
