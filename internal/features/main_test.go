package main

import (
	"errors"
	"fmt"
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
	named, vision := 0, 0
	source := newSource("../..")
	for _, r := range rows {
		if len(r.shows) > 0 {
			named++
		}
		if r.need == needVision {
			vision++
			require.NotEmpty(t, r.shows, "row %d: vision models need it", r.number)
		}
		for _, s := range r.shows {
			name, _, _ := strings.Cut(s.name, "/")
			nothing, err := source.showsNothing(s.pkg, name)
			require.NoError(t, err)
			require.Empty(t, nothing, "row %d: %s %s", r.number, s.pkg, name)
		}
	}
	require.GreaterOrEqual(t, named, 62)
	require.Greater(t, vision, 50)
}

// TestEcosystem: every row that the module promises names tests that exist and assert something; the other rows are in the roadmap, each with its reason.
func TestEcosystem(t *testing.T) {
	f, err := os.Open("../../docs/ecosystem.tsv")
	require.NoError(t, err)
	defer f.Close()
	rows, err := parse(f)
	require.NoError(t, err)
	require.Len(t, rows, 61)
	promised, err := choose(rows, "1-17,20,22-24,26-38,46-52,56-60")
	require.NoError(t, err)
	roadmap, err := os.ReadFile("../../docs/roadmap.md")
	require.NoError(t, err)
	must := map[int]bool{}
	for _, r := range promised {
		must[r.number] = true
	}
	source := newSource("../..")
	for _, r := range rows {
		require.Equal(t, must[r.number], r.need == needMust, "row %d", r.number)
		require.Equal(t, must[r.number], len(r.shows) > 0, "row %d", r.number)
		for _, s := range r.shows {
			name, _, _ := strings.Cut(s.name, "/")
			nothing, err := source.showsNothing(s.pkg, name)
			require.NoError(t, err)
			require.Empty(t, nothing, "row %d: %s %s", r.number, s.pkg, name)
		}
		if !must[r.number] {
			require.Contains(t, string(roadmap), fmt.Sprintf("| %d | %s | %s |", r.number, r.feature, r.note), "docs/roadmap.md lacks row %d", r.number)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"1\ta\t\ttorch:TestA": "4 cells", "2\ta\t\ttorch:TestA\t": `row "2", want 1`, "1\ta\t\ttorch.TestA\t": "want package:Test",
		"1\ta\t\ttorch:Bench\t": "want package:Test", "1\ta\t\t\t": "needs a reason", "1\ta\tall\ttorch:TestA\t": `need "all"`,
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

func TestAssertsNothing(t *testing.T) {
	t.Log(errors.New("an error's text is no assertion").Error())
	calls(t)
}

func calls(t *testing.T) { called(t) }

func called(t *testing.T) {
	calls := 1
	t.Log(calls)
}

func TestByFunctions(t *testing.T) {
	t.Run("sub", func(t *testing.T) { positive[int](t, 1) })
}

func positive[T int | float64](t *testing.T, v T) {
	if v <= 0 {
		t.Fatal(v)
	}
}

// An example without output is compiled, not run.
func Example_nothing() {
	_ = 1
}

func Example_printed() {
	fmt.Println(1)
	// Output: 1
}

func TestShowsNothing(t *testing.T) {
	source := newSource("../..")
	for name, want := range map[string]string{
		"TestNothing": "empty", "Example_nothing": "without output", "TestAbsent": "missing", "TestAssertsNothing": "asserts nothing",
		"TestShowsNothing": "", "TestByFunctions": "", "Example_printed": "",
	} {
		got, err := source.showsNothing("internal/features", name)
		require.NoError(t, err)
		if want == "" {
			require.Empty(t, got, name)
		} else {
			require.Contains(t, got, want, name)
		}
	}
	got, err := source.showsNothing("torch", "TestFunctionGradients") // by torchtest
	require.NoError(t, err)
	require.Empty(t, got)
}

// A run says passed, missing and empty apart.
func TestRun(t *testing.T) {
	t.Chdir("../..")
	table := t.TempDir() + "/rows.tsv"
	write := func(text string) { require.NoError(t, os.WriteFile(table, []byte(text), 0o600)) }
	write("1\tfine\t\tinternal/features:TestChoose\t\n2\tgone\t\tinternal/features:TestAbsent\t\n3\tempty\t\tinternal/features:TestNothing\t\n4\tnone\tgpu\t\tfor a reason\n")
	var out strings.Builder
	require.ErrorContains(t, run(table, "", 1, "", &out), "2 rows name tests that do not show them")
	for _, want := range []string{" 1  shown      fine", "TestAbsent: missing", "TestNothing: empty", " 4  not shown  none (gpu): for a reason", "1 of 4 rows shown"} {
		require.Contains(t, out.String(), want)
	}
	require.NoError(t, run(table, "1,4", 9, "", &out))
	write("1\tfine\t\tinternal/features:TestChoose\t\n")
	require.ErrorContains(t, run(table, "", 2, "", &out), "1 rows shown, want 2")
	write("1\tfine\t\tinternal/features:TestChoose\t\n2\tno\tvision\t\treason\n")
	require.ErrorContains(t, run(table, "", 1, "", &out), "1 rows that must be shown are not")
}

// With the events of a run of all tests nothing is run; skipped, failed and missing tests are told apart.
func TestRecordedEvents(t *testing.T) {
	t.Chdir("../..")
	dir := t.TempDir()
	const p = `"Package":"` + modulePath + `/internal/features"`
	events := `make: something else
{"Action":"pass",` + p + `,"Test":"TestChoose"}
{"Action":"skip",` + p + `,"Test":"TestByFunctions/sub"}
{"Action":"pass",` + p + `,"Test":"TestByFunctions"}
{"Action":"skip",` + p + `,"Test":"TestRun"}
{"Action":"fail",` + p + `,"Test":"TestParseRefuses"}
{"Action":"pass",` + p + `,"Test":"TestAssertsNothing"}
{"Action":"fail",` + p + `}
`
	require.NoError(t, os.WriteFile(dir+"/events", []byte(events), 0o600))
	var table string
	for i, name := range []string{"TestChoose", "TestByFunctions", "TestRun", "TestParseRefuses", "TestAssertsNothing", "Example_printed"} {
		table += fmt.Sprintf("%d\tx\t\tinternal/features:%s\t\n", i+1, name)
	}
	require.NoError(t, os.WriteFile(dir+"/rows.tsv", []byte(table), 0o600))
	var out strings.Builder
	require.ErrorContains(t, run(dir+"/rows.tsv", "", 1, dir+"/events", &out), "5 rows name tests")
	for _, want := range []string{
		" 1  shown", "TestByFunctions: skipped in part (TestByFunctions/sub)", "TestRun: skip", "TestParseRefuses: fail", "TestAssertsNothing: it asserts nothing",
		"Example_printed: missing: its package failed or did not build", "1 of 6 rows shown",
	} {
		require.Contains(t, out.String(), want)
	}
}
