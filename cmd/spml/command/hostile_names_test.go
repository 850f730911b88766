package command

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Names that act on a terminal or pass for lines of the program.
const (
	hostileClass = "cat\x1b]0;owned\a\nspml: all is well"
	hostilePhoto = "a\x1b[31m\u202egnp.\nspml: forged.png"
	shownClass   = `cat\x1b]0;owned\a\nspml: all is well`
	shownPhoto   = `a\x1b[31m\u202egnp.\nspml: forged.png`
)

// hostileFolder is drawn pictures of which a class and the first three photos have such names; the second photo is
// damaged.
func hostileFolder(t *testing.T, class string) string {
	dir := drawnFolder(t, 24)
	f, err := os.Open(filepath.Join(dir, "labels.csv"))
	require.NoError(t, err)
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	rows[0][1] = class
	for i := 1; i <= 3; i++ {
		name := strings.Replace(hostilePhoto, "a", fmt.Sprint(i), 1)
		old := filepath.Join(dir, "images", rows[i][0])
		rows[i][0] = name
		require.NoError(t, os.Rename(old, filepath.Join(dir, "images", name)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "images", rows[2][0]), bomb(3, 3), 0o644))
	out, err := os.Create(filepath.Join(dir, "labels.csv"))
	require.NoError(t, err)
	w := csv.NewWriter(out)
	require.NoError(t, w.WriteAll(rows))
	require.NoError(t, out.Close())
	return dir
}

// fit fails where a text could act on a terminal or begins a line with what a name holds.
func fit(t *testing.T, what, text string) {
	t.Helper()
	require.True(t, utf8.ValidString(text), what)
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			t.Errorf("%s has %U: %q", what, r, text)
			return
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "spml: forged") || strings.HasPrefix(line, "spml: all is well") {
			t.Errorf("%s: a name made a line of its own: %q", what, text)
		}
	}
}

// No name of a file or a class and no error reaches a person's terminal as it is, and files for programs have every
// byte of it.
func TestHostileNames(t *testing.T) {
	const turned = "cat\u202egod" // training takes no class with control characters
	dir, strange := hostileFolder(t, turned), hostileFolder(t, hostileClass)
	run := filepath.Join(t.TempDir(), "run")
	photo := filepath.Join(dir, "images", strings.Replace(hostilePhoto, "a", "1", 1))
	missing := filepath.Join(dir, "no\x1b[2J\nspml: forged")
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"data", "show", strange}, shownClass},
		{[]string{"data", "stat", strange}, shownClass},
		{[]string{"data", "check", dir}, ""},
		{[]string{"train", "--data", dir, "--method", "an", "--backbone", "small_cnn", "--image-size", "32", "--epochs", "1", "--run", run, "--progress", "plain"}, shownPhoto[1:]},
		{[]string{"train", "--data", strange, "--method", "an"}, ""},
		{[]string{"eval", run}, `cat\u202egod`},
		{[]string{"predict", run, photo}, "1" + shownPhoto[1:]},
		{[]string{"predict", run, photo, "--top", "12"}, `cat\u202egod`},
		{[]string{"predict", run, filepath.Join(dir, "images")}, "2" + shownPhoto[1:]},
		{[]string{"explain", run, photo, "--out", t.TempDir()}, ""},
		{[]string{"metric", missing, missing}, `no\x1b[2J`},
		{[]string{"eval", missing}, `no\x1b[2J\nspml: forged`},
		{[]string{"train", "--data", missing, "--method", "an"}, `no\x1b[2J`},
		{[]string{"train", "--data", dir, "--method", "x\x1b[31m\nspml: forged"}, `x\x1b[31m`},
		{[]string{"train", "--data", dir, "--method", "an", "--weights", missing}, `no\x1b[2J`},
		{[]string{"x\x1b[31m\nspml: forged"}, ""},
		{[]string{"train", "--x\x1b[31m\nspml: forged"}, ""},
		{[]string{"diff", run, run}, ""},
		{[]string{"clip", "info", missing}, `no\x1b[2J`},
	} {
		_, out, errs := spml(t, nil, x.args...)
		what := strings.Join(x.args[:min(2, len(x.args))], " ")
		if what != "data check" { // JSON
			fit(t, what, out)
		}
		fit(t, what, errs)
		require.Contains(t, out+errs, x.want, what)
		for _, line := range strings.Split(errs, "\nspml: ") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), 2000, what)
		}
	}

	_, out, _ := spml(t, nil, "predict", run, photo, "--format", "csv")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	require.NoError(t, err)
	require.Contains(t, rows[0], turned)
	require.Equal(t, photo, rows[1][0])
	_, out, _ = spml(t, nil, "predict", run, photo, "--json")
	var row photoRow
	require.NoError(t, json.Unmarshal([]byte(out), &row))
	require.Equal(t, photo, row.Image)

	// A cell of 5 MB in a table is not printed in full.
	big := filepath.Join(dir, "labels.csv")
	b, err := os.ReadFile(big)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(big, append(b, "x.png,"+strings.Repeat("y\x1b", 2_500_000)+strings.Repeat(",0", 11)+"\n"...), 0o644))
	code, out, errs := spml(t, nil, "data", "show", dir)
	require.NotEqual(t, exitOK, code)
	require.LessOrEqual(t, utf8.RuneCountInString(errs), 2000)
	require.Contains(t, errs, "…")
	require.Contains(t, errs, "labels.csv:")
	fit(t, "a large cell", out+errs)
}
