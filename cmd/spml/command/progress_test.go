package command

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/train"
)

// Progress has a bar with rate and time left, plain lines without control characters, JSON that a program reads, or
// nothing.
func TestProgress(t *testing.T) {
	show := func(kind string) string {
		var b bytes.Buffer
		r, err := newReporter(&b, kind)
		require.NoError(t, err)
		r.last = time.Now().Add(-time.Hour)
		ev := r.events()
		ev.Note("weights found")
		ev.Step(train.Step{Phase: "train", Epoch: 1, Epochs: 2, Done: 50, Total: 100, Loss: 0.5, ImagesPerSec: 25})
		if kind == progressBar {
			time.Sleep(120 * time.Millisecond) // it is drawn ten times a second at most
		}
		ev.Step(train.Step{Phase: "train", Epoch: 1, Epochs: 2, Done: 60, Total: 100, Loss: 0.4, ImagesPerSec: 25})
		ev.Epoch(train.EpochRecord{Epoch: 1, Loss: 0.4, ValMAP: 70, Best: true})
		return b.String()
	}
	require.Empty(t, show(progressOff))
	require.Equal(t, "weights found\nepoch 1/2 train loss 0.5000: 50/100 images, 25 images/s, 2s left\nepoch   1  loss  0.400000  val mAP  70.00  test mAP   0.00    0.0 s  best so far\n", show(progressPlain))
	require.Equal(t, show(progressPlain), show(progressAuto), "no terminal, no bar")
	bar := show(progressBar)
	require.Regexp(t, `epoch 1/2 train  50 % █+·+  loss 0.5000  2s left  50/100  25 images/s`, bar)
	lines := strings.Split(strings.TrimSpace(show(progressJSON)), "\n")
	require.Len(t, lines, 3, "the second step came within the same second")
	require.JSONEq(t, `{"note":"weights found"}`, lines[0])
	require.JSONEq(t, `{"step":{"phase":"train","epoch":1,"epochs":2,"done":50,"total":100,"loss":0.5,"images_per_sec":25}}`, lines[1])
	var e struct{ Epoch train.EpochRecord }
	require.NoError(t, json.Unmarshal([]byte(lines[2]), &e))
	require.Equal(t, 70.0, e.Epoch.ValMAP)

	// Where the loader holds the network up, and how long the run takes: ten seconds for a twentieth of it leave about
	// 190.
	for kind, want := range map[string]string{progressPlain: `^epoch 1/10 train loss 0\.5000, loader 25 %, run 3m1[01]s left: 50/100`, progressJSON: `"loader_share":0.25,"run_seconds_left":19[01]`, progressBar: `run 3m1[01]s left`} {
		var b bytes.Buffer
		r, err := newReporter(&b, kind)
		require.NoError(t, err)
		r.last = time.Now().Add(-time.Hour)
		r.begun = time.Now().Add(-10 * time.Second)
		r.step(train.Step{Phase: "train", Epoch: 1, Epochs: 10, Done: 50, Total: 100, Loss: 0.5, ImagesPerSec: 25, Waited: 0.25})
		require.Regexp(t, want, b.String())
	}

	// The memory of a card.
	for kind, want := range map[string]string{progressPlain: `loss 0\.5000, card 12\.3 GB: `,
		progressJSON: `"card_bytes":12345678901`, progressBar: `card 12\.3 GB`} {
		var b bytes.Buffer
		r, err := newReporter(&b, kind)
		require.NoError(t, err)
		r.last = time.Now().Add(-time.Hour)
		r.step(train.Step{Phase: "train", Epoch: 1, Epochs: 10, Done: 50, Total: 100, Loss: 0.5, CardBytes: 12345678901})
		require.Regexp(t, want, b.String())
	}

	var b bytes.Buffer
	r, err := newReporter(&b, progressJSON)
	require.NoError(t, err)
	r.events().Epoch(train.EpochRecord{Loss: math.NaN()})
	require.True(t, json.Valid(b.Bytes()), b.String())
	_, err = newReporter(&b, "loud")
	require.ErrorContains(t, err, "none of auto, bar, plain, json, off")
}
