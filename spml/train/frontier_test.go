package train

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/evaluate"
	"github.com/gospml/gospml/spml/model"
)

// TestResumeNewerMethods stops runs with the newer estimators and heads within epochs: they end as runs that were not
// stopped.
func TestResumeNewerMethods(t *testing.T) {
	dir := folder(t, 60)
	var groups strings.Builder
	groups.WriteString("filename,group\n")
	ds, err := data.Open(dir, data.Options{})
	require.NoError(t, err)
	defer ds.Close()
	for i, name := range ds.Images {
		groups.WriteString(name + "," + string(rune('a'+i%7)) + "\n")
	}
	file := filepath.Join(t.TempDir(), "groups.csv")
	require.NoError(t, os.WriteFile(file, []byte(groups.String()), 0o600))
	for name, set := range map[string]func(c *config.Config){
		"ignore": func(c *config.Config) {
			c.Method.Params = map[string]float64{"warmup": 1, "gap_lambda": 0.5, "avg_lambda": 0.5}
		},
		"crisp": func(c *config.Config) {},
		"l48": func(c *config.Config) {
			c.Data.Options = config.DataOptions{Options: data.Options{Groups: file}}
			c.Method.Params = map[string]float64{"group_weight": 0.5, "group_rate": 0.3, "base": 6,
				"delta_rel": 0.05, "group_start": -1}
		},
		"role": func(c *config.Config) { // groups beside a table of its own, which is lazy and then dense
			c.Data.Options = config.DataOptions{Options: data.Options{Groups: file}}
			c.Method.GroupWeight, c.Method.GroupRate, c.Method.Params = 0.5, 0.3, map[string]float64{"table": 2}
		},
		"ll-ct": func(c *config.Config) {
			c.Data.Options = config.DataOptions{Options: data.Options{Groups: file}}
			c.Method.ID, c.Method.GroupWeight, c.Method.GroupRate, c.Method.Form = "ll-cp", 0.5, 0.3, "paper"
		},
		"en-scl": func(c *config.Config) {
			c.Data.Options = config.DataOptions{Options: data.Options{Groups: file}}
			c.Method.GroupWeight, c.Method.GroupRate, c.Method.Form = 0.5, 0.3, "code"
		},
		"boostlu": func(c *config.Config) {
			c.Method.ID, c.Model.Head, c.Method.Params = "ll-cp", config.HeadBoostLU, map[string]float64{"semantics": 3}
		},
		"smile": func(c *config.Config) {
			c.Model.Head, c.Model.DecoderDim, c.Method.LatentDim = config.HeadDecoder, 16, 4
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := small(dir, name)
			c.Schedule.Epochs, c.Optim.BatchSize, c.Run.Threads = 3, 12, 1
			set(&c)
			c.Run.Dir = filepath.Join(t.TempDir(), "whole")
			want, err := Run(context.Background(), c, RunOptions{})
			require.NoError(t, err)
			sum, at := newestSum(t, c.Run.Dir)
			again, err := evaluate.Run(context.Background(), c.Run.Dir, evaluate.Options{Part: data.Test}, Events{})
			require.NoError(t, err)
			require.InDelta(t, want.Best.TestMAP, again.MAP, 1e-6, "the saved model scores as the best epoch did")
			tagger, err := model.OpenTagger(c.Run.Dir, model.TaggerOptions{})
			require.NoError(t, err)
			require.NoError(t, tagger.Close())
			c.Run.Dir = filepath.Join(t.TempDir(), "stopped")
			interrupted(t, c, 4, 8)
			got, now := newestSum(t, c.Run.Dir)
			require.Equal(t, untimed(at), untimed(now))
			require.Equal(t, sum, got)
		})
	}
}

