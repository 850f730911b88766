package compare

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/shapes/shapestest"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/train"
)

// TestTune: the settings that are chosen are those with the highest validation mAP of runs that know nothing of tuning,
// no test score exists before every choice is made, and the row is what a comparison of the chosen settings gives.
func TestTune(t *testing.T) {
	v, err := Methods([]string{"an", "em"})
	require.NoError(t, err)
	dir := t.TempDir()
	slow := func() map[string]any { // a rate that tuning can better
		m := scenes(t)
		m["lr"], m["epochs"] = 1e-4, 2
		return m
	}
	var notes []string
	o := Options{Settings: slow(), Variants: v, Seeds: []uint32{1200, 1}, Dir: dir, Replicates: 20,
		Note: func(s string) { notes = append(notes, s) }}
	alphas, rates := []float64{0.2, 0.01, 0.9}, []float64{1e-5, 1e-3}
	g := Tuning{Seeds: []uint32{101, 102}, Grids: []Grid{{Source: "none"}, {Source: "a test", Stages: [][]map[string]any{
		{{"params.alpha": alphas[0]}, {"params.alpha": alphas[1]}, {"params.alpha": alphas[2]}}, {{"lr": rates[0]},
			{"lr": rates[1]}},
	}}}}

	ctx, cancel := context.WithCancelCause(context.Background())
	o.Watch = func(_ string, seed uint32) (train.Events, func()) {
		if seed == 1200 || seed == 1 {
			cancel(context.Canceled)
		}
		return train.Events{}, func() {}
	}
	_, err = Tune(ctx, o, g)
	var stopped *StoppedError
	require.ErrorAs(t, err, &stopped)
	require.Equal(t, "budget: up to 7 settings × 2 seeds = 14 runs on validation, then 2 rows × 2 seeds = 4 runs "+
		"on test", notes[0])
	seen := 0
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "tuning"), func(path string, d fs.DirEntry, err error) error {
		require.NotContains(t, d.Name(), "test", path)
		switch d.Name() {
		case "metrics.csv":
			seen++
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			lines, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
			require.NoError(t, err)
			require.Equal(t, "test_map", lines[0][3])
			require.Empty(t, lines[1][3], path)
		case "result.json":
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NotContains(t, strings.ReplaceAll(string(b), `"test_map": 0,`, ""), `"test_map": `, path)
		}
		return err
	}))
	require.Equal(t, 12, seen, "an, em by three weights (its own among them), then by two rates, two seeds each")

	o.Watch = nil
	table, err := Tune(context.Background(), o, g)
	require.NoError(t, err)

	// The choice, by runs of their own.
	val := func(alpha, lr float64) float64 {
		sum := 0.0
		for _, seed := range g.Seeds {
			m := slow()
			m["method"], m["seed"], m["params"], m["lr"] = "em", int64(seed), map[string]any{"alpha": alpha}, lr
			c, err := config.FromSettings(m)
			require.NoError(t, err)
			r, err := train.Run(context.Background(), c, train.RunOptions{})
			require.NoError(t, err)
			sum += r.Best.ValMAP
		}
		return sum / 2
	}
	alpha, lr, top := 0.2, 1e-4, val(0.2, 1e-4)
	own := top
	for _, a := range alphas[1:] {
		if x := val(a, lr); x > top {
			alpha, top = a, x
		}
	}
	for _, r := range rates {
		if x := val(alpha, r); x > top {
			lr, top = r, x
		}
	}
	want := map[string]any{}
	if alpha != 0.2 {
		want["params.alpha"] = alpha
	}
	if lr != 1e-4 {
		want["lr"] = lr
	}
	require.NotEmpty(t, want, "this test wants a grid that changes something")
	s := table.Rows[1].Selection
	require.Equal(t, want, s.Chosen)
	require.InDelta(t, top, s.ValMean, 1e-9)
	require.InDelta(t, own, s.OwnVal, 1e-9)
	require.Equal(t, 5, s.Tried)
	require.Empty(t, table.Rows[0].Selection.Chosen)
	require.Equal(t, &Budget{Seeds: g.Seeds, Settings: 6, Runs: 12, Seconds: table.Budget.Seconds, TestRuns: 4,
		TestSeconds: table.Budget.TestSeconds}, table.Budget)
	require.Regexp(t, `^spent: 6 settings, 12 runs \(\S+ of training\) on validation; 4 runs \(\S+\) on test$`,
		notes[len(notes)-1])

	// The row, by a comparison that is told the settings.
	em := Variant{Name: "em", Set: over(v[1].Set, want)}
	told, err := Run(context.Background(), Options{Settings: slow(), Variants: []Variant{v[0], em}, Seeds: o.Seeds,
		Dir: t.TempDir(), Replicates: 20})
	require.NoError(t, err)
	require.Equal(t, told.Rows[1].Best, table.Rows[1].Best)
	require.Equal(t, told.Rows[1].Difference, table.Rows[1].Difference)

	// What is known is not searched again; the same command gives the same table.
	again, err := Tune(context.Background(), o, g)
	require.NoError(t, err)
	require.Equal(t, table, again)
	g.Grids[1].Stages[0][1]["params.alpha"] = 0.05
	_, err = Tune(context.Background(), o, g)
	require.ErrorContains(t, err, "em was tuned with another grid or other seeds, and its test scores are known since")
	g.Seeds[1] = 1
	_, err = Tune(context.Background(), o, g)
	require.ErrorContains(t, err, "seed 1 is to choose settings and to test them")

	text := func(f string) string {
		var b bytes.Buffer
		require.NoError(t, table.Write(&b, f))
		return b.String()
	}
	require.Contains(t, text("md"), "| em | "+settingsText(want)+" | ")
	require.Contains(t, text("md"), "mean over seeds 101 102, which no row above has")
	require.Contains(t, text("latex"), "6 settings, 12 runs")
	lines, err := csv.NewReader(strings.NewReader(text("csv"))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"chosen", "tried"}, lines[0][19:21])
	require.Equal(t, []string{settingsText(want), "5"}, lines[2][19:21])
	var back Table
	require.NoError(t, json.Unmarshal([]byte(text("json")), &back))
	require.Equal(t, *table, back)
}

