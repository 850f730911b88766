package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/vlm"
	"github.com/gospml/gospml/torch/dist"
)

type pseudoFlags struct {
	load                                  loadFlags
	method, dataSet, form                 string
	model, dtype, size, path, out         string
	features, names, preprocess, progress string
	evidence, html                        string
	templates                             []string
	tau, theta, delta, nu, overlap        float64
	topK, grid, batch, photos             int
	noNoise, asJSON, noCache, quality     bool
	shard                                 string
	pixels                                photoFlags
	options                               func() (data.Options, error)
}

func newPseudoLabel() *cobra.Command {
	var o pseudoFlags
	cmd := &cobra.Command{
		Use:   "pseudo-label --method vlpl|damp --clip MODEL|builtin --data DIR --out labels.npy|labels.jsonl",
		Short: "Labels for all photos of a data set from a CLIP",
		Long: `Writes pseudo-labels of a data set made by a CLIP: VLPL (a threshold on the similarity of the photo) or DAMP of AEVLP (the photo and g×g tiles, a
threshold from the observed label). labels.npy is int8 [N, C] in the order of the data set, 1, 0 and -1, for spml train --pseudo-labels;
labels.jsonl has a line for each photo with scores and, for DAMP, the best tile. An interrupted run goes on where it was when it is started again.

  spml pseudo-label --method vlpl --clip ViT-L-14-336px.pt --data-set voc --data VOC2012 --out labels.npy
  spml train --method vlpl --data VOC2012 --data-seed 1200 --pseudo-labels labels.npy --weights resnet50.safetensors
  spml pseudo-label --method damp --clip ViT-B-16.pt --data-set coco --data coco --out labels.npy \
      --evidence labels.jsonl --html sheet.html
  spml pseudo-label --method vlpl --clip ViT-L-14-336px.pt --data VOC2012 --text-features VOC20text_feature.npy --out labels.npy
  torchrun --no-python --nproc-per-node 4 -- \
      spml pseudo-label --method damp --clip ViT-B-16.pt --data-set coco --data coco --out labels.npy

--data-set has the papers' numbers for a data set, --form whose description is followed: default (paper's numbers,
CLIP's statistics), paper, code (the
released programs: their numbers, prompts and preprocessing), count. --seed draws the tiles, and the observed labels where the data has none: give
the same to spml train as --data-seed.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.load.add(cmd)
	o.load.addDevice(cmd)
	f := cmd.Flags()
	f.StringVar(&o.method, "method", "", "vlpl or damp")
	f.StringVar(&o.model, "clip", "", "folder or file of a CLIP, or builtin: the small one that knows drawn shapes only")
	f.StringVar(&o.path, "data", "", "data set, in any of the formats of spml data formats")
	f.StringVar(&o.out, "out", "", "file to write: .npy for labels, .jsonl for a line with scores for each photo")
	f.StringVar(&o.evidence, "evidence", "", ".jsonl file beside a .npy")
	f.StringVar(&o.html, "html", "", "also write a contact sheet, one .html file")
	f.IntVar(&o.photos, "html-photos", 60, "photos of the contact sheet")
	f.SetNormalizeFunc(renamedFlag("preset", "data-set"))
	f.StringVar(
		&o.dataSet,
		"data-set",
		"",
		"numbers of a data set: "+strings.Join(
			vlm.DataSets(),
			", ",
		)+" (default: the command-line defaults of the papers' code)",
	)
	f.StringVar(&o.form, "form", "default", "default, paper, code, count (damp)")
	f.Float64Var(&o.tau, "tau", 0, "temperature instead of the published one")
	f.Float64Var(&o.theta, "theta", 0, "least score of a positive instead of the published one (damp: ζ)")
	f.Float64Var(&o.delta, "delta", 0, "share of the classes that become negative, instead of the published one")
	f.Float64Var(&o.nu, "nu", 0, "damp: upper bound of the local threshold, instead of the published one")
	f.IntVar(&o.topK, "top-k", 0, "damp: positives come from the k best classes, instead of the published one")
	f.IntVar(&o.grid, "grid", 0, "damp: N for N×N tiles, instead of the published one")
	f.Float64Var(
		&o.overlap,
		"overlap",
		0,
		"damp: most by which tiles grow, as a share of their sides, instead of the published one",
	)
	f.BoolVar(&o.noNoise, "no-noise", false, "damp: text features without the noise of the label graph")
	f.StringArrayVar(&o.templates, "template", nil, "prompt with {name} for the class (default: \"a photo of a {name}.\"); several are averaged")
	f.StringVar(&o.names, "class-names", "", "file with a text for each class, a line each, in place of the data "+
		"set's names; cub: CUB's 312 attributes in words, which the official names take by themselves")
	f.StringVar(&o.features, "text-features", "", ".npy [classes, width] of text embeddings in place of prompts")
	f.StringVar(&o.preprocess, "preprocess", "", "instead of the form's: "+strings.Join(clip.Variants(), ", "))
	f.StringVar(&o.dtype, "dtype", "float32", "arithmetic: float32, bfloat16, float16")
	f.StringVar(&o.size, "image-size", "", "N or HxW instead of the model's; position embeddings are resized")
	f.IntVar(&o.batch, "batch-size", 0, "photos at a time (default: 32, damp 8)")
	f.StringVar(&o.shard, "shard", "", "I/N: only the I-th of N parts; the process that ends last writes the files. Under torchrun and other launchers each process takes its part by itself")
	f.BoolVar(&o.noCache, "no-text-cache", false, "encode the prompts anew instead of keeping their features in the cache folder")
	f.BoolVar(&o.quality, "quality", false, "print only how good the positive labels are against the full labels, which the data must have")
	o.pixels.add(f, "", " (default: ignore with --data-set, else apply)")
	f.BoolVar(&o.asJSON, "json", false, "print the summary as JSON")
	f.StringVar(&o.progress, "progress", progressAuto, "auto, bar, plain, json, off")
	o.options = dataFlags(f)
	return cmd
}

// settings are the published ones with the flags over them.
func (o *pseudoFlags) settings(cmd *cobra.Command) (vlm.Settings, error) {
	form := o.form
	if form == "default" {
		form = vlm.Default
	}
	s, err := vlm.Published(vlm.Method(o.method), o.dataSet, form)
	if err != nil {
		return s, usageError{err}
	}
	set := cmd.Flags().Changed
	if s.Method != vlm.DAMP {
		for _, name := range []string{"nu", "top-k", "grid", "overlap", "no-noise"} {
			if set(name) {
				return s, usageError{fmt.Errorf("--%s belongs to --method damp", name)}
			}
		}
	}
	for _, v := range []struct {
		name     string
		from, to *float64
	}{{"tau", &o.tau, &s.Tau}, {"theta", &o.theta, &s.Theta}, {"delta", &o.delta, &s.Delta}, {"nu", &o.nu, &s.Nu}, {"overlap", &o.overlap, &s.Overlap}} {
		if set(v.name) {
			*v.to = *v.from
		}
	}
	for _, v := range []struct {
		name     string
		from, to *int
	}{{"top-k", &o.topK, &s.TopK}, {"grid", &o.grid, &s.Grid}, {"batch-size", &o.batch, &s.Batch}} {
		if set(v.name) {
			*v.to = *v.from
		}
	}
	if o.noNoise {
		s.Noise = false
	}
	if len(o.templates) > 0 {
		s.Templates = o.templates
	}
	if o.preprocess != "" {
		s.Preprocess = o.preprocess
	}
	s.TextFeatures = o.features
	if err := o.pixels.check(); err != nil {
		return s, err
	}
	s.ApplyEXIF = o.pixels.exif == pixel.EXIFApply || o.pixels.exif == "" && o.dataSet == ""
	if set("max-pixels") {
		s.MaxPixels = o.pixels.maxPixels
	}
	if !o.noCache {
		if s.Cache, err = vlm.TextCache(); err != nil {
			return s, err
		}
	}
	if o.names != "" {
		s.Names, err = vlm.ReadNames(o.names)
	}
	return s, err
}

// outputs sorts the files by what they hold.
func (o *pseudoFlags) outputs() (vlm.Outputs, error) {
	out := vlm.Outputs{Labels: o.out, Evidence: o.evidence, Sheet: o.html, Photos: o.photos}
	switch strings.ToLower(filepath.Ext(o.out)) {
	case ".npy":
	case ".jsonl":
		if o.evidence != "" {
			return out, usageError{errors.New("--out is a .jsonl file already; --evidence goes with a .npy")}
		}
		out.Labels, out.Evidence = "", o.out
	default:
		return out, usageError{fmt.Errorf("--out %q: the file's name has to end in .npy or .jsonl", o.out)}
	}
	var err error
	if o.shard != "" {
		if out.Shard, err = vlm.ParseShard(o.shard); err != nil {
			return out, usageError{err}
		}
		return out, nil
	}
	env, err := dist.FromEnv()
	if err != nil {
		return out, err
	}
	if env.WorldSize > 1 {
		out.Shard = vlm.Shard{Index: env.Rank, Count: env.WorldSize}
	}
	return out, nil
}

func (o *pseudoFlags) run(cmd *cobra.Command) error {
	for _, f := range []struct{ name, value, want string }{{"method", o.method, "vlpl or damp"}, {"clip", o.model, "MODEL or builtin"}, {"data", o.path, "DIR"}, {"out", o.out, "FILE.npy or FILE.jsonl"}} {
		if f.value == "" {
			return usageError{fmt.Errorf("%s wants --%s %s", cmd.CommandPath(), f.name, f.want)}
		}
	}
	out, err := o.outputs()
	if err != nil {
		return err
	}
	s, err := o.settings(cmd)
	if err != nil {
		return err
	}
	r, err := newReporter(cmd.ErrOrStderr(), o.progress)
	if err != nil {
		return err
	}
	opt, err := o.options()
	if err != nil {
		return err
	}
	s.Seed = opt.Seed
	ds, err := openData(o.path, o.options)
	if err != nil {
		return err
	}
	defer ds.Close()
	if o.quality && ds.Labels == nil {
		return usageError{fmt.Errorf("--quality compares with full labels, and %s has none", ds.Name)}
	}
	if len(ds.Info.Observed) > 0 {
		r.note("observed labels: " + ds.Info.Observed)
	}
	path := o.model
	if path == "builtin" {
		path = ""
	}
	m, err := openClip(cmd, path, o.load, o.dtype, o.size, 0, nil)
	if err != nil {
		return err
	}
	defer m.Close()
	ctx := cmd.Context()
	l, err := vlm.New(ctx, m, ds.Classes, s)
	if err != nil {
		return err
	}
	if source := l.Source(); source != "" {
		r.note(source)
	}
	sum, err := l.Run(ctx, ds, out, vlm.Events{Note: r.note, Step: r.encoded, Broken: func(b data.Broken) { r.note("left with its observed labels: " + b.Error()) }})
	r.clear()
	if err != nil {
		return err
	}
	if o.quality && !o.asJSON && sum.Known > 0 {
		q := sum.Quality
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d photos with full labels: %d positive labels beside the observed ones, precision %.2f %%, recall %.2f %% of the %d hidden positives\n",
			sum.Known, q.Pseudo, 100*q.Precision(), 100*q.Recall(), q.Hidden)
		return err
	}
	if o.asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(sum)
	}
	if sum.Merged || len(sum.Waiting) > 0 {
		_, err = fmt.Fprint(plain.Writer{W: cmd.OutOrStdout()}, sum)
		return err
	}
	files := []string{}
	for _, p := range []string{out.Labels, out.Evidence, out.Sheet} {
		if p != "" {
			files = append(files, p)
		}
	}
	_, err = fmt.Fprintf(plain.Writer{W: cmd.OutOrStdout()}, "%swrote %s\n", sum, strings.Join(files, ", "))
	return err
}
