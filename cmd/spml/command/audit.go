package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/audit"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/evaluate"
	"github.com/gospml/gospml/spml/rundir"
)

// auditRecord is audit.json: what the audit rests on, for its import.
type auditRecord struct {
	*audit.Table
	Run     string             `json:"run"`
	Data    string             `json:"data"`
	Options config.DataOptions `json:"data_options,omitzero"`
	Clip    string             `json:"clip,omitempty"`
	K       int                `json:"neighbours"`
	Weights map[string]float64 `json:"weights,omitempty"`
	Parts   []string           `json:"parts,omitempty"`
	Listed  int                `json:"listed"` // candidates in the table
	Command string             `json:"command"`
}

type auditFlags struct {
	load                                 loadFlags
	run, clip, out, of, progress, prefix string
	dtype, size, photosIn                string
	from                                 string
	options                              config.DataOptions
	parts, templates                     []string
	weights                              map[string]string
	top, photos, k                       int
	asJSON                               bool
	pixels                               photoFlags
}

func newAudit() *cobra.Command {
	var o auditFlags
	cmd := &cobra.Command{
		Use:   "audit --run RUN [--data PATH] [--clip MODEL|builtin] --out DIR",
		Short: "Find labels that are probably missing",
		Long: `Ranks the pairs of a photo and a class whose label is not known by three sources together: the run's model, a CLIP (--clip), and the nearest photos in the model's
features. Where the data has full labels, the precision of the audit is measured and printed.

  spml audit --run runs/em --out missing                          the run's own data
  spml audit --run runs/em --clip ViT-B-16.pt --out missing       with CLIP as the third witness
  spml audit --run runs/em --data more-photos --out missing       other data with the run's classes
  spml audit import missing decisions.csv --labels photos/observed.csv

DIR holds audit.html, a page to look through, whose decisions are saved as decisions.csv; audit.csv and audit.jsonl, the table, with an empty column for
decisions; label-studio.json and label-studio.xml, tasks with pre-annotations and their labelling configuration; fiftyone/samples.json, a FiftyOneDataset; audit.json,
what it rests on. spml audit import takes back the page's or the table's CSV, Label Studio's JSON or JSON_MIN, and the samples.json that FiftyOne exports.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q for %q; there is import", args[0], cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.audit(cmd) },
	}
	o.load.add(cmd)
	o.load.addDevice(cmd)
	f := cmd.Flags()
	f.StringVar(&o.run, "run", "", "run directory of the model")
	f.StringVar(&o.from, "data", "", "another data set, in any format of spml data formats, with the run's classes")
	addDataOptions(f, &o.options)
	f.StringSliceVar(&o.parts, "part", nil, "train, val, test; several with commas (default: all rows)")
	f.StringVar(&o.of, "labels", "", "which labels: observed (what training may see) or full (what is 0 there) (default: observed where there are some)")
	f.StringVar(&o.clip, "clip", "", "folder or file of a CLIP, or builtin: the small one that knows drawn shapes only")
	f.StringArrayVar(&o.templates, "template", nil, "prompt with {} for the class; several are averaged (default: \"a photo of a {}.\")")
	f.StringVar(&o.dtype, "dtype", "float32", "CLIP's arithmetic: float32, bfloat16, float16")
	f.StringVar(&o.size, "image-size", "", "CLIP's: N or HxW instead of the model's")
	f.StringToStringVar(&o.weights, "weights", nil, "weight of each source, for instance model=2,clip=1,neighbours=0.5 (default: 1)")
	f.IntVar(&o.k, "neighbours", 30, "photos that vote")
	f.StringVar(&o.out, "out", "", "folder to write; it must not exist")
	f.IntVar(&o.top, "top", 2000, "candidates in the table (0: all)")
	f.IntVar(&o.photos, "photos", 200, "candidates in the page")
	f.StringVar(&o.prefix, "label-studio-prefix", "/data/local-files/?d=", "what stands before a photo's name in the tasks of Label Studio")
	f.StringVar(&o.photosIn, "photos-in", "", "folder of the photos as FiftyOne sees it (default: the data set's)")
	f.StringVar(&o.progress, "progress", progressAuto, "auto, bar, plain, json or off")
	o.pixels.add(f, "", " (default: as the run was trained)")
	f.BoolVar(&o.asJSON, "json", false, "print audit.json")
	cmd.AddCommand(newAuditImport())
	return cmd
}

// collect turns the flags into the choices of the audit.
func (o *auditFlags) collect(cmd *cobra.Command) (c audit.CollectOptions, weights map[audit.Source]float64, err error) {
	switch {
	case o.run == "":
		return c, nil, usageError{fmt.Errorf("%s wants --run RUN", cmd.CommandPath())}
	case o.out == "":
		return c, nil, usageError{fmt.Errorf("%s wants --out DIR", cmd.CommandPath())}
	case o.of != "" && o.of != audit.Observed && o.of != audit.Full:
		return c, nil, usageError{fmt.Errorf("--labels %q is none of %s, %s", o.of, audit.Observed, audit.Full)}
	case o.top < 0 || o.photos < 0 || o.k < 1:
		return c, nil, usageError{errors.New("--top and --photos want 0 or more, --neighbours at least 1")}
	}
	if _, err := os.Stat(o.out); err == nil {
		return c, nil, usageError{fmt.Errorf("%s is there already; choose another --out", o.out)}
	}
	for _, p := range o.parts {
		part, err := data.ParseSplit(p)
		if err != nil {
			return c, nil, usageError{err}
		}
		c.Parts = append(c.Parts, part)
	}
	if len(o.weights) > 0 {
		weights = map[audit.Source]float64{}
	}
	for name, text := range o.weights {
		w, err := strconv.ParseFloat(text, 64)
		if err != nil || !(w >= 0 && w < 1e9) || !slices.Contains(audit.Sources, audit.Source(name)) {
			return c, nil, usageError{fmt.Errorf("--weights %s=%s: want model, clip or neighbours and a number that is not negative", name, text)}
		}
		weights[audit.Source(name)] = w
	}
	c.Data, c.DataOptions, c.K, c.Of, c.Templates = o.from, o.options, o.k, o.of, o.templates
	return c, weights, nil
}

func (o *auditFlags) audit(cmd *cobra.Command) (err error) {
	c, weights, err := o.collect(cmd)
	if err != nil {
		return err
	}
	r, err := newReporter(cmd.ErrOrStderr(), o.progress)
	if err != nil {
		return err
	}
	settings, err := rundir.Read(o.run)
	if err != nil {
		return err
	}
	if err := o.pixels.check(); err != nil {
		return err
	}
	if c.EXIF = o.pixels.exif; c.EXIF == "" {
		c.EXIF = settings.Data.EXIF
	}
	o.pixels.exif = c.EXIF
	if o.load.pixels, err = o.pixels.options(); err != nil {
		return err
	}
	if o.clip != "" {
		path := o.clip
		if path == config.BuiltinClip {
			path = ""
		}
		if c.Clip, err = openClip(cmd, path, o.load, o.dtype, o.size, 0, nil); err != nil {
			return err
		}
		defer c.Clip.Close()
	}
	c.Note, c.Events = r.note, r.events()
	e, err := audit.Collect(cmd.Context(), o.run, c)
	r.clear()
	if err != nil {
		return err
	}
	defer e.Data.Close()
	t, err := audit.Rank(cmd.Context(), e, audit.Options{Of: o.of, Weights: weights, Top: o.top})
	if err != nil {
		return err
	}
	rec := auditRecord{
		Table:   t,
		Run:     o.run,
		Data:    settings.Data.Path,
		Options: settings.Data.Options,
		Clip:    o.clip,
		K:       o.k,
		Parts:   o.parts,
		Listed:  len(t.Candidates),
		Command: commandLine(),
	}
	if o.from != "" {
		rec.Data, rec.Options = o.from, o.options
	}
	for s, w := range weights {
		if rec.Weights == nil {
			rec.Weights = map[string]float64{}
		}
		rec.Weights[string(s)] = w
	}
	if err := o.write(e.Data, t, &rec); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if o.asJSON {
		return indented(out, rec)
	}
	var names []string
	for _, s := range t.Sources {
		names = append(names, string(s))
	}
	plain.Fprintf(out, "%s: %d pairs without a label, %d candidates by %s; look through %s\n", t.Name, t.Pairs, len(t.Candidates), strings.Join(names, ", "), filepath.Join(o.out, "audit.html"))
	if len(t.Precision) > 0 {
		plain.Fprintf(out, "\nFull labels are known: %d of the pairs are missing labels.\n", t.Precision[0].Missing)
		if err := audit.WritePrecision(out, t.Precision); err != nil {
			return err
		}
	}
	_, err = plain.Fprintf(out, "\nnext: spml audit import %s decisions.csv --labels OUT.csv\n", o.out)
	return err
}

// write fills the folder; audit.json comes last.
func (o *auditFlags) write(ds *data.Dataset, t *audit.Table, rec *auditRecord) error {
	if err := os.MkdirAll(filepath.Join(o.out, "fiftyone"), 0o775); err != nil {
		return err
	}
	folder := o.photosIn
	if folder == "" {
		folder = ds.Info.Images
	}
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{"audit.csv", t.WriteCSV}, {"audit.jsonl", t.WriteJSONL},
		{"audit.html", func(w io.Writer) error {
			return t.WritePage(w, ds, audit.PageOptions{Photos: o.photos, Repeat: rec.Command, Pixels: o.load.pixels})
		}},
		{"label-studio.json", func(w io.Writer) error { return t.WriteLabelStudio(w, ds, o.prefix) }},
		{"label-studio.xml", func(w io.Writer) error { return audit.WriteLabelStudioConfig(w, ds.Classes) }},
		{"fiftyone/samples.json", func(w io.Writer) error { return t.WriteFiftyOne(w, ds, folder) }},
		{"precision.csv", t.WritePrecisionCSV},
		{"audit.json", func(w io.Writer) error { return indented(w, rec) }},
	} {
		if f.name == "precision.csv" && len(t.Precision) == 0 {
			continue
		}
		if err := atomicfile.WriteFile(filepath.Join(o.out, f.name), 0o644, f.write); err != nil {
			return err
		}
	}
	return nil
}

// commandLine is this process's command, to be written down.
func commandLine() string {
	words := []string{"spml"}
	for _, a := range os.Args[1:] {
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$&|;<>()*?[]{}~`!#") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

func newAuditImport() *cobra.Command {
	var (
		labels string
		asJSON bool
		w      writeFlags
	)
	cmd := &cobra.Command{
		Use:   "import DIR DECISIONS… --labels OUT",
		Short: "Make new labels from what reviewers decided",
		Long: `Reads decisions on an audit in DIR and writes the labels that follow: an accepted label becomes positive, a refused one a known negative. DECISIONS are the CSV file that
the page saved, audit.csv with its column filled in, Label Studio's JSON or JSON_MIN, or samples.json of a FiftyOne export; several are taken together. Decisions that
differ on one label, and photos or classes that the data lacks, are errors.

OUT is a .csv file (as observed.csv of a folder of CSV files), a .npy matrix in the order of the data set, or a new folder for the whole data set in the format --to.

  spml audit import missing decisions.csv --labels photos/observed.csv
  spml audit import missing project-1.json --labels relabelled --to jsonl`,
		Args: atLeast(2, "the folder of an audit and files of decisions"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if labels == "" {
				return usageError{errors.New("--labels OUT is missing: a .csv or .npy file, or a new folder")}
			}
			ds, rec, err := openAudited(args[0])
			if err != nil {
				return err
			}
			defer ds.Close()
			var all []*audit.Decisions
			for _, file := range args[1:] {
				d, err := audit.ReadDecisions(file)
				if err != nil {
					return err
				}
				all = append(all, d)
			}
			next, a, err := audit.Apply(ds, rec.Of, all...)
			if err != nil {
				return err
			}
			matrix := next.Observed
			if rec.Of == audit.Full {
				matrix = next.Labels
			}
			switch filepath.Ext(labels) {
			case ".csv":
				err = writeMatrixCSV(labels, next, matrix)
			case ".npy":
				var m *npy.Array
				if m, err = npy.New([]int64{int64(next.N()), int64(next.C())}, matrix); err == nil {
					err = npy.Write(labels, m)
				}
			default:
				if len(a.Against) > 0 && rec.Of == audit.Observed {
					return fmt.Errorf("%w: %d decisions contradict the full labels of %s (%s …); write the observed labels alone (--labels OUT.csv)", audit.ErrDecisions, len(a.Against), ds.Name, a.Against[0])
				}
				err = w.write(cmd, next, labels)
			}
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if asJSON {
				return indented(out, a)
			}
			plain.Fprintf(out, "%s: %d accepted, %d refused, %d positives taken away, %d as they were, %d undecided\n", labels, a.Accepted, a.Refused, a.Removed, a.Same, a.Undecided)
			if n := len(a.Against); n > 0 {
				plain.Fprintf(out, "%d of the decisions are against the full labels of %s, first: %s\n", n, ds.Name, strings.Join(a.Against[:min(3, n)], "; "))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&labels, "labels", "", "what to write: .csv, .npy or a new folder")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the counts as JSON")
	w.add(cmd, "jsonl")
	return cmd
}

// openAudited opens the data of an audit as it was then.
func openAudited(dir string) (*data.Dataset, *auditRecord, error) {
	file := filepath.Join(dir, "audit.json")
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%s is no folder that spml audit wrote: %w", dir, err)
	}
	rec := &auditRecord{}
	if err := json.Unmarshal(b, rec); err != nil || rec.Table == nil {
		return nil, nil, fmt.Errorf("%w: %s is damaged: %v", audit.ErrDecisions, file, err)
	}
	c, err := rundir.Read(rec.Run)
	if err != nil {
		return nil, nil, err
	}
	c.Data.Path, c.Data.Options = rec.Data, rec.Options
	ds, err := evaluate.OpenData(rec.Run, c)
	if err != nil {
		return nil, nil, err
	}
	if got := ds.Fingerprint(); got != rec.Fingerprint {
		ds.Close()
		return nil, nil, fmt.Errorf("%w: %s is not what was audited: photos, classes or full labels have changed; run spml audit again", audit.ErrDecisions, rec.Data)
	}
	return ds, rec, nil
}
