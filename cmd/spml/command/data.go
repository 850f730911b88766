package command

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/stat"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/config"
)

const dataOptionHelp = "choices of the data set, NAME=VALUE joined by commas: format, set, images, classes, labels, difficult, empty, missing, unknown (see spml data show --help)"

// addDataOptions adds the flag of a data set's choices.
func addDataOptions(f *pflag.FlagSet, o *config.DataOptions) {
	f.Var(dataOptionsFlag{o}, "data-options", dataOptionHelp)
}

type dataOptionsFlag struct{ *config.DataOptions }

func (f dataOptionsFlag) Set(s string) error { return f.UnmarshalText([]byte(s)) }
func (dataOptionsFlag) Type() string         { return "string" }

func newData() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "Look at data sets, convert, check and part them",
		Long: `Works on data sets in every format that train, eval and predict read; the format is found by content.

  spml data show photos                                        what was understood, counts, samples
  spml data stat photos --svg stat.svg                         the papers' tables, and a picture
  spml data check photos --jobs 8 > bad.jsonl                  each file that cannot be read, with its reason
  spml data convert VOCdevkit/VOC2012 out --to jsonl           another format
  spml data single-positive photos observed_1.csv --seed 1     labels that training may see
  spml data split photos split.csv --val 0.2 --test 0.2        parts
  spml data pixels photo.jpg --resize squash:448 --crc         what the network would see
  spml data formats                                            what can be read`,
	}
	cmd.AddCommand(newDataFormats(), newDataShow(), newDataStat(), newDataCheck(), newDataConvert(), newDataSinglePositive(), newDataSplit(), newDataIndex(), newDataPixels())
	return cmd
}

// dataFlags adds a flag for each option of data.Open.
func dataFlags(f *pflag.FlagSet) func() (data.Options, error) {
	values := map[string]*string{}
	for _, o := range data.OptionNames {
		if o.Name == "no-validation" {
			continue
		}
		values[o.Name] = f.String(o.Name, "", o.Takes)
	}
	seed := f.Uint32("seed", 1200, "seed of the observed labels, where none are given")
	noVal := f.Bool("no-validation", false, "draw no validation rows")
	return func() (data.Options, error) {
		o := data.Options{Seed: *seed, NoValidation: *noVal}
		for _, n := range data.OptionNames {
			if v := values[n.Name]; v != nil && *v != "" {
				if err := o.Assign(n.Name, *v); err != nil {
					return o, usageError{err}
				}
			}
		}
		return o, nil
	}
}

// openData opens a data set to look at: photos may be missing.
func openData(path string, flags func() (data.Options, error)) (*data.Dataset, error) {
	o, err := flags()
	if err != nil {
		return nil, err
	}
	if o.Missing == "" {
		o.Missing = data.MissingKeep
	}
	return openAny(path, o)
}

// openAny opens a data set, or the drawn pictures by their name, unless a folder is called so.
func openAny(path string, o data.Options) (*data.Dataset, error) {
	if path == config.Shapes {
		if _, err := os.Stat(path); err != nil {
			c, err := config.Config{Data: config.Data{Path: path, Seed: &o.Seed}, Method: config.Method{ID: "an"}}.Resolve()
			if err != nil {
				return nil, err
			}
			return c.Data.Open()
		}
	}
	return data.Open(path, o)
}

func newDataFormats() *cobra.Command {
	return &cobra.Command{
		Use:   "formats",
		Short: "The formats of data sets that are read, and those that are written",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "format\twritten\tholds")
			for _, f := range data.Formats() {
				written := ""
				if f.Writes() {
					written = "yes"
				}
				plain.Fprintf(w, "%s\t%s\t%s: %s\n", f.Name, written, f.Title, f.Holds)
			}
			return w.Flush()
		},
	}
}

// shown is the JSON of `data show`.
type shown struct {
	Name        string     `json:"name"`
	Format      string     `json:"format"`
	Also        []string   `json:"also_possible,omitempty"`
	Rows        stat.Parts `json:"rows_train_val_test"`
	Classes     []string   `json:"classes"`
	ClassesFrom string     `json:"classes_from"`
	Labels      string     `json:"labels"`
	Split       string     `json:"split"`
	Observed    string     `json:"observed"`
	Images      string     `json:"images"`
	Features    int        `json:"features,omitempty"`
	Notes       []string   `json:"notes"`
	Positives   int        `json:"positives"`
	Hidden      int        `json:"hidden_positives"`
	Fingerprint string     `json:"data_sha256"`
	Samples     []sample   `json:"samples"`
}

