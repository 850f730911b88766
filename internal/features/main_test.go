package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTableOfTheRepository(t *testing.T) {
	f, err := os.Open("../../docs/features.tsv")
	require.NoError(t, err)
	defer f.Close()
	rows, err := parse(f)
	require.NoError(t, err)
	require.Len(t, rows, 85)
	named := 0
	for _, r := range rows {
		if len(r.shows) > 0 {
			named++
		}
		for _, s := range r.shows {
			name, _, _ := strings.Cut(s.test, "/")
			empty, err := isEmpty("../../"+s.pkg, name)
			require.NoError(t, err)
			require.False(t, empty, "row %d: %s has no %s, or it is empty", r.number, s.pkg, name)
		}
	}
	require.GreaterOrEqual(t, named, 62)
}

func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"1\ta\ttorch:TestA": "3 cells", "2\ta\ttorch:TestA\t": `row "2", want 1`, "1\ta\ttorch.TestA\t": "want package:Test",
		"1\ta\ttorch:Bench\t": "want package:Test", "1\ta\t\t": "needs a reason",
	} {
		_, err := parse(strings.NewReader(line))
		require.ErrorContains(t, err, want)
	}
}

func TestChoose(t *testing.T) {
	all := make([]row, 9)
	for i := range all {
		all[i].number = i + 1
	}
	rows, err := choose(all, "2,4-5")
	require.NoError(t, err)
	require.Equal(t, []row{{number: 2}, {number: 4}, {number: 5}}, rows)
	for _, bad := range []string{"0", "5-10", "a", "4-2"} {
		_, err := choose(all, bad)
		require.ErrorContains(t, err, "want numbers from 1 to 9")
	}
}

func TestNothing(*testing.T) {
}

// An example without output is compiled, not run.
func Example_nothing() {
	_ = 1
}

func TestIsEmpty(t *testing.T) {
	for name, want := range map[string]bool{"TestNothing": true, "Example_nothing": true, "TestAbsent": true, "TestIsEmpty": false} {
		got, err := isEmpty(".", name)
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
}

// A run says passed, missing and empty apart.
func TestRun(t *testing.T) {
	t.Chdir("../..")
	table := t.TempDir() + "/rows.tsv"
	require.NoError(t, os.WriteFile(table, []byte("1\tfine\tinternal/features:TestChoose\t\n2\tgone\tinternal/features:TestAbsent\t\n3\tempty\tinternal/features:TestNothing\t\n4\tnone\t\tfor a reason\n"), 0o600))
	var out strings.Builder
	require.ErrorContains(t, run(table, "", 1, &out), "2 rows name tests that do not show them")
	for _, want := range []string{" 1  shown      fine", "TestAbsent is missing", "TestNothing is empty", " 4  not shown  none: for a reason", "1 of 4 rows shown"} {
		require.Contains(t, out.String(), want)
	}
	require.NoError(t, run(table, "1,4", 9, &out))
	require.NoError(t, os.WriteFile(table, []byte("1\tfine\tinternal/features:TestChoose\t\n"), 0o600))
	require.ErrorContains(t, run(table, "", 2, &out), "1 rows shown, want 2")
}
