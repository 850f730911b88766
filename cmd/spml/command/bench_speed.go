package command

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// csvTable prints rows as CSV and keeps them for a file.
type csvTable struct {
	header []string
	rows   [][]string
	path   string
}

func (t *csvTable) flag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.path, "results-file", "", "also write the rows to this CSV file, after those that it has")
}

// read takes the rows of the file, where there is one.
func (t *csvTable) read() error {
	if t.path == "" {
		return nil
	}
	f, err := os.Open(t.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	old, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return fmt.Errorf("%s: %w", t.path, err)
	}
	if len(old) > 0 {
		if !slices.Equal(old[0], t.header) {
			return usageError{fmt.Errorf("%s has other columns: %s; choose another --results-file", t.path, strings.Join(old[0], ","))}
		}
		t.rows = old[1:]
	}
	return nil
}

// add prints a row as soon as it is measured.
func (t *csvTable) add(w io.Writer, first bool, cells ...any) error {
	var row []string
	for _, c := range cells {
		switch v := c.(type) {
		case float64:
			row = append(row, strconv.FormatFloat(v, 'f', 3, 64))
		default:
			row = append(row, fmt.Sprint(v))
		}
	}
	t.rows = append(t.rows, row)
	c := csv.NewWriter(w)
	if first {
		c.Write(t.header)
	}
	c.Write(row)
	c.Flush()
	if err := c.Error(); err != nil || t.path == "" {
		return err
	}
	return atomicfile.WriteFile(t.path, 0o644, func(w io.Writer) error {
		c := csv.NewWriter(w)
		c.Write(t.header)
		return errors.Join(c.WriteAll(t.rows), c.Error())
	})
}

// measure calls f until the time is up, after one call that does not count, and gives the median seconds of a call.
func measure(ctx context.Context, limit time.Duration, f func() error) (median float64, calls int, err error) {
	if err := f(); err != nil {
		return 0, 0, err
	}
	var all []float64
	for begun := time.Now(); len(all) < 3 || time.Since(begun) < limit; {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		t := time.Now()
		if err := f(); err != nil {
			return 0, 0, err
		}
		all = append(all, time.Since(t).Seconds())
	}
	slices.Sort(all)
	return all[len(all)/2], len(all), nil
}

