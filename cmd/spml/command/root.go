package command

import (
	"fmt"

	"github.com/spf13/cobra"
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
  spml doctor                                                 is everything in place?`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{guessFlag(cmd, err)} })
	root.AddCommand(
		newTrain(), newCompare(), newSweep(), newReproduce(), newDiff(), newReport(), newPlot(), newEval(), newPredict(), newExport(), newBundle(), newExplain(), newPseudoLabel(), newAudit(), newDemo(),
		newRecipe(), newConfig(), newPlan(), newVerify(),
		newLoss(), newData(), newMetric(), newClip(),
		newBench(), newSetup(), newDoctor(), newVersion(), &cobra.Command{
			Use:   "exit-codes",
			Short: "What the exit codes mean",
			Long:  exitCodesText,
		})
	addCompletion(root)
	return root
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
