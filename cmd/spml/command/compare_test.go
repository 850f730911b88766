package command

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/train"
)

// TestCompareShowsItsRuns: the number of runs is said first, then what each does and what is left; a stopped comparison
// names its own way on, and goes it.
func TestCompareShowsItsRuns(t *testing.T) {
	args := []string{"compare", "--data", "shapes", "--data-options", "train=64,val=16,test=16", "--image-size", "16", "--methods", "an,em", "--seeds", "1", "--epochs", "2", "--progress", "json", "--run", filepath.Join(t.TempDir(), "cmp")}
	code, _, stderr := spml(t, nil, args...)
	require.Zero(t, code, stderr)
	var kinds []string
	for _, line := range strings.Split(strings.TrimSpace(stderr), "\n") {
		var x struct {
			Run, Note string
			Step      *train.Step
			Epoch     *train.EpochRecord
		}
		if json.Unmarshal([]byte(line), &x) != nil {
			continue
		}
		switch {
		case x.Note != "":
			kinds = append(kinds, x.Note)
		case x.Epoch != nil:
			kinds = append(kinds, x.Run)
		}
	}
	require.Len(t, kinds, 7, stderr)
	require.Equal(t, "2 methods × 1 seeds = 2 runs, 0 of them done before", kinds[0])
	require.Equal(t, []string{"an seed 1200", "an seed 1200"}, kinds[1:3])
	require.Regexp(t, `^1/2  an seed 1200: val mAP .*, about \S+ left\)$`, kinds[3])
	require.Regexp(t, `^2/2  em seed 1200: [^,]*, test mAP [\d.]+ \(\S+\)$`, kinds[6])
	code, _, stderr = spml(t, nil, append(args, "--progress", "dots")...)
	require.Equal(t, exitUsage, code, stderr)

	ctx, cancel := context.WithCancel(context.Background())
	v, err := compare.Methods([]string{"an", "em"})
	require.NoError(t, err)
	o := compare.Options{Settings: map[string]any{"data": "shapes", "data_options": "train=64,val=16,test=16", "image_size": 16, "epochs": 2}, Variants: v, Seeds: []uint32{1}, Dir: t.TempDir(), Replicates: 10}
	o.Watch = func(name string, _ uint32) (train.Events, func()) {
		return train.Events{Step: func(s train.Step) {
			if name == "em" {
				cancel()
			}
		}}, func() {}
	}
	_, err = compare.Run(ctx, o)
	require.EqualError(t, err, "stopped (context canceled): 1 of 2 runs are done and kept; give the same command again to go on, also with a run that was stopped")
	require.NotContains(t, err.Error(), "--resume")
	require.Equal(t, exitInt, exitCode(ctx, err))
	var begun []string
	o.Watch = func(name string, _ uint32) (train.Events, func()) {
		begun = append(begun, name)
		return train.Events{}, func() {}
	}
	_, err = compare.Run(context.Background(), o)
	require.NoError(t, err)
	require.Equal(t, []string{"em"}, begun, "what is done is not done again")

	// Several runs at once share one line.
	var b strings.Builder
	r, err := newReporter(&b, progressPlain)
	require.NoError(t, err)
	r.plainEach = time.Nanosecond
	p := &runsReporter{r: r}
	first, end := p.watch("an", 1)
	_, end2 := p.watch("em", 2)
	first.Step(train.Step{Phase: "train", Epoch: 1, Epochs: 2, Done: 1, Total: 2})
	end2()
	first.Step(train.Step{Phase: "train", Epoch: 1, Epochs: 2, Done: 2, Total: 2})
	end()
	require.Regexp(t, "^2 runs at once: an seed 1, em seed 2\nan seed 1  epoch 1/2 train loss 0.0000: 2/2 images", b.String())
}
