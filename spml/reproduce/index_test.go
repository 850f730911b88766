package reproduce

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/papers"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/recipe"
)

// TestEveryEntryHasAPlace: each entry of the inventory of the papers' texts is cited by a recipe or a default, or has a
// line in index.yaml, and no line is about nothing.
func TestEveryEntryHasAPlace(t *testing.T) {
	index, err := papers.ByKey()
	require.NoError(t, err)
	require.Len(t, index, 387)
	cited := map[string]bool{}
	recipes, err := recipe.List()
	require.NoError(t, err)
	for _, r := range recipes {
		for _, v := range r.Values {
			if v.Kind == recipe.FromPaper {
				cited[r.Index+" "+v.Place] = true
			}
		}
	}
	for _, e := range loss.Entries() {
		for _, p := range e.Params {
			if place, ok := strings.CutPrefix(p.Source, "paper, "); ok {
				cited[place] = true
			}
		}
	}
	places, err := Places()
	require.NoError(t, err)
	placed := map[string]string{}
	command := regexp.MustCompile("(?:^|[ ,`])((?:vlpl|em|gr|lac|aevlp):[a-zA-Z0-9-]+)")
	for _, p := range places {
		require.NotEmpty(t, p.At)
		for _, id := range command.FindAllStringSubmatch(p.At, -1) {
			_, err := Get(id[1])
			require.NoError(t, err, p.At)
		}
		for _, key := range p.Entries {
			require.NotNil(t, index[key], "index.yaml: no entry is called %q", key)
			require.Empty(t, placed[key], "index.yaml: %q stands twice", key)
			placed[key] = p.At
		}
	}
	for key, e := range index {
		require.True(t, cited[key] || placed[key] != "", "%q (%s) stands nowhere", key, e.Kind)
		if e.Kind == "table" {
			require.Regexp(t, "^spml reproduce ", placed[key], key)
		}
	}
}

// TestPublishedNumbers holds the numbers of papers.yaml against the papers' tables, cell by cell with their deviations, and every row of a table is there.
func TestPublishedNumbers(t *testing.T) {
	index, err := papers.ByKey()
	require.NoError(t, err)
	items, err := Items()
	require.NoError(t, err)
	names := map[string]string{"voc": "VOC", "coco": "COCO", "nus": "NUS", "cub": "CUB"}
	whole := map[string]map[string]bool{} // table: printed rows
	cells := 0
	for _, it := range items {
		if it.Table == "" {
			for _, r := range it.Rows {
				require.Empty(t, r.Printed, "%s names rows of no table", it.ID)
			}
			continue
		}
		table := index[it.Table]
		require.NotNil(t, table, "%s: %s", it.ID, it.Table)
		if whole[it.Table] == nil {
			whole[it.Table] = map[string]bool{}
		}
		cell := func(row, column string) any {
			i, j := slices.Index(table.Rows, row), slices.Index(table.Columns, column)
			if i < 0 { // the data sets are the rows
				i, j = slices.Index(table.Rows, column), slices.Index(table.Columns, row)
			}
			require.True(t, i >= 0 && j >= 0, "%s: %s has no %q × %q", it.ID, it.Table, row, column)
			return table.Values[i][j]
		}
		for row, printed := range it.Numbers {
			whole[it.Table][row] = true
			for c, v := range printed {
				if names[c] != "" {
					c = names[c]
				}
				require.Equal(t, v, cell(row, c), "%s: %s, %s", it.ID, row, c)
				cells++
			}
		}
		for _, r := range it.Rows {
			if r.Printed == "" {
				continue
			}
			whole[it.Table][r.Printed] = true
			for _, d := range DataSets {
				column := names[d]
				if it.Columns != nil {
					column = it.Columns[d]
				}
				if !slices.Contains(table.Columns, column) {
					require.NotContains(t, r.Published, d, "%s: %s", it.ID, r.Name)
					continue
				}
				want, _ := cell(r.Printed, column).(string)
				p, has := r.Published[d]
				if want == "" || want == "–" {
					require.False(t, has, "%s: %s on %s", it.ID, r.Name, d)
					continue
				}
				var mean, sd float64
				if m, s, ok := strings.Cut(want, "±"); ok {
					_, err = fmt.Sscan(s, &sd)
					require.NoError(t, err)
					want = m
				}
				_, err = fmt.Sscan(want, &mean)
				require.NoError(t, err)
				require.Equal(t, Score{mean, sd}, p, "%s: %s on %s", it.ID, r.Name, d)
				cells++
			}
		}
	}
	for name, rows := range whole {
		table := index[name]
		all := table.Rows
		if slices.Contains(all, "VOC") {
			all = table.Columns
		}
		for _, r := range all {
			require.True(t, rows[r], "%s: the row %q is in no item", name, r)
		}
	}
	require.Greater(t, cells, 400)
}

