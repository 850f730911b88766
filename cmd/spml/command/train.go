package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
)

func newTrain() *cobra.Command {
	var (
		progress    string
		resume, asJ bool
	)
	var s *settingFlags
	var dry dryFlags
	cmd := &cobra.Command{
		Use:   "train --data DIR --method NAME [--weights FILE] [--run DIR]",
		Short: "Train a classifier",
		Long: `Trains a classifier on photos of which each carries one label, and writes a run directory.

  spml train --data photos --weights mobilenet_v2.safetensors --method em --run runs/em
  spml train --data photos --weights mobilenet_v2.safetensors --method an --frozen --run runs/an     a linear head on frozen features: fast
  spml train --data photos --weights resnet50.pth --recipe gr-voc-resnet50 --run runs/gr             a paper's settings
  spml train --data shapes --method em --run runs/shapes                                             built-in pictures, no files needed
  spml train --run runs/em --resume                                                                  go on from the newest checkpoint
  spml train --run runs/em --resume --epochs 20                                                      make a run longer, where its schedule allows it
  spml train --config runs/em/run.yaml --seed 1 --run runs/em-1                                      the settings of another run

A data folder holds labels.csv (filename and a 0/1 column for each class), images/, and if wanted split.csv and
observed_SEED.csv. Without observed labels one positive per photo is drawn by the seed, as Cole et al. do.
The epoch with the highest validation mAP is kept; the test part is only reported. Without --run the run directory is
runs/DATA-METHOD-DATE-TIME in the current folder; --run= keeps nothing.

Photos without --weights train from random numbers, which takes many photos and 30 epochs by default; with pretrained weights it takes 4.

Settings come from flags, then environment variables (SPML_LR for --lr), then --config, then --recipe, then defaults;
` + "`spml config show --origin`" + ` says where each one comes from. SIGTERM and SIGUSR1 save a checkpoint and end with exit code 75;
--resume goes on from there, to the same bits.

Several processes share each batch where a launcher starts them, and give the weights of a single one; the run directory must be visible to all:
  torchrun --no-python --nproc-per-node 2 --max-restarts 3 -- spml train --resume --data photos --weights w.safetensors --method em --run runs/em
  srun --ntasks 4 spml train --resume …`,
		Args: exactly(0, "only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := newReporter(cmd.ErrOrStderr(), progress)
			if err != nil {
				return err
			}
			c, l, err := s.configuration()
			if err != nil {
				return err
			}
			switch {
			case dry.dry && dry.measure:
				return plan(cmd, cmd.OutOrStdout(), c, r, asJ)
			case dry.dry:
				return dryTrain(cmd, c, asJ)
			case dry.measure:
				if err := plan(cmd, cmd.ErrOrStderr(), c, r, false); err != nil {
					return err
				}
			}
			if resume && c.Run.Dir == "" {
				return usageError{fmt.Errorf("--resume wants --run, the directory of the run to go on with")}
			}
			if resume && !rundir.Exists(c.Run.Dir) && c.Data.Path == "" {
				return &config.Error{
					Msg: fmt.Sprintf(
						"there is no run in %s to go on with (no run.yaml); to start one there, give --data and --method",
						c.Run.Dir,
					),
				}
			}
			procs, err := train.Join(0)
			if err != nil {
				return err
			}
			if c.Run.Dir == "" && l.origin["run"] == "" {
				if procs.Size() > 1 {
					r.note("no --run: several processes keep nothing of this run")
				} else if made, err := c.Resolve(); err == nil { // else the run says what is wrong
					if c.Run.Dir, err = newRunFolder(made, time.Now()); err != nil {
						return err
					}
					defer dropEmpty(c.Run.Dir)
					r.note(fmt.Sprintf("run directory: %s (another: --run DIR, none: --run=)", c.Run.Dir))
				}
			}
			var res *train.Result
			with := train.RunOptions{Events: r.events(), Processes: procs}
			resume, err := procs.Agree(resume && rundir.Exists(c.Run.Dir))
			if err == nil && resume {
				res, err = train.Resume(cmd.Context(), c.Run.Dir, func(old *config.Config) { s.change(old, l) }, with)
			} else if err == nil {
				res, err = train.Run(cmd.Context(), c, with)
			}
			r.clear()
			if err := errors.Join(err, procs.Close(err)); err != nil {
				return err
			}
			if procs.Rank() > 0 {
				return nil
			}
			return printResult(cmd, c, res, asJ)
		},
	}
	f := cmd.Flags()
	s = addSettings(f)
	f.BoolVar(&resume, "resume", false, "go on with the run of --run, or start it where there is none")
	dry.add(cmd)
	f.StringVar(&progress, "progress", progressAuto, "auto, bar, plain, json or off")
	f.BoolVar(&asJ, "json", false, "print the result as JSON")
	return cmd
}

// change puts what flags said onto the settings of a run that goes on; Resume refuses what a run cannot change.
func (s *settingFlags) change(c *config.Config, l *layers) {
	old := c.AsSettings()
	for key := range s.values {
		if key != "run" && l.origin[key] != "" && l.origin[key][:4] == "flag" {
			old[key] = l.values[key]
		}
	}
	if len(s.params) > 0 {
		old["params"] = l.values["params"]
	}
	if changed, err := config.FromSettings(old); err == nil {
		*c = changed
	}
}

func printResult(cmd *cobra.Command, c config.Config, res *train.Result, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		broken := []string{}
		for _, b := range res.Broken {
			broken = append(broken, b.Error())
		}
		return json.NewEncoder(out).Encode(struct {
			Run     string              `json:"run,omitempty"`
			Best    train.EpochRecord   `json:"best"`
			Epochs  []train.EpochRecord `json:"epochs"`
			Stopped string              `json:"stopped"`
			Broken  []string            `json:"broken"`
		}{c.Run.Dir, res.Best, res.Epochs, res.Stopped, broken})
	}
	plain.Fprintf(out, "best epoch %d: val mAP %s, test mAP %s\n", res.Best.Epoch, res.Best.Val(), res.Best.Test())
	if n := len(res.Broken); n > 0 {
		plain.Fprintf(out, "%d images could not be read and were left out, the first: %v\n", n, res.Broken[0])
	}
	if c.Run.Dir != "" {
		plain.Fprintf(out, "next: spml report %s, spml eval %s, spml predict %s PHOTO\n", c.Run.Dir, c.Run.Dir, c.Run.Dir)
	}
	return nil
}
