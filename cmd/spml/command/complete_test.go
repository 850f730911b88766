package command

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// TestCompletion asks as a shell does.
func TestCompletion(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "cmp", "an", "seed-1")
	code, _, stderr := spml(t, nil, "train", "--data", testroot.Shared(t, "data", "miml"), "--frozen", "--features", testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy"),
		"--method", "an", "--epochs", "1", "--run", run)
	require.Zero(t, code, stderr)
	for _, c := range []struct {
		words []string
		want  string // a line that is there
		not   string
	}{
		{[]string{"train", "--method", ""}, "em-apl\tentropy maximisation with asymmetric pseudo-labels", ""},
		{[]string{"compare", "--methods", "an,e"}, "an,em\tentropy maximisation", ""},
		{[]string{"train", "--recipe", "gr-v"}, "gr-voc-resnet50\t", ""},
		{[]string{"recipe", "show", ""}, "em-voc-resnet50\t", ""},
		{[]string{"train", "--backbone", "res"}, "resnet50", ""},
		{[]string{"train", "--head", ""}, "ml-decoder", ""},
		{[]string{"reproduce", "gr:"}, "gr:table2\t", ""},
		{[]string{"loss", "show", "g"}, "gpr", ""},
		{[]string{"eval", filepath.Join(dir, "c")}, run, ""},
		{[]string{"diff", run, filepath.Join(dir, "c")}, run, ""},
		{[]string{"explain", "photo.jpg", "--run", run, "--label", ""}, "sunset", "train"},
	} {
		code, out, stderr := spml(t, nil, append([]string{"__complete"}, c.words...)...)
		require.Zero(t, code, stderr)
		lines := strings.Split(out, "\n")
		found := false
		for _, l := range lines {
			found = found || strings.HasPrefix(l, c.want)
			if c.not != "" {
				require.NotEqual(t, c.not, l)
			}
		}
		require.True(t, found, "%v: %s", c.words, out)
	}
}
