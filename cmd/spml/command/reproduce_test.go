package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	require.Contains(t, stderr, "2 methods × 2 seeds = 4 runs; nothing was read or written")
	require.Regexp(t, `(?m)^every row:\n  data: .*miml\n`, out)
	require.Regexp(t, `(?m)^AN:\n  method: +an\n  run: .*\nEM:\n  method: +em\n  params.alpha: +0\.2\n`, out)
	code, out, stderr = spml(t, nil, append(args, "--dry-run", "--measure")...)
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
	require.Regexp(t, `full annotation \| left out: bce needs full labels of the training rows, .* has none`, out)
	require.Regexp(t, `\| AN \| \d+\.\d\d`, out)
}

// Points of a sweep stand beside their published numbers; what is done is not done again; the recipe's deviations are
// printed.
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

// With fewer epochs than EM+APL's warm-up its row says why it does not run and what would, and the others run. A row
// takes settings of its own.
func TestReproduceLeavesOutWhatCannotRun(t *testing.T) {
	args := []string{"reproduce", "em:table", "--data", "shapes", "--epochs", "4", "--only", "AN,EM+APL", "--dry-run"}
	code, out, stderr := spml(t, nil, args...)
	require.Zero(t, code, stderr)
	require.Regexp(t, `(?m)^EM\+APL is left out: .*--param warmup=2`, out)
	require.Regexp(t, `(?m)^AN:`, out)
	code, out, stderr = spml(t, nil, append(args, "--row", "EM+APL:params.warmup=2")...)
	require.Zero(t, code, stderr)
	require.Regexp(t, `params.warmup:\s+2`, out)
	require.NotContains(t, out, "left out")
	code, _, stderr = spml(t, nil, append(args, "--row", "EM+APM:epochs=3")...)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, `has no row "EM+APM"`)
}

// onShapes are the flags with which an item's rows can be trained on small drawn pictures.
func onShapes(it reproduce.Item, more ...string) []string {
	args := append([]string{"reproduce", it.ID, "--data", "shapes", "--data-options", "train=12,val=4,test=4", "--epochs", "8", "--batch-size", "4", "--decoder-dim", "16", "--image-size", "32", "--seeds", "1", "--threads", "1"}, more...)
	if it.Backbone == "clip" && it.Recipe != "dualcoop" {
		args = append(args, "--backbone", "clip", "--weights", "builtin", "--image-size", "64")
	}
	return args
}

// Every row of every table and figure has settings or says what it needs, and a dry run of it reads no data.
func TestReproduceEverything(t *testing.T) {
	items, err := reproduce.Items()
	require.NoError(t, err)
	for _, it := range items {
		t.Run(it.ID, func(t *testing.T) {
			if len(it.Rows) == 0 {
				code, _, stderr := spml(t, nil, "reproduce", it.ID, "--dry-run")
				require.Zero(t, code, stderr)
				require.Contains(t, stderr, "no training; runs spml ")
				return
			}
			code, out, stderr := spml(t, nil, onShapes(it, "--dry-run", "--json")...)
			require.Zero(t, code, stderr)
			require.Regexp(t, `(?m)^\d+ methods × 1 seeds = \d+ runs; nothing was read`, stderr)
			var rows []dryRow
			require.NoError(t, json.Unmarshal([]byte(out), &rows))
			require.Len(t, rows, len(it.Rows))
			for _, r := range rows {
				if r.Needs != "" {
					require.Empty(t, r.Settings, r.Name)
					continue
				}
				require.EqualValues(t, 8, r.Settings["epochs"], r.Name)
				require.NotEmpty(t, r.Settings["method"], r.Name)
			}
		})
	}
}

// The first and the last row of every table and figure take real steps; where time is short, of one for each kind of
// network and loop.
func TestReproduceMeasures(t *testing.T) {
	items, err := reproduce.Items()
	require.NoError(t, err)
	items = slices.DeleteFunc(items, func(it reproduce.Item) bool { return len(it.Rows) == 0 })
	for _, it := range testroot.Part(t, items, func(it reproduce.Item) string { return it.ID }, "vlpl:table1", "gr:table3", "lac:table3", "aevlp:table") {
		t.Run(it.ID, func(t *testing.T) {
			args := onShapes(it, "--dry-run", "--measure")
			if len(it.Rows) > 2 { // the cost of the rows between is measured in the same way
				args = append(args, "--only", `"`+it.Rows[0].Name+`","`+it.Rows[len(it.Rows)-1].Name+`"`)
			}
			code, _, stderr := spml(t, nil, args...)
			require.Zero(t, code, stderr)
			require.Regexp(t, `(?m)^\d+ methods × 1 seeds = \d+ runs: about `, stderr)
		})
	}
}

