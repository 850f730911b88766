package recipe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
)

// TestRecipes compares recipes with the papers' table of optimisers, batches, epochs and stop rules.
func TestRecipes(t *testing.T) {
	for name, want := range map[string]map[string]any{
		"cole-voc-resnet50":        {"optimizer": "adam", "batch_size": 8, "epochs": 10, "method": "bce"},
		"cole-linear-cub-resnet50": {"mode": "frozen", "epochs": 25, "batch_size": 8, "lr": 1e-3},
		"em-cub-resnet50":          {"lr": 1e-4, "head_lr": 1e-4, "batch_size": 8, "patience": 1, "epochs": 10},
		"em-coco-resnet50":         {"lr": 1e-5, "batch_size": 16},
		"ll-nus-resnet50":          {"lr": 1e-5, "head_lr": 1e-4, "batch_size": 16, "max_drop": 3, "epochs": 10},
		"gr-cub-resnet50":          {"lr": 5e-5, "head_lr": 5e-4, "batch_size": 8, "epochs": 10, "max_drop": 2},
		"gr-voc-resnet50":          {"epochs": 8, "batch_size": 8},
		"vlpl-cub-resnet50":        {"lr": 1e-5, "batch_size": 8},
		"vlpl-cub-resnet50-code":   {"lr": 1e-4, "form": "code"},
		"aevlp-coco-resnet50":      {"max_drop": 2, "patience": 2, "batch_size": 16, "epochs": 8},
		"mime-nus-resnet50":        {"optimizer": "adamax", "lr": 1e-4, "head_lr": 1e-3, "batch_size": 16},
		"lac-coco-resnet50":        {"optimizer": "adamw", "weight_decay": 1e-2, "schedule": "onecycle", "lr": 1e-4, "patience": 8, "ema": 0.9997, "epochs": 40},
	} {
		r, err := Get(name)
		require.NoError(t, err)
		for k, v := range want {
			require.EqualValues(t, v, r.Values[k].Value, "%s %s", name, k)
		}
	}
	_, err := Get("em-voc")
	require.ErrorContains(t, err, "em-voc-resnet50")
}

// TestOptimisationTable resolves the recipe of every row and data set of the table of optimisation recipes of our notes
// on the papers and their code to the run that it starts.
func TestOptimisationTable(t *testing.T) {
	type perSet [4]float64 // voc, coco, nus, cub
	all := func(x float64) perSet { return perSet{x, x, x, x} }
	for id, row := range map[string]struct {
		optimizer, schedule        string
		lr, head, batch, epochs    perSet
		patience, drop, decay, ema float64
	}{
		"cole":        {optimizer: "adam", schedule: "constant", lr: all(1e-5), head: all(1e-5), batch: perSet{8, 16, 16, 8}, epochs: all(10)},
		"cole-linear": {optimizer: "adam", schedule: "constant", lr: all(1e-3), head: all(1e-3), batch: perSet{16, 16, 16, 8}, epochs: all(25)},
		"em":          {optimizer: "adam", schedule: "constant", lr: perSet{1e-5, 1e-5, 1e-5, 1e-4}, head: perSet{1e-5, 1e-5, 1e-5, 1e-4}, batch: perSet{8, 16, 16, 8}, epochs: all(10), patience: 1},
		"ll":          {optimizer: "adam", schedule: "constant", lr: all(1e-5), head: all(1e-4), batch: all(16), epochs: all(10), drop: 3},
		"gr":          {optimizer: "adam", schedule: "constant", lr: perSet{1e-5, 1e-5, 1e-5, 5e-5}, head: perSet{1e-4, 1e-4, 1e-4, 5e-4}, batch: perSet{8, 16, 16, 8}, epochs: perSet{8, 8, 10, 10}, drop: 2},
		"vlpl":        {optimizer: "adam", schedule: "constant", lr: all(1e-5), head: all(1e-5), batch: all(8), epochs: all(10)},
		"aevlp":       {optimizer: "adam", schedule: "constant", lr: all(1e-5), head: all(1e-4), batch: perSet{8, 16, 16, 8}, epochs: perSet{8, 8, 10, 10}, drop: 2, patience: 2},
		"mime":        {optimizer: "adamax", schedule: "constant", lr: all(1e-4), head: all(1e-3), batch: perSet{32, 32, 16, 16}, epochs: all(10)},
		"lac":         {optimizer: "adamw", schedule: "onecycle", lr: all(1e-4), head: all(1e-4), batch: all(32), epochs: all(40), patience: 8, decay: 1e-2, ema: 0.9997},
	} {
		for i, set := range dataSets {
			r, err := Get(id + "-" + set + "-resnet50")
			require.NoError(t, err)
			s := r.Settings()
			s["data"], s["weights"] = "photos", "w.safetensors"
			if id == "vlpl" || id == "aevlp" {
				s["pseudo_labels"] = "p.npy"
			}
			c, err := config.FromSettings(s)
			require.NoError(t, err)
			c, err = c.Resolve()
			require.NoError(t, err, r.Name)
			require.Equal(t, row.optimizer, c.Optim.Name, r.Name)
			require.Equal(t, row.schedule, c.Schedule.Name, r.Name)
			require.Equal(
				t,
				[]float64{row.lr[i], row.head[i], row.batch[i], row.epochs[i]},
				[]float64{c.Optim.LR, c.Optim.HeadLR, float64(c.Optim.BatchSize), float64(c.Schedule.Epochs)},
				r.Name,
			)
			require.Equal(
				t,
				[]float64{row.patience, row.drop, row.decay, row.ema},
				[]float64{float64(c.Schedule.Patience), c.Schedule.MaxDrop, c.Optim.WeightDecay, c.Optim.EMA},
				r.Name,
			)
			require.Equal(t, 448, c.Data.ImageSize, r.Name)
			require.Equal(t, id != "cole-linear", *c.Data.Flip, r.Name)
		}
	}
	code, err := Get("vlpl-cub-resnet50-code")
	require.NoError(t, err)
	require.EqualValues(t, 1e-4, code.Values["lr"].Value)
	grid, err := GetSweep("cole-grid")
	require.NoError(t, err)
	points, err := grid.Points()
	require.NoError(t, err)
	seen := map[[2]string]bool{}
	for _, p := range points {
		seen[[2]string{fmt.Sprint(p["lr"]), fmt.Sprint(p["batch_size"])}] = true
	}
	for _, lr := range []float64{1e-2, 1e-3, 1e-4, 1e-5} {
		for _, batch := range []int{8, 16} {
			require.True(t, seen[[2]string{fmt.Sprint(lr), fmt.Sprint(batch)}], "%v %d in %v", lr, batch, seen)
		}
	}
}

