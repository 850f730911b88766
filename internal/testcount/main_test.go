package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Parts of a test count as tests and only whole ones are named as slow; a failed test says what it said; a package that
// ended early is one failure.
func TestCounts(t *testing.T) {
	var b strings.Builder
	c := &counter{w: &b, output: map[string]*strings.Builder{}, failed: map[string]bool{}}
	for _, line := range []string{
		`{"Action":"output","Package":"p","Test":"TestA/one","Output":"said one\n"}`,
		`{"Action":"pass","Package":"p","Test":"TestA/one","Elapsed":9}`,
		`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":9.5}`,
		`{"Action":"output","Package":"p","Test":"TestB","Output":"said two\n"}`,
		`{"Action":"fail","Package":"p","Test":"TestB","Elapsed":0.5}`,
		`{"Action":"fail","Package":"p"}`,
		`{"Action":"output","Package":"q","Test":"TestC","Output":"panic: three\n"}`,
		`{"Action":"fail","Package":"q"}`,
		`{"Action":"skip","Package":"p","Test":"TestD"}`,
		"no JSON\n",
	} {
		c.line(line)
	}
	require.Equal(t, []int{2, 2, 1}, []int{c.passes, c.failures, c.skips})
	c.slowest(1)
	for _, want := range []string{"FAIL: p TestB\nsaid two\n", "panic: three\n", "SKIP: p TestD\n", "no JSON\n", "slowest tests:\n    9.5 s  p TestA\n"} {
		require.Contains(t, b.String(), want)
	}
	require.NotContains(t, b.String(), "said one")
}

func TestBudgets(t *testing.T) {
	dir := t.TempDir()
	wd, err := os.Getwd()
	require.NoError(t, err)
	cpu, budgets := filepath.Join(dir, "cpu"), filepath.Join(dir, "budgets")
	require.NoError(t, os.WriteFile(cpu, []byte(wd+"/slow 20 5.5\n"+wd+"/a b 9 1\n"+wd+"/given 30 1\n"), 0o644))
	require.NoError(t, os.WriteFile(budgets, []byte("# why\ndefault 10\ngiven 30\n"), 0o644))
	var b strings.Builder
	c := &counter{w: &b}
	require.NoError(t, c.budgets(cpu, budgets))
	require.Equal(t, "CPU time of 3 packages' tests: 66 s\nwarning: over budget: slow took 26 s of CPU, "+budgets+" gives it 10\n", b.String())
	require.NoError(t, os.WriteFile(cpu, []byte("nonsense\n"), 0o644))
	require.ErrorContains(t, c.budgets(cpu, budgets), "cpu:1: ")
}