type sample struct {
	Row       int      `json:"row"`
	Image     string   `json:"image"`
	Part      string   `json:"part"`
	Labels    []string `json:"labels"`
	Full      bool     `json:"labels_complete"`
	Observed  []string `json:"observed"`
	Negatives []string `json:"observed_negatives,omitempty"`
}

func sampleOf(d *data.Dataset, i int) sample {
	s := sample{Row: i, Image: d.Images[i], Part: d.Split[i].String(), Full: d.FullyLabelled([]int{i}), Labels: []string{}, Observed: []string{}}
	for c, name := range d.Classes {
		if s.Full && d.LabelRow(i)[c] == 1 {
			s.Labels = append(s.Labels, name)
		}
		if o := d.ObservedRow(i); o != nil && o[c] == 1 {
			s.Observed = append(s.Observed, name)
		} else if o != nil && o[c] == -1 {
			s.Negatives = append(s.Negatives, name)
		}
	}
	return s
}

func newDataShow() *cobra.Command {
	var asJSON bool
	var samples int
	cmd := &cobra.Command{
		Use:   "show PATH",
		Short: "What was understood of a data set: format, counts, samples",
		Long: `Opens a data set as train would and says what was understood: its format, where classes, labels, parts and photos come from, what was decided, counts and five samples.
Nothing is written. Photos may be missing.

  spml data show VOCdevkit/VOC2012
  spml data show annotations/instances_val2017.json --images val2017 --json`,
		Args: exactly(1, "one data set"),
	}
	f := cmd.Flags()
	flags := dataFlags(f)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.IntVar(&samples, "samples", 5, "rows to print")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := openData(args[0], flags)
		if err != nil {
			return err
		}
		defer d.Close()
		l := stat.Count(d)
		s := shown{Name: d.Name, Format: d.Info.Format, Rows: l.Rows, Classes: d.Classes, ClassesFrom: d.Info.Classes, Labels: d.Info.Labels, Split: d.Info.Split, Observed: d.Info.Observed,
			Images: d.Info.Images, Notes: append([]string{}, d.Info.Notes...), Fingerprint: d.Fingerprint(), Samples: []sample{}}
		if d.Features != nil {
			s.Features = d.Features.Dim
		}
		for _, c := range l.Classes {
			s.Positives += c.Positives.Sum()
			s.Hidden += c.Hidden.Sum()
		}
		if found, err := data.Detect(args[0]); err == nil {
			for _, o := range found {
				if o.Name != s.Format {
					s.Also = append(s.Also, o.Name)
				}
			}
		}
		for i := range min(samples, d.N()) {
			s.Samples = append(s.Samples, sampleOf(d, i*(d.N()-1)/max(1, min(samples, d.N())-1)))
		}
		if asJSON {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(s)
		}
		return printShown(cmd.OutOrStdout(), d, s)
	}
	return cmd
}

func printShown(out io.Writer, d *data.Dataset, s shown) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(what, text string) {
		if text != "" {
			plain.Fprintf(w, "%s\t%s\n", what, text)
		}
	}
	line("data set", s.Name)
	line("format", s.Format)
	if len(s.Also) > 0 {
		line("", "also possible: "+strings.Join(s.Also, ", ")+" (--format)")
	}
	line("rows", fmt.Sprintf("%d: %d train, %d val, %d test", d.N(), s.Rows[0], s.Rows[1], s.Rows[2]))
	line("classes", fmt.Sprintf("%d: %s", d.C(), strings.Join(s.Classes[:min(8, len(s.Classes))], ", ")+map[bool]string{true: ", …"}[len(s.Classes) > 8]))
	line("", s.ClassesFrom)
	line("labels", s.Labels)
	line("", fmt.Sprintf("%d positives, %d of them hidden from training", s.Positives, s.Hidden))
	line("observed", s.Observed)
	line("parts", s.Split)
	line("photos", s.Images)
	if s.Features > 0 {
		line("features", fmt.Sprintf("%d a row", s.Features))
	}
	for _, n := range s.Notes {
		line("note", n)
	}
	for _, x := range s.Samples {
		labels := "full labels unknown"
		if x.Full {
			labels = strings.Join(x.Labels, ", ")
		}
		line(fmt.Sprintf("row %d", x.Row), fmt.Sprintf("%s (%s): %s; observed: %s%s", x.Image, x.Part, labels, strings.Join(x.Observed, ", "),
			map[bool]string{true: fmt.Sprintf(", %d absent", len(x.Negatives))}[len(x.Negatives) > 0]))
	}
	return w.Flush()
}