// A dry run answers from the settings alone: a data set that cannot be read does not stop it, one that is not there
// does. Two stages are shown as two.
func TestDryRunReadsNothing(t *testing.T) {
	dir := t.TempDir()
	photos := filepath.Join(dir, "photos")
	require.NoError(t, os.Mkdir(photos, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(photos, "labels.csv"), []byte("no table\x00"), 0o644))
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"reproduce", "lac:ablation", "--only", "AN,two stages with queue", "--run", filepath.Join(dir, "run")}, []string{"\nAN:\n", "\ntwo stages with queue:\n", "\ntwo stages with queue, stage 1, where it differs from stage 2:\n  method:        plc\n", "params.temperature:"}},
		{[]string{"train", "--method", "gr"}, []string{"method: ", "params.q2: ", "data_options: "}},
		{[]string{"compare", "--methods", "an,role:k=1.5", "--seeds", "2"}, []string{
			"every row:\n", "\nan:\n  method:  an\n", "\nrole:k=1.5:\n", "params.k:      1.5\n",
		}},
		{[]string{"sweep", "--method", "em", "--grid", "params.alpha=0.1,0.3"}, []string{"\nem alpha=0.1:\n  params.alpha:  0.1\n", "\nem alpha=0.3:\n  params.alpha:  0.3\n"}},
	} {
		code, out, stderr := spml(t, nil, append(test.args, "--data", photos, "--dry-run")...)
		require.Zero(t, code, stderr)
		require.Contains(t, stderr, "nothing was read or written")
		for _, want := range test.want {
			require.Contains(t, out, want)
		}
		code, _, stderr = spml(t, nil, append(test.args, "--data", photos, "--dry-run", "--measure")...)
		require.NotZero(t, code)
		require.Contains(t, stderr, "labels.csv")
		code, _, stderr = spml(t, nil, append(test.args, "--data", photos+"-2", "--dry-run")...)
		require.Equal(t, exitUsage, code)
		require.Contains(t, stderr, "photos-2: there is no such file or folder")
	}
	require.NoDirExists(t, filepath.Join(dir, "run"))
	code, out, stderr := spml(t, nil, "train", "--data", photos, "--method", "gr", "--dry-run", "--json")
	require.Zero(t, code, stderr)
	var settings map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &settings))
	require.Equal(t, "gr", settings["method"])
	require.EqualValues(t, 224, settings["image_size"])
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

	sweep := filepath.Join(dir, "gr-fig2c")
	reproduced("gr:fig2c", append(tiny, "--seeds", "1", "--only", "q2=0.01 q3=1,q2=0.5 q3=1", "--run", sweep)...)
	svg, err := os.ReadFile(filepath.Join(sweep, "gr-fig2c.svg"))
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(svg), "<circle"), "a point an epoch and curve")

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

// A dry run says what the rows' settings are without photos.
func TestReproduceDryRunWithoutData(t *testing.T) {
	code, stdout, stderr := spml(t, nil, "reproduce", "lac:table2-resnet50", "--as", "voc", "--dry-run")
	require.Zero(t, code, stderr)
	require.Regexp(t, `(?m)^  head: +linear$`, stdout)
	require.Regexp(t, `(?m)^  optimizer: +adam$`, stdout)
	require.Regexp(t, `(?m)^  batch_norm: +live$`, stdout)
	code, stdout, stderr = spml(t, nil, "reproduce", "vlpl:table3", "--as", "voc", "--clip", "builtin", "--dry-run")
	require.Zero(t, code, stderr)
	for _, share := range []string{"delta=0.1", "delta=0.2", "delta=0.3", "delta=0.4"} {
		require.Contains(t, stdout, share)
	}
	code, _, stderr = spml(t, nil, "reproduce", "lac:table2-resnet50", "--as", "voc", "--run", t.TempDir())
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--data")
}
