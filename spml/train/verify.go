package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/rundir"
)

// Verification is what Verify found.
type Verification struct {
	Run   string `json:"run"`
	Steps int    `json:"steps"` // that were replayed
	// Differs is the first step, from 1, after which the weights are not those of the run; 0 = all are equal.
	Differs int    `json:"differs"`
	Hash    string `json:"hash"` // of the weights after the last step replayed
}

// Verify replays the first steps of a run, up to 20, and compares the weights after each with those that the run
// recorded.
func Verify(ctx context.Context, dir string, ev Events) (*Verification, error) {
	c, err := rundir.Read(dir)
	if err != nil {
		return nil, err
	}
	want, err := readTrace(dir)
	if err != nil {
		return nil, err
	}
	c.Run.Dir = ""
	if c, err = c.Ready(); err != nil {
		return nil, err
	}
	c.Run.MaxSteps = len(want)
	var got []string
	err = compute.Guard(func() error { return replay(ctx, c, ev, &got) })
	if err != nil {
		return nil, err
	}
	v := &Verification{Run: dir, Steps: len(got)}
	for i, h := range got {
		v.Hash = h
		if h != want[i] {
			v.Differs = i + 1
			break
		}
	}
	if len(got) < len(want) {
		return nil, fmt.Errorf("train: the replay ended after %d of %d steps", len(got), len(want))
	}
	return v, nil
}

func replay(ctx context.Context, c config.Config, ev Events, trace *[]string) error {
	_, err := run(ctx, c, RunOptions{Events: ev}, false, func(t *trainer) { t.traced, *trace = true, t.p.Trace })
	var stopped *StoppedError
	if errors.As(err, &stopped) && errors.Is(stopped.Cause, errBudget) {
		return nil
	}
	return err
}

// readTrace reads the hashes of a run's first steps, from steps.json, or from a checkpoint where the run was shorter.
func readTrace(dir string) ([]string, error) {
	var want []string
	b, err := os.ReadFile(filepath.Join(dir, traceFile))
	if err == nil {
		if err := json.Unmarshal(b, &want); err != nil {
			return nil, fmt.Errorf("%w: %s: %v", ErrData, traceFile, err)
		}
		return want, nil
	}
	names, lerr := list(filepath.Join(dir, checkpoints))
	if lerr != nil {
		return nil, lerr
	}
	for _, n := range names {
		if m, err := readManifest(filepath.Join(dir, checkpoints, n)); err == nil && len(m.Position.Trace) > 0 {
			return m.Position.Trace, nil
		}
	}
	return nil, fmt.Errorf("%s recorded no steps: %w", dir, err)
}

// bytesOf is the memory of numbers as bytes.
func bytesOf[T float32 | int64](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0])))
}
