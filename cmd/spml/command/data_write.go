package command

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/npy"
)

var errBadPhotos = errors.New("photos cannot be read")

func newDataCheck() *cobra.Command {
	var jobs int
	var photos photoFlags
	cmd := &cobra.Command{
		Use:   "check PATH",
		Short: "Decode every photo and name the ones that cannot be read",
		Long: `Opens a data set, decodes every photo and prints a JSON line for each that cannot be read: {"row", "image", "reason"}. The exit code is 65 where there is one.

  spml data check photos --jobs 8 > bad.jsonl`,
		Args: exactly(1, "one data set"),
	}
	flags := dataFlags(cmd.Flags())
	photos.add(cmd.Flags(), pixel.EXIFApply, "")
	cmd.Flags().IntVar(&jobs, "jobs", 0, "photos at a time (0: all cores)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		decode, err := photos.options()
		if err != nil {
			return err
		}
		d, err := openData(args[0], flags)
		if err != nil {
			return err
		}
		defer d.Close()
		if d.Source == nil {
			return fmt.Errorf("%s has no photos: name their folder (--images)", d.Name)
		}
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetEscapeHTML(false)
		bad := 0
		err = data.CheckPhotos(cmd.Context(), d, data.CheckOptions{Jobs: jobs, Decode: decode}, func(p data.Photo) error {
			if p.Err == nil {
				return nil
			}
			bad++
			return e.Encode(struct {
				Row    int    `json:"row"`
				Image  string `json:"image"`
				Reason string `json:"reason"`
			}{p.Row, p.Name, p.Err.Error()})
		})
		if err != nil {
			return err
		}
		plain.Fprintf(cmd.ErrOrStderr(), "%d photos, %d cannot be read\n", d.N(), bad)
		if bad > 0 {
			return fmt.Errorf("%d of %d %w", bad, d.N(), errBadPhotos)
		}
		return nil
	}
	return cmd
}

// writeFlags are the choices of a command that writes a data set.
type writeFlags struct {
	to, photos string
	lossy      bool
	shardMB    int
}

func (w *writeFlags) add(cmd *cobra.Command, to string) {
	f := cmd.Flags()
	f.StringVar(&w.to, "to", to, "format to write: csv, jsonl, cole, voc, coco, spml-list, label-studio, fiftyone, webdataset")
	f.StringVar(&w.photos, "photos", "none", "what becomes of the photos: none, copy or link (webdataset holds them in any case)")
	f.BoolVar(&w.lossy, "lossy", false, "write although the format cannot hold everything")
	f.IntVar(&w.shardMB, "shard-mb", 1024, "size of a webdataset shard")
}

func (w *writeFlags) write(cmd *cobra.Command, d *data.Dataset, dir string) error {
	lost, err := data.Loses(d, w.to)
	if err != nil {
		return usageError{err}
	}
	for _, l := range lost {
		plain.Fprintf(cmd.ErrOrStderr(), "%s cannot hold %s\n", w.to, l)
	}
	if err := data.Write(d, dir, data.WriteOptions{Format: w.to, Photos: data.PhotoRule(w.photos), Lossy: w.lossy, ShardBytes: int64(w.shardMB) << 20}); err != nil {
		var le *data.LossyError
		if errors.As(err, &le) {
			return fmt.Errorf("%w; choose another format (jsonl holds everything) or give --lossy", err)
		}
		return err
	}
	plain.Fprintf(cmd.OutOrStdout(), "%s: %d rows of %d classes as %s\n", dir, d.N(), d.C(), w.to)
	return nil
}

func newDataConvert() *cobra.Command {
	var w writeFlags
	cmd := &cobra.Command{
		Use:   "convert PATH OUT --to FORMAT",
		Short: "Write a data set in another format",
		Long: `Writes a data set into a new folder in another format: names, classes, full and observed labels, parts. What the format cannot hold is said, and then nothing is written
unless --lossy is given. Run again after it was killed, it removes what it had left, or ends it.

  spml data convert VOCdevkit/VOC2012 out --to jsonl
  spml data convert photos shards --to webdataset --shard-mb 256`,
		Args: exactly(2, "a data set and a new folder"),
	}
	flags := dataFlags(cmd.Flags())
	w.add(cmd, "jsonl")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d, err := openData(args[0], flags)
		if err != nil {
			return err
		}
		defer d.Close()
		return w.write(cmd, d, args[1])
	}
	return cmd
}