func newDataStat() *cobra.Command {
	var asJSON, noPhotos, decode bool
	var svg string
	var jobs int
	cmd := &cobra.Command{
		Use:   "stat PATH",
		Short: "Count labels by class and part, co-occurrence, sizes, duplicates",
		Long: `Prints the tables of the papers: images, positives and hidden positives of each class and part, labels an image, which classes occur together; of the photos sizes, duplicates and those that
cannot be read.

  spml data stat photos
  spml data stat photos --svg stat.svg --json > stat.json`,
		Args: exactly(1, "one data set"),
	}
	f := cmd.Flags()
	flags := dataFlags(f)
	f.BoolVar(&asJSON, "json", false, "print JSON, with the whole matrix of co-occurrence")
	f.BoolVar(&noPhotos, "no-photos", false, "count labels only")
	f.BoolVar(&decode, "decode", false, "decode the photos too, not their headers alone")
	f.StringVar(&svg, "svg", "", "file for a picture of the counts")
	f.IntVar(&jobs, "jobs", 0, "photos at a time (0: all cores)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := openData(args[0], flags)
		if err != nil {
			return err
		}
		defer d.Close()
		l := stat.Of(d)
		var files *stat.Files
		if d.Source != nil && !noPhotos {
			if files, err = stat.Photos(cmd.Context(), d, jobs, !decode); err != nil {
				return err
			}
		}
		if svg != "" {
			out, err := os.OpenFile(svg, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o664)
			if err != nil {
				return err
			}
			if err := stat.SVG(out, l); err != nil {
				out.Close()
				return err
			}
			if err := out.Close(); err != nil {
				return err
			}
		}
		if asJSON {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(struct {
				*stat.Labels
				Photos *stat.Files `json:"photos,omitempty"`
			}{l, files})
		}
		return printStat(cmd.OutOrStdout(), l, files)
	}
	return cmd
}

func printStat(out io.Writer, l *stat.Labels, files *stat.Files) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "class\tpositives train\tval\ttest\tobserved train\thidden train\t")
	for _, c := range l.Classes {
		plain.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t\n", c.Name, c.Positives[0], c.Positives[1], c.Positives[2], c.Observed[0], c.Hidden[0])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	plain.Fprintf(out, "\nimages: %d train, %d val, %d test; with full labels %d, %d, %d; without a positive %d, %d, %d\n", l.Rows[0], l.Rows[1], l.Rows[2], l.Full[0], l.Full[1], l.Full[2], l.Empty[0], l.Empty[1], l.Empty[2])
	plain.Fprintf(out, "labels an image: %.3f (train %.3f, val %.3f, test %.3f), density %.4f, %d distinct sets; observed positives an image: %.3f\n", l.Cardinality, l.ByPart[0], l.ByPart[1], l.ByPart[2], l.Density, l.Distinct, l.ObservedMean)
	plain.Fprintf(out, "most frequent class / rarest: %.1f\n", l.Imbalance)
	for k, n := range l.Histogram {
		if n > 0 && k < 12 {
			plain.Fprintf(out, "  %d labels: %d images\n", k, n)
		}
	}
	if len(l.Unseen) > 0 {
		plain.Fprintf(out, "classes that training never sees as positive: %s\n", strings.Join(l.Unseen, ", "))
	}
	type pair struct{ a, b, n int }
	var top []pair
	for a := range l.CoOccurrence {
		for b := range a {
			if n := l.CoOccurrence[a][b]; n > 0 {
				top = append(top, pair{b, a, n})
				for i := len(top) - 1; i > 0 && top[i].n > top[i-1].n; i-- {
					top[i], top[i-1] = top[i-1], top[i]
				}
				top = top[:min(len(top), 5)]
			}
		}
	}
	for _, p := range top {
		plain.Fprintf(out, "together: %s and %s in %d images\n", l.Classes[l.Together[p.a]].Name, l.Classes[l.Together[p.b]].Name, p.n)
	}
	if files == nil {
		return nil
	}
	plain.Fprintf(out, "photos: %.1f MB; width %v, height %v (least, quarters, most); formats %v\n", float64(files.Bytes)/1e6, files.Width, files.Height, files.Formats)
	plain.Fprintf(out, "unreadable: %d; groups of equal photos: %d\n", len(files.Unreadable), len(files.Duplicates))
	for i, u := range files.Unreadable {
		if i == 5 {
			fmt.Fprintln(out, "  … all of them: spml data check")
			break
		}
		plain.Fprintf(out, "  %s: %s\n", u.Image, u.Reason)
	}
	for i, u := range files.Duplicates {
		if i == 5 {
			fmt.Fprintln(out, "  … all of them: --json")
			break
		}
		plain.Fprintf(out, "  %s%s%s\n", strings.Join(u.Images, " = "), map[bool]string{true: " (labels differ)"}[u.Labels], map[bool]string{true: " (in train and elsewhere)"}[u.Parts])
	}
	return nil
}
