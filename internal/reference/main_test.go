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
	require.Greater(t, len(want), 100)
	for name, b := range want {
		got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		require.NoError(t, err, again)
		require.Equal(t, string(b), string(got), "%s: %s", name, again)
	}
	for _, pattern := range []string{"*.md", "man/*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		for _, f := range files {
			name, err := filepath.Rel(dir, f)
			require.NoError(t, err)
			require.Contains(t, want, filepath.ToSlash(name), "left over: %s", again)
		}
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
		if strings.HasPrefix(name, "man/") {
			require.Contains(t, string(b), ".SH NAME", name)
		}
	}
	require.Regexp(t, `--data string +another data set`, string(all["spml_eval.md"]), "back-quotes in a flag's help name its value")
	require.Contains(t, string(all["spml_audit_import.md"]), "spml audit import DIR DECISIONS…")
	require.Contains(t, string(all["spml_exit-codes.md"]), "75  stopped on request")
	require.Contains(t, string(all["spml_completion_bash.md"]), "spml completion bash")
	for name, b := range all {
		if strings.HasSuffix(name, ".md") {
			require.Zero(t, strings.Count(string(b), "```")%2, name)
		}
	}
	require.Contains(t, string(all["README.md"]), "| [spml bench parity](spml_bench_parity.md) |")
}
