package command

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
)

func TestLossList(t *testing.T) {
	code, stdout, stderr := spml(t, nil, "loss", "list")
	require.Zero(t, code, stderr)
	for _, e := range loss.Entries() {
		require.Regexp(t, "(?m)^"+e.ID+" ", stdout)
	}
	code, stdout, stderr = spml(t, nil, "loss", "list", "--json")
	require.Zero(t, code, stderr)
	var all []lossFacts
	require.NoError(t, json.Unmarshal([]byte(stdout), &all))
	require.Len(t, all, len(loss.Entries()))
}

func TestLossShow(t *testing.T) {
	code, stdout, stderr := spml(t, nil, "loss", "show", "EM+APL")
	require.Zero(t, code, stderr)
	for _, want := range []string{"em-apl", "Zhou et al. 2022", "labels with soft negatives", "apl", "theta", "0.9", "EM, VLPL", "log epsilon 1e-5"} {
		require.Contains(t, stdout, want)
	}
	code, stdout, stderr = spml(t, nil, "loss", "show", "gpr", "--json")
	require.Zero(t, code, stderr)
	var f lossFacts
	require.NoError(t, json.Unmarshal([]byte(stdout), &f))
	require.Equal(t, []string{"observed labels", "pseudo-labels", "epoch"}, f.Needs)
	require.Equal(t, -4.0, f.Forms["paper"].ByData["cub"]["b0"])
	code, _, stderr = spml(t, nil, "loss", "show", "nothing")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, `no loss is called "nothing"; there are an, an-ls`)
}

func TestLossPlot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.svg")
	code, stdout, stderr := spml(t, nil, "loss", "plot", "an", "GR", "--out", file, "--param", "q2=0.5", "--data-set", "coco")
	require.Zero(t, code, stderr)
	require.Equal(t, "wrote "+file+"\n", stdout, "no sketch where there is no terminal")
	picture, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(picture, new(struct{})))
	require.Contains(t, string(picture), "gr: y = 0, epoch 4")

	code, stdout, stderr = spml(t, nil, "loss", "plot", "an", "--ascii", "--out", file)
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "gradient over the logit")

	code, stdout, stderr = spml(t, nil, "loss", "plot", "splc", "--param", "neg=hill", "--out", "-")
	require.Zero(t, code, stderr)
	require.NoError(t, xml.Unmarshal([]byte(stdout), new(struct{})))

	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "wants names of losses"},
		{[]string{"none"}, "no loss is called"},
		{[]string{"an", "em", "--param", "beta=1"}, `em has no parameter "beta"`},
		{[]string{"em", "--param", "alpha"}, "want NAME=VALUE"},
		{[]string{"em", "--param", "alpha=-1"}, "alpha is -1, want 0 or more"},
		{[]string{"em", "--preset", "both"}, `form "both"`},
	} {
		code, _, stderr := spml(t, nil, append([]string{"loss", "plot"}, c.args...)...)
		require.Equal(t, exitUsage, code, stderr)
		require.Contains(t, stderr, c.want)
	}
	code, _, stderr = spml(t, nil, "loss", "plot", "an", "--out", filepath.Join(file, "below"))
	require.Equal(t, exitIO, code, stderr)
}

func TestLossDocs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "docs")
	code, _, stderr := spml(t, nil, "loss", "docs", dir)
	require.Zero(t, code, stderr)
	page, err := os.ReadFile(filepath.Join(dir, "methods.md"))
	require.NoError(t, err)
	for _, e := range loss.Entries() {
		require.Contains(t, string(page), "\n## "+e.ID+"\n")
		require.FileExists(t, filepath.Join(dir, "methods", e.ID+".svg"))
	}
}