// TestTuneLeavesOut: a setting that cannot be trained is no candidate, a method without any is left out, and a data set
// that nothing can be chosen on is said before anything is trained.
func TestTuneLeavesOut(t *testing.T) {
	v, err := Methods([]string{"an", "em-apl"})
	require.NoError(t, err)
	o := Options{Settings: scenes(t), Variants: v, Seeds: []uint32{1}, Dir: t.TempDir(), Replicates: 5}
	g := Tuning{Seeds: []uint32{101}, Grids: []Grid{{}, {Stages: [][]map[string]any{{{"params.warmup": 2},
		{"params.warmup": 4}}}}}}
	table, err := Tune(context.Background(), o, g) // 3 epochs; 5 are em-apl's own
	require.NoError(t, err)
	require.Equal(t, map[string]any{"params.warmup": 2}, table.Rows[1].Selection.Chosen)
	require.Equal(t, 1, table.Rows[1].Selection.Tried)

	o.Dir, g.Grids[1].Stages = t.TempDir(), nil
	table, err = Tune(context.Background(), o, g)
	require.NoError(t, err)
	require.Len(t, table.Rows, 2)
	require.Contains(t, table.Rows[1].LeftOut, "makes its labels after 5 epochs")
	b, err := json.Marshal(table.Rows[1])
	require.NoError(t, err)
	require.NotContains(t, string(b), "mean", "a row without numbers has no 0 in their place")

	photos := shapestest.Folder(t)
	split, err := os.ReadFile(filepath.Join(photos, "split.csv"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(photos, "split.csv"), bytes.ReplaceAll(split, []byte(",val"),
		[]byte(",train")), 0o644))
	o.Settings = map[string]any{"data": photos, "data_options": "no-validation=true", "image_size": 16, "epochs": 1,
		"backbone": "small_cnn"}
	o.Dir, o.Variants, g.Grids = t.TempDir(), v[:1], g.Grids[:1]
	_, err = Tune(context.Background(), o, g)
	require.ErrorContains(t, err, "no validation rows")
}

