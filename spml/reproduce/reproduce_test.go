package reproduce

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/train"
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
				require.NoError(t, train.CheckKey(k))
				m[k] = v
			}
			m["data"], m["weights"] = "somewhere", "some.safetensors"
			_, err = train.FromSettings(m)
			require.NoError(t, err, it.ID)
		}
		variants, left, err := it.Variants(true, true)
		require.NoError(t, err, it.ID)
		require.Len(t, it.Rows, len(variants)+len(left))
		for _, v := range variants { // every row is a run that can begin
			m := map[string]any{"data": train.ShapesName, "clip": train.BuiltinClip}
			if it.Backbone == "clip" && it.Recipe != "dualcoop" {
				m["backbone"], m["weights"] = "clip", train.BuiltinClip
			}
			for k, x := range it.Settings {
				m[k] = x
			}
			params := map[string]any{}
			for k, x := range v.Set {
				if name, ok := strings.CutPrefix(k, "params."); ok {
					params[name] = x
				} else {
					m[k] = x
				}
			}
			m["params"] = params
			c, err := train.FromSettings(m)
			require.NoError(t, err, "%s: %s", it.ID, v.Name)
			_, err = c.Resolve()
			require.NoError(t, err, "%s: %s", it.ID, v.Name)
		}
		names := map[string]bool{}
		for _, r := range it.Rows {
			require.False(t, names[r.Name], "%s: %s", it.ID, r.Name)
			names[r.Name] = true
			require.NotEqual(t, r.Method == "", r.Needs == "", "%s: %s", it.ID, r.Name)
			for d, p := range r.Published {
				require.Contains(t, DataSets, d)
				require.True(t, p > 10 && p < 100, "%s: %s", it.ID, r.Name)
			}
		}
	}
	require.Len(t, papers, 5)
	// The tables and figures of the five papers, as far as their texts are known.
	for paper, what := range map[string]string{
		"vlpl":  "table1 table3 table4 smoothing backbones backbones-vit negatives fig3 fig4",
		"gr":    "table1 table2 table3 fig1 fig2 fig3 fig4 fig5",
		"em":    "table fig7 fig8 fig9 fig10 fig11 supplementD",
		"lac":   "table2 table2-resnet50 ablation fig3 fig4 fig5 fig6",
		"aevlp": "table supplement-table2 supplement-fig1 supplement-fig2",
	} {
		for _, w := range strings.Fields(what) {
			require.True(t, seen[paper+":"+w], "%s:%s is missing", paper, w)
		}
	}
	_, err = Get("gr:table9")
	require.ErrorContains(t, err, "gr:table2")
	require.NotContains(t, err.Error(), "vlpl:")
}

func TestLines(t *testing.T) {
	it, err := Get("vlpl:table1")
	require.NoError(t, err)
	variants, left, err := it.Variants(false, false)
	require.NoError(t, err)
	require.Len(t, left, 3, "two rows that cannot be trained, and VLPL's own without a file of labels")
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
