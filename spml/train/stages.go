package train

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch"
)

// stageOneDir holds the run of the first stage, inside the run directory.
const stageOneDir = "stage1"

// FirstStage is the run of the first of two stages: pseudo-labelling consistency, whose best weights the second starts
// from. Its δ is its own, its learning rate where it is given, everything else the run's. c must be resolved and have
// two stages.
//
// Source: Xie et al. 2022 (LAC), section 4.1; the released code.
func (c Config) FirstStage() (Config, error) {
	second, err := method.Lookup(c.Method)
	if err != nil {
		return c, err
	}
	first, err := method.Lookup(second.First)
	if err != nil {
		return c, err
	}
	e := first.Loss
	switch {
	case c.StageOne != "":
		c.Run = c.StageOne
	case c.Run != "":
		c.Run = filepath.Join(c.Run, stageOneDir)
	}
	delta := c.StageOneDelta
	if c.StageOneLR > 0 {
		if c.HeadLR == c.LR { // by default it is
			c.HeadLR = c.StageOneLR
		}
		c.LR = c.StageOneLR
	}
	c.Method, c.Stages, c.QueueSize, c.StageOne, c.StageOneDelta, c.StageOneLR = e.ID, 0, 0, "", 0, 0
	params := map[string]float64{}
	for _, p := range e.Params {
		if v, set := c.Params[p.Name]; set && p.Name != "delta" {
			params[p.Name] = v
		}
	}
	if delta > 0 {
		params["delta"] = delta
	}
	c.Params = params
	return c.Resolve()
}

// twoStages trains the first stage where it is not done and gives the settings of the second.
func twoStages(ctx context.Context, c Config, ev Events) (Config, error) {
	if c.Stages < 2 || c.Init != "" {
		return c, nil
	}
	if c.Run == "" {
		return c, &ConfigError{Msg: "two stages need a place for the first one's weights: give --run DIR, or train in one with --stages 1"}
	}
	first, err := c.FirstStage()
	if err != nil {
		return c, err
	}
	procs := processesOf(ctx)
	done, err := procs.Agree(exists(filepath.Join(first.Run, resultFile)))
	if err != nil {
		return c, err
	}
	if !done {
		begun, err := procs.Agree(HasRun(first.Run))
		if err != nil {
			return c, err
		}
		whole := &runDir{path: c.Run} // so that a run that is stopped in its first stage can go on by its own folder
		if procs.Rank() > 0 || exists(filepath.Join(c.Run, "run.yaml")) {
			whole.path = ""
		}
		if _, err := procs.first(whole.settings(c), ""); err != nil {
			return c, err
		}
		ev.note(fmt.Sprintf("stage 1 of 2: %s, in %s", first.Method, first.Run))
		release, err := onlyWriter(first.Run, procs, ev)
		if err != nil {
			return c, fmt.Errorf("stage 1: %w", err)
		}
		_, err = run(ctx, first, ev, begun)
		if err := errors.Join(err, release()); err != nil {
			return c, fmt.Errorf("stage 1: %w", err)
		}
		torch.TrimHeap() // the first stage's activations are of no use to the second
	}
	if !exists(filepath.Join(first.Run, "model", model.WeightsFile)) {
		return c, errors.New("stage 1 left no model; remove " + first.Run + " and start again")
	}
	c.Init = first.Run
	ev.note("stage 2 of 2: " + c.Method + ", from the best weights of stage 1")
	return c, nil
}

// asGiven takes back what twoStages wrote into the settings of a second stage.
func (c Config) asGiven() Config {
	if c.Stages == 2 && c.Init != "" {
		given := c
		given.Init = ""
		if first, err := given.FirstStage(); err == nil && first.Run == c.Init {
			return given
		}
	}
	return c
}
