package command

import (
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

	code, _, stderr = spml(t, nil, "reproduce", "gr:table3-trainable")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "parameters of the loss that are trained")
	code, _, stderr = spml(t, nil, "reproduce", "lac:fig6", "--photo", "x.jpg")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "lac:fig6 wants --from RUN; for instance of spml train")
	code, _, stderr = spml(t, nil, "reproduce", "em:table", "--only", "XX")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "there are BCE, full annotation, AN,")
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
		if it.First != "" {
			cmd, rest, err := newRoot().Find(strings.Fields(it.First)[1:])
			require.NoError(t, err, it.ID)
			require.NoError(t, cmd.ParseFlags(rest), it.ID)
		}
		cmd, rest, err := newRoot().Find(it.Command)
		require.NoError(t, err, it.ID)
		require.NoError(t, cmd.ParseFlags(rest), it.ID)
		require.NoError(t, cmd.Args(cmd, cmd.Flags().Args()), it.ID)
	}
	require.NotZero(t, n)
}
