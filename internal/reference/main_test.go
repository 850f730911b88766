package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

const again = "run go run ./internal/reference docs/reference"

// TestReferenceIsCurrent compares docs/reference with the command tree: no page is missing, old or left over.
func TestReferenceIsCurrent(t *testing.T) {
	dir := filepath.Join(testroot.Module(), "docs", "reference")
	want, err := pages()
	require.NoError(t, err)
	require.Greater(t, len(want), 50)
	for name, b := range want {
		got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		require.NoError(t, err, again)
		require.Equal(t, string(b), string(got), "%s: %s", name, again)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, f := range files {
		require.Contains(t, want, filepath.Base(f), "left over: %s", again)
	}
}

// Pages do not depend on the machine that made them, and say what each command is.
func TestPages(t *testing.T) {
	all, err := pages()
	require.NoError(t, err)
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	for name, b := range all {
		require.NotContains(t, string(b), home, name)
		require.NotContains(t, string(b), os.TempDir(), name)
	}
	require.Regexp(t, `--data string +another data set`, string(all["spml_eval.md"]), "back-quotes in a flag's help name its value")
	require.Contains(t, string(all["spml_audit_import.md"]), "spml audit import DIR DECISIONS…")
	require.Contains(t, string(all["spml_exit-codes.md"]), "75  stopped on request")
	require.Contains(t, string(all["spml_completion_bash.md"]), "spml completion bash")
	for name, b := range all {
		require.Zero(t, strings.Count(string(b), "```")%2, name)
	}
	require.Contains(t, string(all["README.md"]), "| [spml bench parity](spml_bench_parity.md) |")
}

// Settings stand on one page, whichever command takes them; manual pages have every flag.
func TestSettingsAndManuals(t *testing.T) {
	all, err := pages()
	require.NoError(t, err)
	for _, command := range []string{"train", "compare", "sweep", "reproduce", "plan", "config_show", "bench_train"} {
		page := string(all["spml_"+command+".md"])
		require.NotContains(t, page, "      --batch-size", command)
		require.Contains(t, page, "And the [settings](settings.md)", command)
	}
	require.Contains(t, string(all["spml_train.md"]), "--resume", "its own flags")
	require.Contains(t, string(all["settings.md"]), "| `--batch-size` |")
	require.Contains(t, string(all["settings.md"]), "| `--param NAME=NUMBER` |")

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "spml-gone.1"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.1"), nil, 0o644))
	require.NoError(t, write(dir, "spml*.1", manuals))
	require.NoFileExists(t, filepath.Join(dir, "spml-gone.1"))
	require.FileExists(t, filepath.Join(dir, "other.1"), "another program's")
	b, err := os.ReadFile(filepath.Join(dir, "spml-train.1"))
	require.NoError(t, err)
	require.Contains(t, string(b), ".SH NAME")
	require.Contains(t, string(b), "--batch-size")
	require.Greater(t, strings.Count(string(b), "--"), 60)
}
