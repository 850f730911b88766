package train

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
)

// TestClassNames: what stands for the classes in prompts changes their labels: with the classes' names in reverse, each
// class has the labels of the one whose name it was given, but for observed positives.
func TestClassNames(t *testing.T) {
	dir := folder(t, 30)
	c := labelled12(dir, "vlpl")
	own := labelsOf(t, c, 1)[0]
	ds, err := c.Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	names := slices.Clone(ds.Classes)
	slices.Reverse(names)
	c.Pseudo.ClassNames = filepath.Join(t.TempDir(), "names.txt")
	require.NoError(
		t,
		os.WriteFile(c.Pseudo.ClassNames, []byte(strings.ReplaceAll(strings.Join(names, "\n"), "_", " ")+"\n"),
			0o644),
	)
	got := labelsOf(t, c, 1)[0]
	n, compared, changed := ds.C(), 0, 0
	for i, row := range ds.Rows(data.Train) {
		observed := ds.ObservedRow(row)
		for k := range n {
			if observed[k] == 1 || observed[n-1-k] == 1 {
				continue
			}
			require.Equal(t, own[i*n+n-1-k], got[i*n+k], "photo %d, class %d", i, k)
			compared++
			if got[i*n+k] != own[i*n+k] {
				changed++
			}
		}
	}
	require.Greater(t, compared, 100)
	require.Positive(t, changed)

	require.NoError(t, os.WriteFile(c.Pseudo.ClassNames, []byte("a disc\n"), 0o644))
	_, err = Run(t.Context(), c, RunOptions{})
	require.ErrorContains(t, err, "there are 1 class texts and")
	c.Method.ID, c.Pseudo.Clip = "an", ""
	_, err = c.Resolve()
	require.ErrorContains(t, err, "class_names are for methods with prompts")
}

// TestExpectedPositives: the number that EPR, ROLE and GPR count on may be that of the validation labels.
func TestExpectedPositives(t *testing.T) {
	dir := folder(t, 30)
	c := small(dir, "role")
	c.Method.Expected = "validation"
	c, err := c.Resolve()
	require.NoError(t, err)
	ds, err := c.Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	sum := 0
	for _, row := range ds.Rows(data.Val) {
		for _, y := range ds.LabelRow(row) {
			sum += int(y)
		}
	}
	var notes []string
	s := testSession(t, c, ds, Events{Note: func(text string) { notes = append(notes, text) }})
	require.InDelta(t, float64(sum)/float64(len(ds.Rows(data.Val))), s.values["k"], 1e-12)
	require.NotEqual(t, 1.5, s.values["k"])
	require.Contains(t, strings.Join(notes, "\n"), "the mean number of positives of 6 validation rows")
	c.Method.Params = map[string]float64{"k": 2}
	require.Equal(t, 2.0, testSession(t, c, ds, Events{}).values["k"], "what is set stays")

	ds.Full, c.Method.Params = make([]bool, ds.N()), nil
	_, err = newSession(c, ds, Events{})
	require.ErrorContains(t, err, "no validation rows with full labels to count positives in")
	c.Method.Expected = "test"
	_, err = c.Resolve()
	require.ErrorContains(t, err, `expected_positives "test" is none of`)
}
