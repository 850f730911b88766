package command

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/spml/train"
)

func newTrain() *cobra.Command {
	var (
		c                         train.Config
		file, progress            string
		frozen, flip, noFlip, asJ bool
		dataSeed                  uint32
		params                    []string
	)
	cmd := &cobra.Command{
		Use:   "train --data DIR --method NAME [--weights FILE] [--run DIR]",
		Short: "Train a classifier",
		Long: `Trains a classifier on photos of which each carries one label, and writes a run directory.

  spml train --data photos --weights mobilenet_v2.safetensors --method em --run runs/em
  spml train --data photos --weights mobilenet_v2.safetensors --method an --frozen --run runs/an     a linear head on frozen features: fast
  spml train --data shapes --method em --run runs/shapes                                             built-in pictures, no files needed
  spml train --config runs/em/run.yaml --seed 1 --run runs/em-1                                      the settings of another run

A data folder holds labels.csv (filename and a 0/1 column for each class), images/, and if wanted split.csv and
observed_SEED.csv. Without observed labels one positive per photo is drawn by the seed, as Cole et al. do.
The epoch with the highest validation mAP is kept; the test part is only reported.`,
		Args: exactly(0, "only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				base, err := train.LoadConfig(file)
				if err != nil {
					return err
				}
				base.Run = ""
				c = merge(cmd, base, c)
			}
			if frozen {
				c.Mode = train.Frozen
			}
			if flip || noFlip {
				c.Flip = &flip
			}
			if cmd.Flags().Changed("data-seed") {
				c.DataSeed = &dataSeed
			}
			for _, p := range params {
				name, value, ok := strings.Cut(p, "=")
				v, err := strconv.ParseFloat(value, 64)
				if !ok || err != nil {
					return usageError{fmt.Errorf("--param %q: want NAME=NUMBER, for instance alpha=0.1", p)}
				}
				if c.Params == nil {
					c.Params = map[string]float64{}
				}
				c.Params[name] = v
			}
			r, err := newReporter(cmd.ErrOrStderr(), progress)
			if err != nil {
				return err
			}
			res, err := train.Run(cmd.Context(), c, r.events())
			r.clear()
			if err != nil {
				return err
			}
			return printResult(cmd, c, res, asJ)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Data, "data", "", "data folder, or \"shapes\" for the built-in pictures")
	f.StringVar(&c.Method, "method", "", "loss, for instance an, bce, em, gr, ll-r; all: spml loss list")
	f.StringVar(&c.Weights, "weights", "", "safetensors file with the backbone's weights (torchvision names)")
	f.StringVar(&c.Backbone, "backbone", "", "backbone (default mobilenet_v2; small_cnn for shapes)")
	f.StringVar(&c.Run, "run", "", "run directory to write")
	f.StringVar(&file, "config", "", "YAML file with settings; flags override it")
	f.BoolVar(&frozen, "frozen", false, "train a linear head on frozen features")
	f.StringVar(&c.Features, "features", "", "with --frozen: .npy file with one feature row per image")
	f.StringArrayVar(&params, "param", nil, "parameter of the loss, NAME=NUMBER; repeatable")
	f.StringVar(&c.Preset, "preset", "", "data set whose published parameters the loss takes: voc, coco, nus, cub (default voc)")
	f.Float64Var(&c.LogEps, "log-eps", 0, "epsilon inside logarithms, as in the released code (0: exact)")
	f.IntVar(&c.Epochs, "epochs", 0, "epochs (default by mode: 4 fine-tuning, 25 frozen, 10 shapes)")
	f.IntVar(&c.BatchSize, "batch-size", 0, "images per step (default by mode)")
	f.Float64Var(&c.LR, "lr", 0, "learning rate (default by mode)")
	f.Float64Var(&c.HeadLR, "head-lr", 0, "learning rate of the classifier (default 10 x lr when fine-tuning pretrained weights, else lr)")
	f.IntVar(&c.ImageSize, "image-size", 0, "side of the square that images are resized to (default 224; 64 for shapes)")
	f.StringVar(&c.BatchNorm, "batch-norm", "", "auto, live or frozen statistics while fine-tuning (default auto)")
	f.BoolVar(&flip, "flip", false, "mirror training images at random (default when fine-tuning photos)")
	f.BoolVar(&noFlip, "no-flip", false, "never mirror")
	f.Uint32Var(&c.Seed, "seed", 1200, "seed of initialisation and order")
	f.Uint32Var(&dataSeed, "data-seed", 0, "seed of the observed labels (default: the seed)")
	f.IntVar(&c.Threads, "threads", 0, "threads per operation (0: all cores)")
	f.IntVar(&c.CacheMB, "cache-mb", 0, "memory for decoded images in MB (default 4096)")
	f.StringVar(&progress, "progress", progressAuto, "auto, bar, plain or off")
	f.BoolVar(&asJ, "json", false, "print the result as JSON")
	cmd.MarkFlagsMutuallyExclusive("flip", "no-flip")
	return cmd
}

// merge takes from flags what was given on the command line, the rest from the file.
func merge(cmd *cobra.Command, file, flags train.Config) train.Config {
	set := cmd.Flags().Changed
	take(set("data"), &file.Data, flags.Data)
	take(set("method"), &file.Method, flags.Method)
	take(set("weights"), &file.Weights, flags.Weights)
	take(set("backbone"), &file.Backbone, flags.Backbone)
	take(set("run"), &file.Run, flags.Run)
	take(set("features"), &file.Features, flags.Features)
	take(set("preset"), &file.Preset, flags.Preset)
	take(set("log-eps"), &file.LogEps, flags.LogEps)
	take(set("epochs"), &file.Epochs, flags.Epochs)
	take(set("batch-size"), &file.BatchSize, flags.BatchSize)
	take(set("lr"), &file.LR, flags.LR)
	take(set("head-lr"), &file.HeadLR, flags.HeadLR)
	take(set("image-size"), &file.ImageSize, flags.ImageSize)
	take(set("batch-norm"), &file.BatchNorm, flags.BatchNorm)
	take(set("seed"), &file.Seed, flags.Seed)
	take(set("threads"), &file.Threads, flags.Threads)
	take(set("cache-mb"), &file.CacheMB, flags.CacheMB)
	if set("seed") && !set("data-seed") {
		file.DataSeed = nil
	}
	return file
}

func take[T any](given bool, to *T, v T) {
	if given {
		*to = v
	}
}

func printResult(cmd *cobra.Command, c train.Config, res *train.Result, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		broken := []string{}
		for _, b := range res.Broken {
			broken = append(broken, b.Error())
		}
		return json.NewEncoder(out).Encode(struct {
			Run    string              `json:"run,omitempty"`
			Best   train.EpochRecord   `json:"best"`
			Epochs []train.EpochRecord `json:"epochs"`
			Broken []string            `json:"broken"`
		}{c.Run, res.Best, res.Epochs, broken})
	}
	fmt.Fprintf(out, "best epoch %d: val mAP %.2f, test mAP %.2f\n", res.Best.Epoch, res.Best.ValMAP, res.Best.TestMAP)
	if n := len(res.Broken); n > 0 {
		fmt.Fprintf(out, "%d images could not be read and were left out, the first: %v\n", n, res.Broken[0])
	}
	if c.Run != "" {
		fmt.Fprintf(out, "next: spml eval %s, spml predict %s PHOTO\n", c.Run, c.Run)
	}
	return nil
}