// TestResolvedRows looks at the settings that rows of the papers have of their own.
func TestResolvedRows(t *testing.T) {
	set := func(id, row, column string) map[string]any {
		it, err := Get(id)
		require.NoError(t, err)
		it, err = it.For(column)
		require.NoError(t, err)
		variants, left, err := it.Variants(Choices{Column: column, PseudoLabels: true, Clip: true, Weights: true, Rows: map[string]map[string]any{row: {"threads": 1, "weights": "w.pth", "clip": "m.pt"}}})
		require.NoError(t, err)
		for _, v := range variants {
			if v.Name != row {
				continue
			}
			r, err := it.RecipeFor(column)
			require.NoError(t, err)
			m := r.Settings()
			for k, x := range it.Settings {
				m[k] = x
			}
			m = v.Over(m)
			if v.First != nil {
				m["first"] = v.First
			}
			return m
		}
		t.Fatalf("%s has no row %q that can be trained: %v", id, row, left)
		return nil
	}
	for _, c := range []struct {
		id, row, column string
		want            map[string]any
	}{
		{"lac:table2-resnet50", "AN", "voc", map[string]any{"head": "linear", "optimizer": "adam", "schedule": "constant", "lr": 1e-5, "batch_size": 8, "epochs": 10, "batch_norm": "live", "ema": nil}},
		{"lac:table2-resnet50", "EM", "cub", map[string]any{"head": "linear", "optimizer": "adam", "lr": 1e-4, "patience": 1}},
		{"lac:table2", "AN", "voc", map[string]any{"head": "decoder", "optimizer": "adamw", "schedule": "onecycle", "ema": 0.9997}},
		{"lac:table3", "+ LAC end to end", "coco", map[string]any{"stages": 1, "queue_size": -1}},
		{"lac:table3", "two stages, no queue", "coco", map[string]any{"queue_size": -1}},
		{"lac:fig3", "delta=0.7 stage_one_delta=0.7", "coco", map[string]any{"stage_one_delta": 0.7}},
		{"vlpl:table2", "ViT-L, CLIP", "voc", map[string]any{"backbone": "clip", "image_size": 336, "batch_size": 6}},
		{"vlpl:table2", "ConvNeXt-XL, ImageNet-1k", "voc", map[string]any{"backbone": "convnext_xlarge", "image_size": 448, "batch_size": 8}},
		{"vlpl:table1", "DualCoOp", "coco", map[string]any{"method": "dualcoop", "optimizer": "sgd", "schedule": "cosine", "epochs": 50, "form": "code", "clip": "m.pt"}},
		{"vlpl:table1", "ROLE+LinearInit", "voc", map[string]any{"lr": 1e-5, "image_size": 448}},
		{"vlpl:table3", "20 %", "voc", map[string]any{"pseudo_options": "delta=0.2"}},
		{"vlpl:fig3", "tau=0.03 theta=0.01", "cub", map[string]any{"pseudo_options": "tau=0.03,theta=0.01"}},
		{"gr:table3", "k+v", "voc", map[string]any{"method": "gr", "form": "paper"}},
		{"gr:table3", "an", "voc", map[string]any{"method": "an"}},
		{"gr:fig2a", "b=-5 τ=0.8", "voc", map[string]any{"method": "gr"}},
	} {
		got := set(c.id, c.row, c.column)
		for k, want := range c.want {
			if want == nil {
				require.NotContains(t, got, k, "%s: %s", c.id, c.row)
				continue
			}
			require.EqualValues(t, want, got[k], "%s: %s: %s", c.id, c.row, k)
		}
	}
	first := set("vlpl:table1", "ROLE+LinearInit", "voc")["first"].(map[string]any)
	require.Equal(t, "frozen", first["mode"])
	require.EqualValues(t, 1e-3, first["lr"])
	require.EqualValues(t, 25, first["epochs"])
	crosses := set("gr:table3", "k+v", "voc")["params"].(map[string]any)
	for _, q := range []string{"q1", "q2", "q3"} {
		require.EqualValues(t, 0.01, crosses[q])
	}
	tau := set("gr:fig2a", "b=-5 τ=0.8", "voc")["params"].(map[string]any)
	require.EqualValues(t, -5, tau["bT"])
	require.EqualValues(t, 6.25, tau["wT"])
}