func TestNumbersFromElsewhere(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	var all [][]Number
	for name, text := range map[string]string{
		"n.csv": "Method,metric,mean,interval,source\nEM,mAP,89.09,88.9 .. 89.3,\"Zhou et al., Table " +
			"1\"\nan-ls,val_map,80,± 0.5,ours in Python\nours-2,F1,61.5,,a blog\n",
		"n.json": `[{"method":"EM","mean":89.09,"interval":[88.9,89.3],"source":"Zhou et al., Table 1"},
			{"method":"an-ls","metric":"val mAP","mean":80,"interval":"+-0.5","source":"ours in Python"},
			{"method":"ours-2","metric":"F1","mean":61.5,"source":"a blog"}]`,
		"n.yml": "- {method: EM, metric: test mAP, mean: 89.09, interval: 88.9 … 89.3, source: 'Zhou et al., Table " +
			"1'}\n- method: an-ls\n  metric: validation mAP\n  mean: 80\n  interval: 79.5 to 80.5\n  source: ours in " +
			"Python\n- {method: ours-2, metric: F1, mean: 61.5, interval: null, source: a blog}\n",
	} {
		n, err := ReadNumbers(write(name, text))
		require.NoError(t, err, name)
		all = append(all, n)
	}
	require.Equal(t, all[0], all[1])
	require.Equal(t, all[0], all[2])
	require.InDelta(t, 79.5, *all[0][1].Low, 1e-12)

	table := &Table{Data: "birds", Test: 9, Classes: 3, Rows: []Row{
		{Name: "an-ls", Seeds: []uint32{1, 2}, Best: []float64{50, 51}, BestMean: 50.5, BestSD: 0.71, Val: []float64{60,
			62}, ValMean: 61, ValSD: 1.4, Settings: map[string]any{"method": "an-ls"}},
		{Name: "em:alpha=0.1", Seeds: []uint32{1, 2}, Best: []float64{90, 91}, BestMean: 90.5, BestSD: 0.71,
			Settings: map[string]any{"method": "em"}},
	}}
	table.Lay(all[0])
	require.InDelta(t, 1.41, *table.Beside[0].Difference, 1e-9)
	require.InDelta(t, -19, *table.Beside[1].Difference, 1e-9)
	require.Nil(t, table.Beside[2].Ours)
	var b bytes.Buffer
	require.NoError(t, table.Write(&b, "md"))
	require.Contains(t, b.String(), "| EM | test mAP | 90.50 ± 0.71 | 89.09 | 88.90 … 89.30 | +1.41 | Zhou et "+
		"al., Table 1 |")
	require.Contains(t, b.String(), "| ours-2 | F1 | – | 61.50 |  |  | a blog |")
	b.Reset()
	require.NoError(t, table.Write(&b, "csv"))
	lines, err := csv.NewReader(&b).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"test mAP", "89.0900", "88.9000", "89.3000", "Zhou et al., Table 1"}, lines[3][19:])

	for name, c := range map[string]struct{ text, want string }{
		"a.csv": {"method,mean,source\nem,x,here\n", `a.csv: line 2: mean: "x" is no number`},
		"b.csv": {"method,mean\nem,80\n", "b.csv: line 2: source is missing"},
		"c.csv": {"method,mean,source,sd\nem,80,here,1\n",
			`c.csv: line 2: "sd" is none of method, metric, mean, interval, source`},
		"d.csv": {"method,mean,source\nem,0.8,here\nan,0.7,here\n", "write 89.1 for 0.891"},
		"e.yaml": {"- {method: em, mean: 80, interval: 81 .. 82, source: here}\n",
			"e.yaml: line 1: interval \"81 .. 82\" does not hold the mean 80"},
		"f.yaml": {"method: em\n", "f.yaml: "},
		"g.json": {"[]", "no numbers"},
		"h.txt":  {"", "ends in .csv"},
		"i.csv":  {"method,mean,source\nem,80\n", "wrong number of fields"},
		"j.yaml": {"- {method: em, mean: 180, source: here}\n", "want percent"},
		"k.yaml": {"- {method: em, mean: [1], source: here}\n", "line 1: mean is no pair"},
	} {
		_, err := ReadNumbers(write(name, c.text))
		require.ErrorContains(t, err, c.want, name)
		require.ErrorIs(t, err, train.ErrData)
	}
	_, err = ReadNumbers(filepath.Join(dir, "none.csv"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestValidationFirst: the points of a sweep are shown by validation, and the highest is marked.
func TestValidationFirst(t *testing.T) {
	table := &Table{Data: "birds", ValFirst: true, Rows: []Row{
		{Name: "a", Seeds: []uint32{1}, Best: []float64{70}, BestMean: 70, LastMean: 69, Val: []float64{60}, ValMean: 60},
		{Name: "b", Seeds: []uint32{1}, Best: []float64{65}, BestMean: 65, LastMean: 64, Val: []float64{61}, ValMean: 61},
	}}
	var b bytes.Buffer
	require.NoError(t, table.Write(&b, "md"))
	require.Contains(t, b.String(), "| method | val mAP | best epoch |")
	require.Contains(t, b.String(), "| a | 60.00 | 70.00 |")
	require.Contains(t, b.String(), "| b | **61.00** | 65.00 |")
	require.Contains(t, b.String(), "Highest validation mAP: b.")
}
