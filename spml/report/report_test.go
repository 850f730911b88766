package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/data/shapes/shapestest"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
)

func itoa(n int) string       { return strconv.Itoa(n) }
func signed(v float64) string { return fmt.Sprintf("%+.2f", v) }

// The command that a page shows trains the same run, to the bit.
func TestRepeat(t *testing.T) {
	yes := true
	seed := uint32(9)
	c := config.Config{
		Data:     config.Data{Path: "shapes", Seed: &seed, Flip: &yes},
		Method:   config.Method{ID: "em", Params: map[string]float64{"alpha": 0.2}},
		Optim:    config.Optim{LR: 0.01, Name: "sgd", Momentum: 0.9},
		Schedule: config.Schedule{Epochs: 7},
		Run:      config.Run{Seed: 3},
	}
	c, err := c.Resolve()
	require.NoError(t, err)
	line := repeat(&rundir.Record{Dir: "somewhere", Config: c})
	require.Equal(
		t,
		"spml train --data shapes --data-seed 9 --flip=true --method em --param alpha=0.2 --epochs 7 --optimizer sgd "+
			"--lr 0.01 --head-lr 0.01 --momentum 0.9 --seed 3 --run NEW",
		line,
	)
}

// A run whose data are gone still has its curves, and the page says what is missing.
func TestWithoutData(t *testing.T) {
	set := shapestest.Folder(t)
	c := config.Config{
		Data:     config.Data{Path: set, ImageSize: 64},
		Method:   config.Method{ID: "an"},
		Model:    config.Model{Backbone: "small_cnn"},
		Optim:    config.Optim{BatchSize: 32},
		Schedule: config.Schedule{Epochs: 1},
		Run:      config.Run{Dir: filepath.Join(t.TempDir(), "<b>run"), SaveEvery: config.SaveEvery{Off: true}},
	}
	_, err := train.Run(t.Context(), c, train.RunOptions{})
	require.NoError(t, err)
	html, err := Make(t.Context(), []string{c.Run.Dir}, Options{Photos: 1})
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(html), `<figure class="card">`))
	require.False(t, strings.Contains(string(html), "<b>run"), "names are escaped")
	require.NoError(t, os.Rename(filepath.Join(set, "labels.csv"), filepath.Join(set, "other.csv")))
	html, err = Make(t.Context(), []string{c.Run.Dir}, Options{})
	require.NoError(t, err)
	require.Regexp(t, `class="warn" role="note">[^<]*so classes, thresholds and photos are left out`, string(html))
	require.True(t, strings.Contains(string(html), "Mean average precision by epoch"))
	require.False(t, strings.Contains(string(html), `id="photos"`))

	_, err = Make(t.Context(), []string{t.TempDir()}, Options{})
	require.ErrorContains(t, err, "neither a run")
	require.NoError(t, os.Remove(filepath.Join(c.Run.Dir, "result.json")))
	_, err = Make(t.Context(), []string{c.Run.Dir}, Options{})
	require.ErrorContains(t, err, "--resume")
}

// Runs without test scores show validation, one among others shows "n/a", and no page says 0.
func TestWithoutTestScores(t *testing.T) {
	dir := t.TempDir()
	run := func(method string, hidden bool) string {
		c := config.Config{
			Data: config.Data{
				Path:      "shapes",
				Options:   config.DataOptions{Train: 30, Val: 20, Test: 20},
				ImageSize: 16,
				NoTest:    hidden,
			},
			Method:   config.Method{ID: method},
			Schedule: config.Schedule{Epochs: 1},
			Run:      config.Run{Dir: filepath.Join(dir, fmt.Sprint(method, hidden)), SaveEvery: config.SaveEvery{Off: true}},
		}
		_, err := train.Run(t.Context(), c, train.RunOptions{})
		require.NoError(t, err)
		return c.Run.Dir
	}
	page := func(runs ...string) string {
		html, err := Make(t.Context(), runs, Options{})
		require.NoError(t, err)
		table, _, _ := strings.Cut(string(html), `id="curves"`)
		require.NotContains(t, table, "0.00")
		return table
	}
	an, em := run("an", true), run("em", true)
	require.Contains(t, page(an), "n/a")
	both := page(an, em)
	require.Contains(t, both, "Validation mAP, %")
	require.Contains(t, both, "The runs leave the test part alone, so test mAP is n/a")
	mixed := page(run("an", false), em)
	require.Contains(t, mixed, "Test mAP, %")
	require.Contains(t, mixed, "<b>n/a</b>")
}

func TestWritePhotos(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 8, 8))
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, m))
	p := Photo{Name: "x.png", Labels: []PhotoLabel{{"dog", []PhotoBar{{0.25, false}, {0.75, true}}, -1}}}
	require.NoError(t, p.draw(b.Bytes(), pixel.Options{}, nil, 0, 0))
	var out bytes.Buffer
	require.NoError(t, WritePhotos(&out, "two models", "", [2]string{"a", "b"}, []Photo{p}, nil))
	for _, want := range []string{"data:image/jpeg;base64,", "width:25%", "width:75%", "0.75", "dog"} {
		require.Contains(t, out.String(), want)
	}
	require.NotContains(t, out.String(), "<script")
	require.Error(t, p.draw([]byte("no picture"), pixel.Options{}, nil, 0, 0))
}

func TestEpochRows(t *testing.T) {
	group := func(n int) *metric.ScoreGroup {
		h := make([]int, metric.ScoreBins)
		h[3], h[99] = n, 1
		return &metric.ScoreGroup{Entries: n + 1, Probability: 1, Histogram: h}
	}
	var scores []metric.EpochScores
	for e := 1; e <= 100; e++ {
		p := &metric.PartScores{Positive: group(e)}
		if e > 50 {
			p.Pseudo = group(2)
		}
		scores = append(scores, metric.EpochScores{Epoch: e, Train: p})
	}
	rows := epochRows(scores)
	require.Len(t, rows, 40)
	require.Equal(t, 1, rows[0].Epoch)
	require.Equal(t, 100, rows[39].Epoch)
	for _, r := range rows {
		require.Len(t, r.Rows, 2, "a group that comes later is empty before")
	}
	require.Equal(t, 100, rows[39].Rows[0].Counts[1])
	b, err := json.Marshal(embedded{Epochs: epochRows(nil)})
	require.NoError(t, err)
	require.Contains(t, string(b), `"epochs":[]`)
}
