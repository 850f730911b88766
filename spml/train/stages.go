package train

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/torch"
)

// twoStages trains the first stage where it is not done and gives the settings of the second.
func twoStages(ctx context.Context, c config.Config, o RunOptions) (config.Config, error) {
	if c.Stages.Count < 2 || c.Model.Init != "" {
		return c, nil
	}
	if c.Run.Dir == "" {
		return c, &config.Error{
			Msg: "two stages need a place for the first one's weights: give --run DIR, or train in one with --stages 1",
		}
	}
	first, err := c.FirstStage()
	if err != nil {
		return c, err
	}
	ev, procs := o.Events, o.Processes
	done, err := procs.Agree(exists(filepath.Join(first.Run.Dir, rundir.ResultFile)))
	if err != nil {
		return c, err
	}
	if !done {
		begun, err := procs.Agree(rundir.Exists(first.Run.Dir))
		if err != nil {
			return c, err
		}
		whole := rundir.New(c.Run.Dir) // so that a run that is stopped in its first stage can go on by its own folder
		if procs.Rank() > 0 || rundir.Exists(c.Run.Dir) {
			whole = rundir.New("")
		}
		if _, err := procs.first(whole.Settings(c), ""); err != nil {
			return c, err
		}
		ev.Say(fmt.Sprintf("stage 1 of 2: %s, in %s", first.Method.ID, first.Run.Dir))
		release, err := onlyWriter(first.Run.Dir, procs, ev)
		if err != nil {
			return c, fmt.Errorf("stage 1: %w", err)
		}
		_, err = run(ctx, first, o, begun)
		if err := errors.Join(err, release()); err != nil {
			return c, fmt.Errorf("stage 1: %w", err)
		}
		torch.TrimHeap() // the first stage's activations are of no use to the second
	}
	if !exists(filepath.Join(first.Run.Dir, "model", model.WeightsFile)) {
		return c, errors.New("stage 1 left no model; remove " + first.Run.Dir + " and start again")
	}
	c.Model.Init = first.Run.Dir
	ev.Say("stage 2 of 2: " + c.Method.ID + ", from the best weights of stage 1")
	return c, nil
}