func newDataSinglePositive() *cobra.Command {
	var w writeFlags
	var o data.Observation
	cmd := &cobra.Command{
		Use:   "single-positive PATH OUT",
		Short: "Draw the labels that training may see",
		Long: `Draws observed labels from full ones. The default is one positive of each image, to the bit as Cole et al.'s script draws them with the same seed.
OUT is observed_SEED.csv (for a CSV folder), a .npy matrix, or a new folder for the whole set in the format --to.

  spml data single-positive photos photos/observed_1.csv --seed 1
  spml data single-positive coco out --to cole                        formatted_*_labels_obs.npy
  spml data single-positive photos out --positives 2 --negatives 3    several
  spml data single-positive photos out --model share --share 0.1      10 % of all labels
  spml data single-positive photos out --model frequency              the more frequent class is likelier`,
		Args: exactly(2, "a data set and what to write"),
	}
	f := cmd.Flags()
	flags := dataFlags(f)
	w.add(cmd, "csv")
	f.StringVar(&o.Model, "model", "uniform", "uniform, frequency or share")
	f.IntVar(&o.Positives, "positives", 1, "uniform: positives of each image that are kept (-1: all)")
	f.IntVar(&o.Negatives, "negatives", 0, "uniform: negatives of each image that are kept (-1: all)")
	f.Float64Var(&o.Share, "share", 0.1, "share: part of the labels that are kept")
	f.BoolVar(&o.AllRows, "all-rows", false, "one generator over all rows; else a fresh one for the test part, as Cole et al.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opt, err := flags()
		if err != nil {
			return err
		}
		d, err := openData(args[0], flags)
		if err != nil {
			return err
		}
		defer d.Close()
		o.Seed = opt.Seed
		if o.Positives < -1 || o.Negatives < -1 || o.Positives == 0 {
			return usageError{fmt.Errorf("--positives wants -1 or at least 1, --negatives -1 or more")}
		}
		s, err := d.Observe(o)
		if err != nil {
			return err
		}
		plain.Fprintf(cmd.ErrOrStderr(), "%s\n", s.Info.Observed)
		switch filepath.Ext(args[1]) {
		case ".csv":
			return writeMatrixCSV(args[1], s, s.Observed)
		case ".npy":
			a, err := npy.New([]int64{int64(s.N()), int64(s.C())}, s.Observed)
			if err != nil {
				return err
			}
			return npy.Write(args[1], a)
		}
		return w.write(cmd, s, args[1])
	}
	return cmd
}

func writeMatrixCSV(path string, d *data.Dataset, m []int8) error {
	return atomicfile.WriteFile(path, 0o644, func(out io.Writer) error {
		c := csv.NewWriter(out)
		rec := append([]string{"filename"}, d.Classes...)
		c.Write(rec)
		for i, name := range d.Images {
			rec[0] = name
			for k := range d.Classes {
				rec[k+1] = strconv.Itoa(int(m[i*d.C()+k]))
			}
			c.Write(rec)
		}
		c.Flush()
		return c.Error()
	})
}

func newDataSplit() *cobra.Command {
	var w writeFlags
	var val, test float64
	var keepTest bool
	var splitSeed uint32
	cmd := &cobra.Command{
		Use:   "split PATH OUT",
		Short: "Draw train, val and test parts",
		Long: `Draws the parts of a data set by the papers' rule: the fraction of the rows, by numpy's generator with seed 1200. OUT is split.csv (for a CSV folder) or a new folder for the
whole set in the format --to.

  spml data split photos photos/split.csv --val 0.2 --test 0.2
  spml data split photos out --to jsonl --keep-test --val 0.1`,
		Args: exactly(2, "a data set and what to write"),
	}
	f := cmd.Flags()
	flags := dataFlags(f)
	w.add(cmd, "csv")
	f.Float64Var(&val, "val", data.ValFraction, "part of the rows that are not test")
	f.Float64Var(&test, "test", 0.2, "part of all rows")
	f.BoolVar(&keepTest, "keep-test", false, "keep the test rows that the files name")
	f.Uint32Var(&splitSeed, "split-seed", 1200, "seed of the parts")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !(val >= 0 && val < 1 && test >= 0 && test < 1) {
			return usageError{fmt.Errorf("--val and --test want a number from 0 to below 1")}
		}
		d, err := openData(args[0], flags)
		if err != nil {
			return err
		}
		defer d.Close()
		s, err := d.Resplit(val, test, splitSeed, keepTest)
		if err != nil {
			return err
		}
		plain.Fprintf(cmd.ErrOrStderr(), "%s: %d train, %d val, %d test\n", s.Info.Split, len(s.Rows(data.Train)), len(s.Rows(data.Val)), len(s.Rows(data.Test)))
		if filepath.Ext(args[1]) != ".csv" {
			return w.write(cmd, s, args[1])
		}
		return atomicfile.WriteFile(args[1], 0o644, func(out io.Writer) error {
			c := csv.NewWriter(out)
			c.Write([]string{"filename", "split"})
			for i, n := range s.Images {
				c.Write([]string{n, s.Split[i].String()})
			}
			c.Flush()
			return c.Error()
		})
	}
	return cmd
}

func newDataIndex() *cobra.Command {
	return &cobra.Command{
		Use:   "index SHARD.tar…",
		Short: "Write the index of webdataset shards, so that opening them reads no shard",
		Long: `Writes x.idx beside each x.tar: extension, offset, size and name of every file, in the format of DALI's wds2idx.

  spml data index shards/*.tar`,
		Args: atLeast(1, "at least one shard"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, a := range args {
				if !strings.HasSuffix(a, ".tar") {
					return usageError{fmt.Errorf("%s is no .tar file", a)}
				}
				file, n, err := data.WriteTarIndex(a)
				if err != nil {
					return err
				}
				plain.Fprintf(cmd.OutOrStdout(), "%s: %d samples\n", file, n)
			}
			return nil
		},
	}
}