func newBenchData() *cobra.Command {
	var size, limit, jobs, batch int
	t := &csvTable{header: []string{"data", "epoch", "images", "image_size", "workers", "seconds", "images_per_sec", "broken"}}
	cmd := &cobra.Command{
		Use:   "data PATH|shapes",
		Short: "How fast the photos of a data set come: decoded, and from the cache",
		Long: `Walks over a data set as training does and prints CSV: the first epoch decodes and squashes every photo, the second takes what the cache kept.

  spml bench data VOCdevkit/VOC2012 --size 448 --limit 2000
  spml bench data photos --workers 1 --results-file data.csv`,
		Args: exactly(1, "one data set"),
	}
	flags := dataFlags(cmd.Flags())
	f := cmd.Flags()
	f.IntVar(&size, "size", 448, "side of the input in pixels")
	f.IntVar(&limit, "limit", 1000, "photos of the set (0: all)")
	f.IntVar(&jobs, "workers", 0, "goroutines that decode (0: all cores)")
	f.IntVar(&batch, "batch-size", 32, "photos in a batch")
	t.flag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if size < 1 || size > 8192 || limit < 0 || jobs < 0 || batch < 1 {
			return usageError{errors.New("--size, --limit, --workers and --batch-size want positive numbers")}
		}
		if err := t.read(); err != nil {
			return err
		}
		var ds *data.Dataset
		if args[0] == config.Shapes {
			seed := uint32(1200)
			ds, err = config.Data{Path: config.Shapes, Seed: &seed}.Open()
		} else {
			ds, err = openData(args[0], flags)
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ds.Close()) }()
		if ds.Source == nil {
			return fmt.Errorf("%s has no photos: name their folder (--images)", ds.Name)
		}
		l, err := data.NewLoader(ds, data.LoaderOptions{Width: size, Height: size, Workers: jobs, Cache: data.CacheMemory, CacheBytes: 8 << 30})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		var order []int
		for i := range ds.N() {
			if limit == 0 || i < limit {
				order = append(order, i)
			}
		}
		for epoch := 1; epoch <= 2; epoch++ {
			begun, n := time.Now(), 0
			for b, err := range l.Batches(cmd.Context(), data.Plan{Order: order, BatchSize: batch}) {
				if err != nil {
					return err
				}
				n += b.Len()
			}
			s := time.Since(begun).Seconds()
			if err := t.add(cmd.OutOrStdout(), epoch == 1, ds.Name, epoch, n, size, jobs, s, float64(n)/s, len(l.Broken())); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

func newBenchInfer() *cobra.Command {
	var size, batch, classes, threads int
	var seconds float64
	var plain bool
	t := &csvTable{header: []string{"model", "infer_samples_per_sec", "infer_step_time", "infer_batch_size", "infer_img_size", "param_count", "steps", "what"}}
	cmd := &cobra.Command{
		Use:   "infer MODEL|RUN…",
		Short: "How fast models label: networks by name, or a run from photo to labels",
		Long: `Prints CSV with timm's columns (step time in milliseconds, parameters in millions). A name of a network is measured on its own, with random weights, on a batch of
noise, in the frozen form that predict uses; a run directory from the bytes of a 500 × 375 JPEG to its labels, a photo
at a time on one core.

  spml bench infer mobilenet_v2 resnet50 --batch-size 8
  spml bench infer runs/em --results-file infer.csv`,
		Args:              atLeast(1, "networks by name ("+strings.Join(backbone.Names(), ", ")+") or run directories"),
		ValidArgsFunction: fixed(backbone.Names()...),
		RunE: func(cmd *cobra.Command, args []string) error {
			if size < 0 || batch < 1 || classes < 1 || !(seconds > 0) || threads < 0 {
				return usageError{errors.New("--size, --batch-size, --classes, --threads and --seconds want positive numbers")}
			}
			if err := t.read(); err != nil {
				return err
			}
			if err := torch.Available(); err != nil {
				return err
			}
			if threads > 0 {
				if err := torch.SetNumThreads(threads); err != nil {
					return err
				}
			}
			limit := time.Duration(seconds * float64(time.Second))
			for i, name := range args {
				if err := benchInfer(cmd, t, name, i == 0, size, batch, classes, plain, limit); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVar(&size, "size", 0, "side of the input in pixels (0: 224 for a network, a run's own)")
	f.IntVar(&batch, "batch-size", 1, "pictures at once, of a network")
	f.IntVar(&classes, "classes", 80, "classes of a network")
	f.IntVar(&threads, "threads", 0, "threads of an operation (0: all cores)")
	f.Float64Var(&seconds, "seconds", 2, "how long each is measured")
	f.BoolVar(&plain, "plain", false, "the form that training scores with, of a network")
	t.flag(cmd)
	return cmd
}

func benchInfer(
	cmd *cobra.Command, t *csvTable, name string, first bool, size, batch, classes int, plain bool, limit time.Duration,
) (err error) {
	if _, err := os.Stat(filepath.Join(name, "run.yaml")); err == nil {
		tagger, err := model.OpenTagger(name, model.TaggerOptions{Workers: 1})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, tagger.Close()) }()
		photo, err := testPhoto()
		if err != nil {
			return err
		}
		s, n, err := measure(cmd.Context(), limit, func() error {
			_, err := tagger.Tag(cmd.Context(), photo)
			return err
		})
		if err != nil {
			return err
		}
		return t.add(cmd.OutOrStdout(), first, name, 1/s, 1000*s, 1, tagger.Config.PretrainedCfg.InputSize[1], "", n, "JPEG to labels")
	}
	if !slices.Contains(backbone.Names(), name) {
		return usageError{fmt.Errorf("neither a run directory nor a network; there are %s", strings.Join(backbone.Names(), ", "))}
	}
	if size == 0 {
		size = 224
	}
	m, err := backbone.New(name, classes)
	if err != nil {
		return err
	}
	nn.SetTraining(m, false)
	var params int
	for _, p := range nn.Parameters(m) {
		params += p.Numel()
	}
	what := "network, plain"
	if !plain {
		if m, err = backbone.Freeze(m, torch.Float32); err != nil {
			return err
		}
		what = "network"
	}
	var s float64
	var n int
	err = errors.Join(torch.Try(func() {
		torch.Inference(func() {
			x := torch.Randn([]int{batch, 3, size, size}).ContiguousFormat(torch.ChannelsLast)
			s, n, err = measure(cmd.Context(), limit, func() error {
				torch.Scope(func(*torch.Arena) { m.Forward(x) })
				return nil
			})
		})
	}), err)
	if err != nil {
		return err
	}
	return t.add(cmd.OutOrStdout(), first, name, float64(batch)/s, 1000*s, batch, size, float64(params)/1e6, n, what)
}

func newBenchTrain() *cobra.Command {
	var methods []string
	var rounds int
	var s *settingFlags
	t := &csvTable{header: []string{"model", "method", "mode", "train_samples_per_sec", "train_step_time", "train_batch_size", "train_img_size", "infer_samples_per_sec", "steps", "resident_mb"}}
	cmd := &cobra.Command{
		Use:   "train [flags of train] [--methods NAME,…]",
		Short: "How fast training steps are, method by method, on your data",
		Long: `Takes real steps of the trainer, with data, loss, estimator and optimizer, and prints CSV with timm's columns (step time in milliseconds), a row for each method. Nothing is kept.

  spml bench train --data photos --weights mobilenet_v2.safetensors --methods an,em,gr
  spml bench train --data shapes --method em --batch-size 64 --results-file train.csv`,
		Args: exactly(0, "only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rounds < 1 {
				return usageError{fmt.Errorf("--rounds is %d, want at least 1", rounds)}
			}
			if err := t.read(); err != nil {
				return err
			}
			c, _, err := s.configuration()
			if err != nil {
				return err
			}
			if len(methods) == 0 {
				methods = []string{c.Method.ID}
			}
			for i, m := range methods {
				c.Method.ID = m
				var step, score []float64
				var p *train.Plan
				for range rounds {
					if p, err = train.Estimate(cmd.Context(), c, train.Events{}); err != nil {
						return err
					}
					step, score = append(step, p.StepSeconds), append(score, p.ScoreSeconds)
				}
				slices.Sort(step)
				slices.Sort(score)
				full, err := c.Resolve()
				if err != nil {
					return err
				}
				at := step[len(step)/2]
				if err := t.add(cmd.OutOrStdout(), i == 0,
					full.Model.Backbone, full.Method.ID, full.Model.Mode,
					float64(full.Optim.BatchSize)/at, 1000*at, full.Optim.BatchSize, full.Data.ImageSize, 32/score[len(score)/2],
					rounds*p.Measured, float64(p.ResidentBytes)/1e6); err != nil {
					return err
				}
			}
			return nil
		},
	}
	s = addSettings(cmd.Flags())
	cmd.Flags().StringSliceVar(&methods, "methods", nil, "methods in place of --method")
	cmd.Flags().IntVar(&rounds, "rounds", 3, "times that three steps are measured; the median counts")
	t.flag(cmd)
	return cmd
}