// TestEveryRecipeIsWhole: every value has a source, the settings are a configuration that resolves for every method,
// and no two recipes share a name.
func TestEveryRecipeIsWhole(t *testing.T) {
	all, err := List()
	require.NoError(t, err)
	require.Greater(t, len(all), 50)
	seen := map[string]bool{}
	for _, r := range all {
		require.False(t, seen[r.Name], r.Name)
		seen[r.Name] = true
		require.NotEmpty(t, r.Paper)
		require.Len(t, r.Keys(), len(r.Values))
		for k, v := range r.Values {
			require.NotEmpty(t, v.Source, "%s %s", r.Name, k)
		}
		for _, m := range r.Methods {
			found, err := method.Lookup(m)
			require.NoError(t, err)
			e := found.Loss
			s := r.Settings()
			s["method"], s["data"] = m, "photos"
			if s["clip"] == nil { // whose towers are the model
				s["weights"] = "w.safetensors"
			}
			if e.Needs&loss.PseudoLabels != 0 {
				s["pseudo_labels"] = "p.npy"
			}
			if method.Of(e).Lacks() != "" || e.Needs&loss.StrongView != 0 {
				continue
			}
			c, err := config.FromSettings(s)
			require.NoError(t, err, r.Name)
			_, err = c.Resolve()
			require.NoError(t, err, "%s with %s", r.Name, m)
		}
	}
}

func TestDiff(t *testing.T) {
	a, err := Get("gr-voc-resnet50")
	require.NoError(t, err)
	b, err := Get("gr-cub-resnet50")
	require.NoError(t, err)
	d := Diff(a, b)
	var keys []string
	for _, x := range d {
		keys = append(keys, x.Key)
	}
	require.Equal(t, []string{"data_set", "epochs", "lr", "head_lr"}, keys)
	require.Empty(t, Diff(a, a))
}

func TestSweeps(t *testing.T) {
	all, err := Sweeps()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	s, err := GetSweep("cole-grid")
	require.NoError(t, err)
	p, err := s.Points()
	require.NoError(t, err)
	require.Len(t, p, 8)
	for _, x := range p {
		require.Equal(t, x["lr"], x["head_lr"])
	}
	for _, s := range all { // every point of every sweep is a run that can begin
		points, err := s.Points()
		require.NoError(t, err, s.Name)
		for i, p := range points {
			set := map[string]any{"data": "shapes", "method": s.Method}
			if s.Method == "" {
				set["method"] = "an"
			}
			params := map[string]any{}
			for k, x := range p {
				if name, ok := strings.CutPrefix(k, "params."); ok {
					params[name] = x
				} else {
					set[k] = x
				}
			}
			set["params"] = params
			if strings.HasPrefix(s.Name, "vlpl") || strings.HasPrefix(s.Name, "aevlp") {
				set["clip"] = "model"
			}
			c, err := config.FromSettings(set)
			require.NoError(t, err, "%s, point %d", s.Name, i)
			_, err = c.Resolve()
			require.NoError(t, err, "%s, point %d", s.Name, i)
		}
	}
	named, err := GetSweep("gr-components")
	require.NoError(t, err)
	require.Equal(t, []string{"all", "an", "k", "k+l", "k+v", "l", "learned", "v", "v+l"}, named.Names())
	_, err = GetSweep("cole")
	require.ErrorContains(t, err, "cole-grid")
	_, err = (&Sweep{Grid: map[string][]any{"learn": {1}}}).Points()
	require.Error(t, err)
}
