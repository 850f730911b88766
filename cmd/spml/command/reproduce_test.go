package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/reproduce"
)

func TestReproduce(t *testing.T) {
	dir := t.TempDir()
	args := []string{
		"reproduce", "em:table", "--data", testroot.Shared(t, "data", "miml"), "--frozen", "--features", testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy"),
		"--only", "AN,EM", "--seeds", "2", "--epochs", "2", "--run", filepath.Join(dir, "run"),
	}
	code, out, stderr := spml(t, nil, append(args, "--dry-run")...)
	require.Zero(t, code, stderr)
	require.Regexp(t, `^2 methods × 2 seeds = 4 runs: about \d`, stderr)
	require.Empty(t, out)
	require.NoDirExists(t, filepath.Join(dir, "run"))

	code, out, stderr = spml(t, nil, args...)
	require.Zero(t, code, stderr)
	require.Regexp(t, `\| AN \| \d\d\.\d\d ± \d\.\d\d \| – \| – \|\n\| EM \|`, out)
	require.Contains(t, out, "No paper reports this data set")
	kept, err := os.ReadFile(filepath.Join(dir, "run", "em-table.md"))
	require.NoError(t, err)
	require.Equal(t, out, string(kept))

	code, _, stderr = spml(t, nil, "reproduce", "em:table", "--only", "XX")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "there are BCE, full annotation, AN,")
}

// A row that the data do not allow says what it needs, and the others run.
func TestReproduceWithoutFullLabels(t *testing.T) {
	dir := tinySet(t, 5)
	dir = filepath.Join(dir, "images")
	var lines strings.Builder
	for i := range 20 {
		field, part := "labels", []string{"train", "val", "val", "test"}[i%4]
		if part == "train" { // one positive, the rest unknown
			field = "positive"
		}
		fmt.Fprintf(&lines, "{\"file_name\": \"%02d.png\", \"split\": %q, %q: [\"label%d\"]}\n", i, part, field, i%5)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "metadata.jsonl"), []byte(lines.String()), 0o644))
	code, out, stderr := spml(t, nil, "reproduce", "em:table", "--data", dir, "--only", `"BCE, full annotation",AN`, "--backbone", "small_cnn", "--image-size", "32", "--seeds", "1", "--epochs", "1", "--run", filepath.Join(t.TempDir(), "run"))
	require.Zero(t, code, stderr)
	require.Regexp(t, `full annotation \| needs full labels of the training photos, which .* lacks`, out)
	require.Regexp(t, `\| AN \| \d+\.\d\d`, out)
}

// Points of a sweep stand beside their published numbers; what is done is not done again; the recipe's deviations are printed.
func TestReproducePoints(t *testing.T) {
	dir := t.TempDir()
	args := []string{"reproduce", "gr:table3", "--as", "voc", "--data", testroot.Shared(t, "data", "miml"), "--frozen", "--features", testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy"),
		"--only", "an,all", "--seeds", "1", "--epochs", "1", "--batch-size", "64", "--flip=false", "--run", dir}
	code, out, stderr := spml(t, nil, args...)
	require.Zero(t, code, stderr)
	require.Regexp(t, `\| an \| \d\d\.\d\d \| 85\.89 \| [+-]\d+\.\d\d \|\n\| all \| \d\d\.\d\d \| 89\.83 \| [+-]`, out)
	require.Contains(t, out, "Deviation: ")
	record := filepath.Join(dir, "an", "seed-1200", "run.yaml")
	before, err := os.Stat(record)
	require.NoError(t, err)
	code, again, stderr := spml(t, nil, args...)
	require.Zero(t, code, stderr)
	require.Equal(t, out, again)
	after, err := os.Stat(record)
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime())
}

