package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
)

func scenes(t *testing.T) map[string]any {
	return map[string]any{
		"data": testroot.Shared(t, "data", "miml"), "features": testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy"), "mode": "frozen", "epochs": 3,
	}
}

func TestCompare(t *testing.T) {
	v, err := Methods([]string{"AN-LS", "ll-r:delta_rel=0.004", "em"})
	require.NoError(t, err)
	require.Equal(t, "an-ls", v[0].Name)
	dir := t.TempDir()
	var notes []string
	o := Options{Settings: scenes(t), Variants: v, Seeds: []uint32{1200, 1}, Dir: dir, Replicates: 100, Note: func(s string) { notes = append(notes, s) }}
	table, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.Len(t, notes, 7)
	require.Equal(t, "3 methods × 2 seeds = 6 runs, 0 of them done before", notes[0])
	require.Len(t, table.Rows, 3)
	require.Nil(t, table.Rows[0].Difference)

	// A row's numbers are those of its runs, its difference that of the means.
	single := scenes(t)
	single["method"], single["seed"], single["params"] = "ll-r", 1, map[string]any{"delta_rel": 0.004}
	c, err := config.FromSettings(single)
	require.NoError(t, err)
	res, err := train.Run(context.Background(), c, train.RunOptions{})
	require.NoError(t, err)
	r := table.Rows[1]
	require.Equal(t, res.Best.TestMAP, r.Best[1])
	require.InDelta(t, (r.Best[0]+r.Best[1])/2, r.BestMean, 1e-12)
	require.InDelta(t, math.Abs(r.Best[0]-r.Best[1])/math.Sqrt2, r.BestSD, 1e-12)
	require.InDelta(t, r.BestMean-table.Rows[0].BestMean, r.Difference.Difference.Value, 1e-9)
	require.Less(t, r.Difference.Difference.Low, r.Difference.Difference.High)

	// Nothing is trained twice, and a run that is missing is made again to the same numbers.
	marker := filepath.Join(dir, "em", "seed-1200", "run.yaml")
	before, err := os.Stat(marker)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "em", "seed-1")))
	again, err := Run(context.Background(), o)
	require.NoError(t, err)
	after, err := os.Stat(marker)
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime())
	require.Equal(t, table.Rows[2].Best, again.Rows[2].Best)

	o.Settings["lr"] = 0.5
	_, err = Run(context.Background(), o)
	require.ErrorContains(t, err, "was 0.001, is 0.5")
}

func TestPairedOverSeedsIsTheMean(t *testing.T) {
	v, err := Methods([]string{"an", "wan"})
	require.NoError(t, err)
	o := Options{Settings: scenes(t), Variants: v, Seeds: []uint32{5}, Dir: t.TempDir(), Replicates: 200}
	table, err := Run(context.Background(), o)
	require.NoError(t, err)
	a, err := rundir.ReadTestScores(filepath.Join(o.Dir, "an", "seed-5"))
	require.NoError(t, err)
	b, err := rundir.ReadTestScores(filepath.Join(o.Dir, "wan", "seed-5"))
	require.NoError(t, err)
	c := config.Config{Data: config.Data{Path: o.Settings["data"].(string), Seed: new(uint32)}}
	ds, err := c.Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	want, err := metric.CompareMAP(a.Values, b.Values, ds.Gather(ds.Labels, a.Rows), ds.C(), metric.Resampling{Replicates: 200})
	require.NoError(t, err)
	require.Equal(t, want, *table.Rows[1].Difference)
}

func TestFormats(t *testing.T) {
	table := &Table{Data: "birds", Test: 9, Classes: 3, Rows: []Row{
		{Name: "an_x", Seeds: []uint32{1, 2}, Best: []float64{50, 51}, Last: []float64{49, 50}, BestMean: 50.5, BestSD: 0.71, LastMean: 49.5, LastSD: 0.71, Epochs: []int{3, 4}, Seconds: 2},
		{Name: "em", Seeds: []uint32{1, 2}, Best: []float64{52, 53}, Last: []float64{51, 52}, BestMean: 52.5, BestSD: 0.71, LastMean: 51.5, LastSD: 0.71, Epochs: []int{5, 6}, Seconds: 3,
			Difference: &metric.Comparison{A: 50.5, B: 52.5, Difference: metric.Interval{Value: 2, Low: 1, High: 3}, P: 0.01}},
	}}
	text := func(f string) string {
		var b bytes.Buffer
		require.NoError(t, table.Write(&b, f))
		return b.String()
	}
	require.Contains(t, text("md"), "| em | 52.50 ± 0.71 | 51.50 ± 0.71 | +2.00 | +1.00 … +3.00 | 0.010 | 2 | 3.0 |")
	require.Contains(t, text("latex"), `an\_x & $50.50 \pm 0.71$`)
	require.Equal(t, 3, strings.Count(text("csv"), "\n"))
	var back Table
	require.NoError(t, json.Unmarshal([]byte(text("json")), &back))
	require.Equal(t, *table, back)
	require.Error(t, table.Write(&bytes.Buffer{}, "pdf"))
}