// TestGroupsOnShapes: a run on drawn pictures whose groups have a weight ends elsewhere than one without, and near it.
func TestGroupsOnShapes(t *testing.T) {
	var b strings.Builder
	b.WriteString("filename,group\n")
	for i := range 40 {
		fmt.Fprintf(&b, "train/%d,%d\n", i, i/4)
	}
	file := filepath.Join(t.TempDir(), "groups.csv")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	scores := map[float64]float64{}
	for _, weight := range []float64{0, 2} {
		c := config.Config{Data: config.Data{Path: config.Shapes, ImageSize: 32, Options: config.DataOptions{
			Options: data.Options{Groups: file}, Train: 40, Val: 20, Test: 20}},
			Method: config.Method{ID: "em", GroupWeight: weight}}
		c.Schedule.Epochs, c.Run.Threads, c.Run.Dir = 2, 1, filepath.Join(t.TempDir(), "run")
		r, err := Run(context.Background(), c, RunOptions{})
		require.NoError(t, err)
		scores[weight] = r.Best.Loss
	}
	require.NotEqual(t, scores[0], scores[2])
	c := config.Config{Data: config.Data{Path: config.Shapes, Options: config.DataOptions{
		Options: data.Options{Groups: file, Images: "x"}}}, Method: config.Method{ID: "em"}}
	_, err := c.Resolve()
	require.ErrorContains(t, err, "images=x")
}

// What newer methods and heads cannot have is said.
func TestNewerMethodErrors(t *testing.T) {
	for want, set := range map[string]func(c *config.Config){
		"masks photos by the network's class maps": func(c *config.Config) {
			c.Method.ID, c.Model.Mode, c.Model.Features,
				c.Model.StrongFeatures = "ignore", config.Frozen, config.Paths{"f.npy"}, config.Paths{"f.npy"}
		},
		"ignore has a head of its own": func(c *config.Config) { c.Method.ID, c.Model.Head = "ignore", config.HeadBoostLU },
		"--head boostlu needs the feature maps": func(c *config.Config) {
			c.Model.Head, c.Model.Mode, c.Model.Features = config.HeadBoostLU, config.Frozen,
				config.Paths{"f.npy"}
		},
		"boost is the factor of --head boostlu": func(c *config.Config) { c.Model.Boost = 5 },
		"l48 has parameters for groups: --param group_weight=0.5": func(c *config.Config) {
			c.Method.ID, c.Method.GroupWeight = "l48", 0.5
		},
		"group_rate is the rate of the groups' scores; give group_weight too": func(c *config.Config) {
			c.Method.GroupRate = 0.5
		},
		"group_weight is -1, want 0 to": func(c *config.Config) { c.Method.GroupWeight = -1 },
		"with --backbone clip take linear": func(c *config.Config) {
			c.Model.Head, c.Model.Backbone, c.Model.Weights = config.HeadBoostLU,
				config.BackboneClip, "clip"
		},
		"mime has a head of its own, so it does not": func(c *config.Config) {
			c.Method.ID, c.Model.Head = "mime", config.HeadMLDecoder
		},
		"en-scl has a head of its own": func(c *config.Config) {
			c.Method.ID, c.Model.Head = "en-scl", config.HeadBoostLU
		},
	} {
		c := config.Config{Data: config.Data{Path: "photos"}, Method: config.Method{ID: "an"}}
		set(&c)
		_, err := c.Resolve()
		require.ErrorContains(t, err, want)
	}
	c := small(folder(t, 10), "l48")
	c.Method.Params = map[string]float64{"group_weight": 1}
	_, err := Run(context.Background(), c, RunOptions{})
	require.ErrorContains(t, err, "--data-options groups=FILE.csv")
	c = small(folder(t, 10), "em")
	c.Method.GroupWeight = 1
	_, err = Run(context.Background(), c, RunOptions{})
	require.ErrorContains(t, err, "--data-options groups=FILE.csv")
	c = small(folder(t, 10), "ignore")
	c.Model.Backbone = "convnext_tiny"
	_, err = Run(context.Background(), c, RunOptions{})
	require.ErrorContains(t, err, "score maps whose mean is the score")
}

// Where negatives of the validation rows are known, only what is known is scored.
func TestShown(t *testing.T) {
	ds := &data.Dataset{Classes: []string{"a", "b"}, Images: []string{"x", "y", "z"}, Observed: []int8{1, 0, 0, -1, 0, 1}}
	require.Equal(t, []int8{1, -1, -1, 0, -1, 1}, shown(ds, []int{1}))
	require.Equal(t, []int8{1, 0, 0, 0, 0, 1}, shown(ds, []int{0, 2}))
	s := Scores{Rows: []int{0, 1, 2}, Values: []float32{0.9, 0.1, 0.95, 0.8, 0.5, 0.6}}
	ap, err := s.PerClass(ds, shown(ds, []int{1}))
	require.NoError(t, err)
	require.Equal(t, []float64{1, 0.5}, ap, "the unknown score of 0.95 does not count")
}