// Every table and figure either says what it costs or says what it needs.
func TestReproduceEverything(t *testing.T) {
	items, err := reproduce.Items()
	require.NoError(t, err)
	if testing.Short() {
		items = items[:1]
	}
	for _, it := range items {
		args := []string{"reproduce", it.ID, "--data", "shapes", "--data-options", "train=12,val=4,test=4", "--epochs", "8", "--batch-size", "4", "--decoder-dim", "16", "--image-size", "32", "--seeds", "1", "--threads", "1", "--dry-run"}
		if len(it.Rows) == 0 {
			args = []string{"reproduce", it.ID, "--dry-run"}
		}
		if len(it.Rows) > 2 { // the cost of the rows between is measured in the same way
			args = append(args, "--only", `"`+it.Rows[0].Name+`","`+it.Rows[len(it.Rows)-1].Name+`"`)
		}
		if it.Backbone == "clip" && it.Recipe != "dualcoop" {
			args = append(args, "--backbone", "clip", "--weights", "builtin", "--image-size", "64")
		}
		code, _, stderr := spml(t, nil, args...)
		require.Zero(t, code, "%s: %s", it.ID, stderr)
		if len(it.Rows) > 0 {
			require.Regexp(t, `(?m)^\d+ methods × 1 seeds = \d+ runs: about `, stderr, it.ID)
		} else {
			require.Contains(t, stderr, "no training; runs spml ", it.ID)
		}
	}
}

// A figure trains its runs, then draws; done again it only draws; runs of one's own take their place.
func TestReproduceFigures(t *testing.T) {
	dir := t.TempDir()
	tiny := []string{"--data", "shapes", "--data-options", "train=40,val=20,test=12", "--epochs", "1", "--batch-size", "20", "--image-size", "32"}
	reproduced := func(id string, more ...string) string {
		code, out, stderr := spml(t, nil, append([]string{"reproduce", id}, more...)...)
		require.Zero(t, code, "%s: %s", id, stderr)
		return out + stderr
	}
	run := filepath.Join(dir, "gr-fig3")
	text := reproduced("gr:fig3", append(tiny, "--run", run)...)
	require.Contains(t, text, "2 methods × 1 seeds = 2 runs")
	require.FileExists(t, filepath.Join(run, "gr-fig3.svg"))
	require.FileExists(t, filepath.Join(run, "table.md"))
	require.NoError(t, os.Remove(filepath.Join(run, "gr-fig3.svg")))
	an, gr := filepath.Join(run, "AN", "seed-1200"), filepath.Join(run, "GR", "seed-1200")
	before, err := os.Stat(filepath.Join(gr, "run.yaml"))
	require.NoError(t, err)
	reproduced("gr:fig3", append(tiny, "--run", run)...)
	after, err := os.Stat(filepath.Join(gr, "run.yaml"))
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime())
	require.FileExists(t, filepath.Join(run, "gr-fig3.svg"))

	for id, file := range map[string]string{"em:fig7": "em-fig7.svg", "em:fig11": "em-fig10.svg", "gr:fig5": "gr-fig5.svg", "vlpl:fig4": "vlpl-fig4.html", "aevlp:supplement-fig2": "aevlp-supplement-fig2.html", "lac:fig6": "lac-fig6/sheet.png"} {
		out := filepath.Join(dir, "from")
		reproduced(id, "--from", an+","+gr, "--run", out)
		require.FileExists(t, filepath.Join(out, file), id)
	}

	sweep := filepath.Join(dir, "gr-fig2")
	reproduced("gr:fig2", append(tiny, "--seeds", "1", "--run", sweep)...)
	svg, err := os.ReadFile(filepath.Join(sweep, "gr-fig2.svg"))
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(string(svg), "<circle"))

	code, _, stderr := spml(t, nil, "reproduce", "aevlp:supplement-fig1")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "aevlp:supplement-fig1 wants --photo FILE")
	code, _, stderr = spml(t, nil, "reproduce", "vlpl:fig4", "--data", "photos", "--run", sweep)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "shows VLPL, which needs ")
}

// Every command of a figure exists and takes its flags.
func TestReproduceCommands(t *testing.T) {
	items, err := reproduce.Items()
	require.NoError(t, err)
	n := 0
	for _, it := range items {
		if len(it.Command) == 0 {
			continue
		}
		n++
		cmd, rest, err := newRoot().Find(it.Command)
		require.NoError(t, err, it.ID)
		require.NoError(t, cmd.ParseFlags(rest), it.ID)
		require.NoError(t, cmd.Args(cmd, cmd.Flags().Args()), it.ID)
	}
	require.NotZero(t, n)
}