func TestMethodsErrors(t *testing.T) {
	_, err := Methods([]string{"emm"})
	require.ErrorContains(t, err, "emm")
	_, err = Methods([]string{"em:alpha"})
	require.Error(t, err)
	v, err := Methods([]string{"lac", "lac:stages=1,queue_size=-1,temperature=0.1"})
	require.NoError(t, err)
	require.Equal(t, "lac:stages=1,queue_size=-1,temperature=0.1", v[1].Name)
	require.Equal(t, map[string]any{"method": "lac", "stages": int64(1), "queue_size": int64(-1), "params.temperature": 0.1}, v[1].Set)
	_, err = Methods([]string{"lac:stagess=1"})
	require.ErrorContains(t, err, "neither a parameter of lac nor a setting")
	v, err = Methods([]string{"an", "an"})
	require.NoError(t, err)
	_, err = Run(context.Background(), Options{Settings: scenes(t), Variants: v, Seeds: []uint32{1}, Dir: t.TempDir()})
	require.ErrorContains(t, err, "named twice")
	require.Contains(t, AllMethods(false), "em-apl")
	require.NotContains(t, AllMethods(false), "bce")
}

// TestTwoStagesShareTheFirst compares LAC's rows on drawn pictures: the first stage is the plc row's run, nothing that
// is done is done again, and the differences are those of the means although each seed draws other pictures.
func TestTwoStagesShareTheFirst(t *testing.T) {
	v, err := Methods([]string{"an", "plc", "lac:stages=1", "lac:queue_size=-1", "lac", "lac:lr=0.002"})
	require.NoError(t, err)
	dir := t.TempDir()
	o := Options{
		Settings: map[string]any{
			"data": "shapes", "data_options": "train=500,val=80,test=80", "backbone": "small_cnn", "image_size": 16, "head": "decoder", "decoder_dim": 8, "epochs": 1, "batch_size": 250, "lr": 1e-3, "threads": 1,
		}, Variants: v, Seeds: []uint32{7, 8}, Dir: dir, Replicates: 50,
	}
	table, err := Run(context.Background(), o)
	require.NoError(t, err)
	for _, r := range table.Rows[1:] {
		require.InDelta(t, r.BestMean-table.Rows[0].BestMean, r.Difference.Difference.Value, 1e-9, r.Name)
	}
	require.NoDirExists(t, filepath.Join(dir, "lac", "seed-7", "stage1"))
	require.DirExists(t, filepath.Join(dir, "lac:lr=0.002", "seed-7", "stage1"), "another learning rate has a first stage of its own")
	marker := filepath.Join(dir, "lac", "seed-7", "run.yaml")
	before, err := os.Stat(marker)
	require.NoError(t, err)
	again, err := Run(context.Background(), o)
	require.NoError(t, err)
	after, err := os.Stat(marker)
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime())
	require.Equal(t, table.Rows[4].Best, again.Rows[4].Best)
}

// A caller's Note runs on a goroutine of the comparison, where a panic would end the program.
func TestFaultInNoteIsAnError(t *testing.T) {
	v, err := Methods([]string{"an"})
	require.NoError(t, err)
	_, err = Run(context.Background(), Options{Settings: scenes(t), Variants: v, Seeds: []uint32{1}, Dir: t.TempDir(), Replicates: 10, Note: func(string) { panic("a fault in Note") }})
	var fault *train.PanicError
	require.ErrorAs(t, err, &fault)
}

// Two comparisons in one folder would train the same runs.
func TestCompareIsAlone(t *testing.T) {
	v, err := Methods([]string{"an"})
	require.NoError(t, err)
	o := Options{Settings: scenes(t), Variants: v, Seeds: []uint32{1}, Dir: t.TempDir(), Replicates: 10}
	o.Note = func(string) {
		_, err := Run(context.Background(), o)
		var busy *rundir.BusyError
		require.ErrorAs(t, err, &busy)
		require.Equal(t, os.Getpid(), busy.Process)
	}
	_, err = Run(context.Background(), o)
	require.NoError(t, err)
}
