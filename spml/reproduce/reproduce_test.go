package reproduce

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/config"
)

// TestItems checks what the map names: methods, their parameters, recipes of every column, settings.
func TestItems(t *testing.T) {
	items, err := Items()
	require.NoError(t, err)
	seen := map[string]bool{}
	papers := map[string]bool{}
	for _, it := range items {
		require.Regexp(t, `^(vlpl|gr|em|lac|aevlp):[a-zA-Z0-9-]+$`, it.ID)
		require.False(t, seen[it.ID], it.ID)
		seen[it.ID], papers[it.ID[:2]] = true, true
		require.True(t, len(it.Rows) > 0 || len(it.Command) > 0, it.ID)
		require.Equal(t, len(it.Command) > 0, it.Writes != "", it.ID)
		for _, id := range it.Also {
			require.False(t, seen[id], id)
			seen[id] = true
			same, err := Get(id)
			require.NoError(t, err)
			require.Equal(t, it.ID, same.ID)
		}
		if len(it.Rows) == 0 {
			continue
		}
		for _, d := range DataSets {
			r, err := it.RecipeFor(d)
			require.NoError(t, err, it.ID)
			m := r.Settings()
			for k, v := range it.Settings {
				require.NoError(t, config.CheckKey(k))
				m[k] = v
			}
			m["data"], m["weights"] = "somewhere", "some.safetensors"
			_, err = config.FromSettings(m)
			require.NoError(t, err, it.ID)
		}
		columns := append([]string{""}, DataSets...)
		for _, column := range columns {
			it, err := it.For(column)
			require.NoError(t, err)
			requireRows(t, it, column)
		}
		names := map[string]bool{}
		for _, r := range it.Rows {
			require.False(t, names[r.Name], "%s: %s", it.ID, r.Name)
			names[r.Name] = true
			require.NotEqual(t, r.Method == "", r.Needs == "", "%s: %s", it.ID, r.Name)
			for d, p := range r.Published {
				require.Contains(t, DataSets, d)
				require.True(t, p.Mean > 10 && p.Mean < 100, "%s: %s", it.ID, r.Name)
			}
		}
	}
	require.Len(t, papers, 5)
	_, err = Get("gr:table9")
	require.ErrorContains(t, err, "gr:table2")
	require.NotContains(t, err.Error(), "vlpl:")
}

// requireRows: every row that can be trained is a run that can begin, by the recipe of a column too.
func requireRows(t *testing.T, it *Item, column string) {
	t.Helper()
	variants, left, err := it.Variants(Choices{Column: column, PseudoLabels: true, Clip: true, Drawn: true, Weights: true})
	require.NoError(t, err, it.ID)
	require.Len(t, it.Rows, len(variants)+len(left))
	for _, v := range variants {
		m := map[string]any{}
		if column != "" {
			r, err := it.RecipeFor(column)
			require.NoError(t, err)
			m = r.Settings()
		}
		maps.Copy(
			m,
			map[string]any{
				"data":    config.Shapes,
				"clip":    config.BuiltinClip,
				"weights": "some.safetensors",
				"epochs":  int64(10),
			},
		)
		maps.Copy(m, it.Settings)
		m = v.Over(m)
		for _, settings := range []map[string]any{m, compare.Variant{Set: v.First}.Over(m)} {
			c, err := config.FromSettings(settings)
			require.NoError(t, err, "%s %s: %s", it.ID, column, v.Name)
			c, err = c.Resolve()
			require.NoError(t, err, "%s %s: %s", it.ID, column, v.Name)
			requireKept(t, c, settings, it.ID+" "+column+": "+v.Name)
		}
	}
}

// requireKept: what a row, its table and its recipe set is what the resolved run has, parameters of the loss too.
func requireKept(t *testing.T, c config.Config, settings map[string]any, row string) {
	t.Helper()
	got := c.AsSettings()
	for k, want := range settings {
		if k == "params" {
			values, err := c.LossValues()
			require.NoError(t, err, row)
			for p, v := range want.(map[string]any) {
				require.EqualValues(t, v, values[p], "%s: %s", row, p)
			}
			continue
		}
		if k == "method" && want == config.HeadDualCoOp { // a head and its loss
			k = "head"
		}
		require.EqualValues(t, want, got[k], "%s: %s", row, k)
	}
}

func TestLines(t *testing.T) {
	it, err := Get("vlpl:table1")
	require.NoError(t, err)
	variants, left, err := it.Variants(Choices{})
	require.NoError(t, err)
	require.Len(t, left, 3, "LinearInit without weights, DualCoOp without its CLIP, and VLPL's own without a file of labels")
	lines := it.Lines(&compare.Table{Rows: []compare.Row{{Name: variants[2].Name, BestMean: 86, BestSD: 0.5, Seeds: []uint32{1, 2}}}}, "voc", left)
	require.Len(t, lines, 20)
	require.Equal(t, "AN", lines[2].Name)
	require.InDelta(t, 0.11, *lines[2].Difference, 1e-9)
	require.Nil(t, lines[0].Ours)
	var b bytes.Buffer
	require.NoError(t, WriteLines(&b, lines))
	require.Contains(t, b.String(), "| AN | 86.00 ± 0.50 | 85.89 | +0.11 |\n")
	require.Contains(t, b.String(), "| VLPL (ResNet-50) | needs pseudo-labels: --clip MODEL makes them, or --pseudo-labels FILE has them | 89.10 | – |\n")
	require.Nil(t, it.Lines(&compare.Table{}, "", nil)[2].Published)
}

// docs/papers.md is what the map gives.
func TestPageIsCurrent(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, WritePage(&b))
	got, err := os.ReadFile(filepath.Join(testroot.Module(), "docs", "papers.md"))
	require.NoError(t, err, "run go generate ./spml/reproduce")
	require.Equal(t, b.String(), string(got), "run go generate ./spml/reproduce")
}
