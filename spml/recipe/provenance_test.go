package recipe

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/papers"
)

// TestProvenance holds every value of every recipe against its source: a paper's against the inventory of the papers'
// texts, the code's against a file of a repository at a commit, ours against a reason.
func TestProvenance(t *testing.T) {
	index, err := papers.ByKey()
	require.NoError(t, err)
	all, err := List()
	require.NoError(t, err)
	checked := 0
	for _, r := range all {
		for k, v := range r.Values {
			place := v.Place
			if v.Kind == FromPaper {
				require.NotEmpty(t, r.Index, "%s %s cites a paper whose text is not in the inventory", r.Name, k)
				place = r.Index + " " + place
				checked++
			}
			require.NoError(t, papers.Check(index, v.Kind, r.Code, place, v.Value, r.Data), "%s %s", r.Name, k)
		}
	}
	require.Greater(t, checked, 100)
}

// A citation that the inventory does not have, or has with another value, fails.
func TestProvenanceFails(t *testing.T) {
	index, err := papers.ByKey()
	require.NoError(t, err)
	for name, err := range map[string]error{
		"no entry":      papers.Check(index, FromPaper, "", "gr Table 6: optimiser", "adam", "voc"),
		"states 5e-5":   papers.Check(index, FromPaper, "", "gr Table 6: learning rate", 1e-5, "cub"),
		"states no":     papers.Check(index, FromPaper, "", "gr not stated: optimiser", "adam", "voc"),
		"states AdamW":  papers.Check(index, FromPaper, "", "lac Sec. 4.1: optimiser", "sgd", "voc"),
		"no repository": papers.Check(index, FromCode, "the authors' release", "train.py: lr", 1, "voc"),
		"with a file":   papers.Check(index, FromCode, "a/b @ 0bad82a", "no scheduler", 1, "voc"),
		"no reason":     papers.Check(index, FromUs, "", "", 1, "voc"),
		"none of paper": papers.Check(index, "supplement", "", "x", 1, "voc"),
	} {
		require.ErrorContains(t, err, name)
	}
}

// Where a paper does not state a setting, no recipe says that it does; where it states one that a recipe has, the
// recipe says so.
func TestStatedSettingsAreThePapers(t *testing.T) {
	index, err := papers.Index()
	require.NoError(t, err)
	keys := map[string]string{ // the inventory's word: ours
		"optimiser": "optimizer", "epochs": "epochs", "epochs T": "epochs", "batch size": "batch_size", "learning rate": "lr", "largest learning rate": "lr",
		"image size": "image_size", "augmentation": "flip", "weak augmentation": "flip", "random seed": "seed", "EMA decay": "ema", "weight decay": "weight_decay",
		"learning-rate schedule": "schedule", "patience of early stopping": "patience", "separate head learning rate": "head_lr",
	}
	all, err := List()
	require.NoError(t, err)
	seen := map[string]int{}
	for _, r := range all {
		for i := range index {
			e := &index[i]
			k := keys[e.Name]
			v, has := r.Values[k]
			if e.Paper != r.Index || k == "" || !has || r.Released {
				continue
			}
			if r.Index == "vlpl" && r.Backbone == "clip" {
				continue // not treated separately in the text
			}
			stated := e.Stated != nil && *e.Stated
			if text, ok := e.Value.(string); ok && strings.HasPrefix(text, "tuned in") {
				stated = false // a range, no value
			}
			if stated {
				require.Equal(t, FromPaper, v.Kind, "%s %s: %s states it", r.Name, k, e.Key())
			} else {
				require.NotEqual(t, FromPaper, v.Kind, "%s %s: %s", r.Name, k, e.Key())
			}
			seen[r.Index]++
		}
	}
	for _, paper := range []string{"vlpl", "em", "gr", "lac", "aevlp"} {
		require.Positive(t, seen[paper], paper)
	}
}

// Titles and authors are as printed.
func TestTitles(t *testing.T) {
	index, err := papers.ByKey()
	require.NoError(t, err)
	all, err := List()
	require.NoError(t, err)
	for _, r := range all {
		if r.Index == "" {
			continue
		}
		title, _ := index[r.Index+" title page: title"].Value.(string)
		title = strings.TrimSuffix(title, " (Supplementary Material)")
		require.Contains(t, r.Paper, title, r.Name)
		if e := index[r.Index+" title page: authors"]; e != nil {
			var last []string
			b, err := json.Marshal(e.Value)
			require.NoError(t, err)
			var names []string
			require.NoError(t, json.Unmarshal(b, &names))
			for _, n := range names {
				last = append(last, n[strings.LastIndex(n, " ")+1:])
			}
			require.True(t, strings.HasPrefix(r.Paper, strings.Join(last, ", ")), "%s: the authors are %s", r.Name, strings.Join(names, ", "))
		}
	}
}
