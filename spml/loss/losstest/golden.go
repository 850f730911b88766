package losstest

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// Golden compares the loss of that name with reference numbers from elsewhere, in float64 (1e-9) and float32 (1e-6 + 2e-5·|v|).
// The file is JSON:
//
//	{"cases": [{"id": "…", "hyperparameters": {…}, "inputs": {…}, "expected": {"loss": …, "grad_logits": [[…]]}}]}
//
// Hyper-parameters are the loss's parameters by name, and eps, reduction and epoch. Inputs are matrices: logits, obs, full, pl, labels,
// estimator_logits, strong_logits, neg_mask. The gradient of an input is expected as grad_ and its name.
func Golden(t *testing.T, name, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var f struct{ Cases []goldenCase }
	require.NoError(t, json.Unmarshal(b, &f), file)
	require.NotEmpty(t, f.Cases, "%s has no cases", file)
	e, err := loss.Lookup(name)
	require.NoError(t, err)
	for _, c := range f.Cases {
		t.Run(c.ID, func(t *testing.T) {
			c.run(t, e, torch.Float64, 1e-9, 1e-9)
			c.run(t, e, torch.Float32, 1e-6, 2e-5)
		})
	}
}

type goldenCase struct {
	ID              string
	HyperParameters map[string]any
	Inputs          map[string][][]float64
	Expected        map[string]any
}

func (c *goldenCase) run(t *testing.T, e *loss.Entry, dtype torch.DType, abs, rel float64) {
	set, o, b := loss.Values{}, loss.Options{}, loss.Batch{}
	for k, v := range c.HyperParameters {
		x, number := v.(float64)
		switch k {
		case "eps":
			o.LogEps = x
		case "reduction":
			s, _ := v.(string)
			o.Reduction = loss.Reduction(s)
		case "epoch":
			b.Epoch = int(x)
		default:
			p, err := e.Param(k)
			require.NoError(t, err)
			if s, ok := v.(string); ok {
				x, err = p.Parse(s)
				require.NoError(t, err)
				number = true
			}
			set[k] = x
		}
		require.True(t, number || k == "reduction", "hyper-parameter %s is %v", k, v)
	}
	to := map[string]**torch.Tensor{
		"logits": &b.Logits, "obs": &b.Observed, "full": &b.Full, "pl": &b.Pseudo, "labels": &b.Labels,
		"estimator_logits": &b.Estimate, "strong_logits": &b.Strong, "neg_mask": &b.Negative,
	}
	leaves := map[string]*torch.Tensor{}
	for k, rows := range c.Inputs {
		field, ok := to[k]
		require.True(t, ok, "input %s is none of the known ones", k)
		require.NotEmpty(t, rows, k)
		x := torch.FromSlice(slices.Concat(rows...), len(rows), len(rows[0])).ToDType(dtype)
		if slices.Contains([]string{"logits", "estimator_logits", "strong_logits"}, k) {
			x.SetRequiresGrad(true)
			leaves["grad_"+k] = x
		}
		*field = x
	}
	l, err := e.Make("", set, o)
	require.NoError(t, err)
	v, err := l.Value(b)
	require.NoError(t, err)
	v.Backward()
	near := func(what string, want, got float64) {
		require.LessOrEqual(t, math.Abs(want-got), abs+rel*math.Abs(want), "%s in %v: want %v, got %v", what, dtype, want, got)
	}
	require.Contains(t, c.Expected, "loss")
	for k, want := range c.Expected {
		if k == "loss" {
			x, ok := want.(float64)
			require.True(t, ok, "the expected loss is %v", want)
			near(k, x, v.Item())
			continue
		}
		x, ok := leaves[k]
		require.True(t, ok, "nothing is called %s", k)
		var rows [][]float64
		raw, err := json.Marshal(want)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, &rows), k)
		got := torch.ToSlice[float64](x.Grad().ToDType(torch.Float64).Contiguous())
		flat := slices.Concat(rows...)
		require.Len(t, got, len(flat), k)
		for i := range flat {
			near(k, flat[i], got[i])
		}
	}
}
