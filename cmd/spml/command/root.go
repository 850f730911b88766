package command

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/torch/pth"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "spml",
		Short: "Single-positive multi-label learning: train, evaluate, predict",
		Long: `spml trains image classifiers for many labels from photos of which each carries only one.

  spml demo                                                   eight methods on built-in pictures: a table and a report
  spml train --data DIR --weights FILE --method em --run RUN  train on your photos
  spml eval RUN                                               score the test part of a run's data
  spml predict RUN photo.jpg …                                label photos
  spml runs list                                              the runs of a folder: sort, filter, delete
  spml watch RUN…                                             how runs go on, live
  spml diff RUN1 RUN2                                         settings, curves and classes of two runs
  spml report RUN…                                            one HTML file of what came out
  spml plot PAPER:FIG RUN…                                    a figure of a paper from your runs
  spml bundle RUN OUT                                         a folder that tags photos anywhere
  spml pseudo-label --method damp --clip M --data DIR …       labels from a CLIP
  spml audit --run RUN --out DIR                              labels that are probably missing, to look through
  spml recipe list                                            the papers' settings
  spml reproduce list                                         tables and figures of the papers, and the command of each
  spml data show DIR                                          what a data set holds, in 17 formats
  spml loss list                                              the methods, and what they need
  spml metric scores.npy labels.npy                           mAP, F1, ranking and calibration of any scores
  spml clip zeroshot photo.jpg --model M --labels dog,cat     CLIP models: look at, convert, use
  spml weights list                                           published weights by name: fetch, verify
  spml doctor                                                 is everything in place?

A .pth or .npz file that is refused because what it describes does not fit is read with --file-budget 1GB (any command), if you trust it.`,
		Version:       gospml.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{guessFlag(cmd, err)} })
	root.PersistentFlags().Var(new(fileBudget), "file-budget", "memory that what a .pth or .npz file describes may take, such as 1GB; for files that you trust")
	_ = root.PersistentFlags().MarkHidden("file-budget") // of every command, and needed by few: the refusal of a file names it
	root.PersistentFlags().Bool("offline", false, "open no connection: published weights must be here")
	_ = root.PersistentFlags().MarkHidden("offline")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return namedWeights(cmd) }
	root.AddCommand(
		newTrain(), newCompare(), newSweep(), newReproduce(), newDiff(), newReport(), newPlot(), newEval(), newPredict(), newExport(), newBundle(), newExplain(), newPseudoLabel(), newAudit(), newDemo(),
		newRecipe(), newConfig(), newPlan(), newVerify(), newRuns(), newWatch(),
		newLoss(), newData(), newMetric(), newClip(), newWeights(),
		newBench(), newSetup(), newDoctor(), newVersion(), &cobra.Command{
			Use:   "exit-codes",
			Short: "What the exit codes mean",
			Long:  exitCodesText,
		})
	addCompletion(root)
	addHelp(root)
	strictCommands(root)
	return root
}

// fileBudget is a number of bytes with an optional unit, which holds for the process as soon as it is read.
type fileBudget int64

func (b *fileBudget) String() string { return strconv.FormatInt(int64(*b), 10) }
func (b *fileBudget) Type() string   { return "SIZE" }

func (b *fileBudget) Set(text string) error {
	n, err := byteSize(text)
	if err != nil {
		return err
	}
	*b = fileBudget(n)
	pth.SetLimit(n)
	npy.SetLimit(n)
	return nil
}

// byteSize reads a number of bytes with an optional unit: 500MB, 2 GB, 123.
func byteSize(text string) (int64, error) {
	number, factor := strings.TrimSuffix(strings.ToUpper(strings.ReplaceAll(text, " ", "")), "B"), int64(1)
	for unit, f := range map[string]int64{"K": 1e3, "M": 1e6, "G": 1e9} {
		if n, ok := strings.CutSuffix(number, unit); ok {
			number, factor = n, f
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > 1e15/factor {
		return 0, fmt.Errorf("%q is no size such as 500MB or 2GB", text)
	}
	return n * factor, nil
}

// exactly and atLeast are cobra's argument checks with our exit code.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("%s wants %s, got %d arguments", cmd.CommandPath(), what, len(args))}
		}
		return nil
	}
}

func atLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usageError{fmt.Errorf("%s wants %s", cmd.CommandPath(), what)}
		}
		return nil
	}
}

// Root returns the command with all its subcommands, for programs that make documents of it.
func Root() *cobra.Command { return newRoot() }
