package train

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
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
	for name, set := range map[string]func(c *Config){
		"ignore": func(c *Config) { c.Params = map[string]float64{"warmup": 1, "gap_lambda": 0.5, "avg_lambda": 0.5} },
		"crisp":  func(c *Config) {},
		"l48": func(c *Config) {
			c.DataOptions, c.Params = "groups="+file, map[string]float64{"group_weight": 0.5, "group_rate": 0.3, "base": 6,
				"delta_rel": 0.05, "group_start": -1}
		},
		"boostlu": func(c *Config) { c.Method, c.Head, c.Params = "ll-cp", HeadBoostLU, map[string]float64{"semantics": 3} },
		"smile":   func(c *Config) { c.Head, c.DecoderDim, c.LatentDim = HeadDecoder, 16, 4 },
	} {
		t.Run(name, func(t *testing.T) {
			c := small(dir, name)
			c.Epochs, c.BatchSize, c.Threads = 3, 12, 1
			set(&c)
			c.Run = filepath.Join(t.TempDir(), "whole")
			want, err := Run(context.Background(), c, Events{})
			require.NoError(t, err)
			sum, at := newestSum(t, c.Run)
			again, err := EvaluateOn(context.Background(), c.Run, EvalOptions{Part: data.Test}, Events{})
			require.NoError(t, err)
			require.InDelta(t, want.Best.TestMAP, again.MAP, 1e-6, "the saved model scores as the best epoch did")
			tagger, err := model.OpenTagger(c.Run, model.TaggerOptions{})
			require.NoError(t, err)
			require.NoError(t, tagger.Close())
			c.Run = filepath.Join(t.TempDir(), "stopped")
			interrupted(t, c, 4, 8)
			got, now := newestSum(t, c.Run)
			require.Equal(t, untimed(at), untimed(now))
			require.Equal(t, sum, got)
		})
	}
}

// What newer methods and heads cannot have is said.
func TestNewerMethodErrors(t *testing.T) {
	for want, set := range map[string]func(c *Config){
		"masks photos by the network's class maps": func(c *Config) {
			c.Method, c.Mode, c.Features,
				c.StrongFeatures = "ignore", Frozen, "f.npy", "f.npy"
		},
		"ignore has a head of its own": func(c *Config) { c.Method, c.Head = "ignore", HeadBoostLU },
		"--head boostlu needs the feature maps": func(c *Config) {
			c.Head, c.Mode, c.Features = HeadBoostLU, Frozen,
				"f.npy"
		},
		"boost is the factor of --head boostlu": func(c *Config) { c.Boost = 5 },
		"with --backbone clip take linear": func(c *Config) {
			c.Head, c.Backbone, c.Weights = HeadBoostLU,
				BackboneClip, "clip"
		},
		"mime has a head of its own, so it does not": func(c *Config) { c.Method, c.Head = "mime", HeadMLDecoder },
		"en-scl has a head of its own":               func(c *Config) { c.Method, c.Head = "en-scl", HeadBoostLU },
	} {
		c := Config{Data: "photos", Method: "an"}
		set(&c)
		_, err := c.Resolve()
		require.ErrorContains(t, err, want)
	}
	c := small(folder(t, 10), "l48")
	c.Params = map[string]float64{"group_weight": 1}
	_, err := Run(context.Background(), c, Events{})
	require.ErrorContains(t, err, "--data-options groups=FILE.csv")
	c = small(folder(t, 10), "ignore")
	c.Backbone = "convnext_tiny"
	_, err = Run(context.Background(), c, Events{})
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
