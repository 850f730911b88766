package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/screen"
)

// Every command is in a group of the root's help, every group names commands that are there; no flag is in two groups.
func TestHelpGroups(t *testing.T) {
	root := newRoot()
	listed := map[string]bool{}
	for _, g := range commandGroups {
		for _, name := range strings.Fields(g.commands) {
			require.False(t, listed[name], name)
			listed[name] = true
		}
	}
	known := map[string]bool{"help": true, "completion": true}
	for _, c := range root.Commands() {
		known[c.Name()] = true
		require.True(t, listed[c.Name()], "%s is in no group", c.Name())
	}
	for name := range listed {
		require.True(t, known[name], "there is no command %s", name)
	}
	flags := map[string]bool{}
	for _, g := range flagGroups {
		for _, name := range strings.Fields(g.flags) {
			require.False(t, flags[name], "%s is in two groups", name)
			flags[name] = true
		}
	}
	train, _, err := root.Find([]string{"train"})
	require.NoError(t, err)
	var missing []string
	for _, name := range names(train.LocalFlags(), nil) {
		if !flags[name] && !train.Flags().Lookup(name).Hidden {
			missing = append(missing, name)
		}
	}
	require.Empty(t, missing, "flags of train in no group of help.go")
}

// Help fits the width, holds the common flags, and all of them on request.
func TestHelp(t *testing.T) {
	code, stdout, _ := spml(t, nil, "train", "--help")
	require.Zero(t, code)
	require.Contains(t, stdout, "--method string")
	require.NotContains(t, stdout, "--queue-size")
	require.Regexp(t, `[0-9]+ more flags in groups: spml train --help-all`, stdout)
	code, all, _ := spml(t, nil, "train", "--help-all")
	require.Zero(t, code)
	for _, text := range []string{"\nOptimisation:\n", "\nMachine:\n", "--queue-size"} {
		require.Contains(t, all, text)
	}
	root := newRoot()
	train, _, err := root.Find([]string{"train"})
	require.NoError(t, err)
	for _, width := range []int{60, 80, 120} {
		for _, line := range strings.Split(usage(train, width), "\n") {
			require.LessOrEqual(t, screen.Width(line), width+20, line) // a word may be longer than its place
		}
		for _, line := range strings.Split(wrapped(train.Long, width), "\n") {
			if !strings.HasPrefix(line, " ") {
				require.LessOrEqual(t, screen.Width(line), width, line)
			}
		}
	}
}

func TestNoSuchCommand(t *testing.T) {
	for line, want := range map[string]string{
		"dta":         `spml has no command "dta"; did you mean "data"?`,
		"data shw":    `spml data has no command "shw"; did you mean "show"?`,
		"loss lst":    `spml loss has no command "lst"; did you mean "list"?`,
		"recipe x":    `spml recipe has no command "x"`,
		"weights gte": `spml weights has no command "gte"; did you mean "get"?`,
	} {
		code, stdout, stderr := spml(t, nil, strings.Fields(line)...)
		require.Equal(t, exitCommand, code, line)
		require.Empty(t, stdout)
		require.Contains(t, stderr, want)
		require.Contains(t, stderr, "--help` for usage")
	}
	code, stdout, stderr := spml(t, nil, "data")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "single-positive")
	code, stdout, stderr = spml(t, nil, "--version")
	require.Zero(t, code, stderr)
	require.Regexp(t, `^spml version `, stdout)
}
