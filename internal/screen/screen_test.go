package screen

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"1.jpg":    "1.jpg",
		"":         "",
		`C:\x.jpg`: `C:\x.jpg`,
		"鸟类 été नमस्ते 👩\u200d🌾.png": "鸟类 été नमस्ते 👩\u200d🌾.png",
		"a\x1b[31mred\x1b]0;t\a":     `a\x1b[31mred\x1b]0;t\a`,
		"a\nb\rc\td\x00\x7f":         `a\nb\rc\td\x00\x7f`,
		"c1 \u009b31m":               `c1 \u009b31m`,
		"fdp.\u202egpj.exe":          `fdp.\u202egpj.exe`,
		"\u2066x\u2069\ufeff":        `\u2066x\u2069\ufeff`,
		"line\u2028end":              `line\u2028end`,
		"bad \xff\xc3( \ufffd end":   `bad \xff\xc3( ` + "\ufffd end",
		"tag \U000e0041":             `tag \U000e0041`,
	} {
		require.Equal(t, want, Text(in))
		require.Equal(t, want, Text(Text(in)))
	}
	require.Equal(t, `one`+"\n  "+`two\x1b[2J`, Lines("one\ntwo\x1b[2J\n"))
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b[31m\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range Text(s) {
			if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Fatalf("%q has %U", Text(s), r)
			}
		}
		if !utf8.ValidString(Text(s)) || strings.ContainsAny(Cut(Text(s), 5), "\n\x1b") || utf8.RuneCountInString(Cut(s, 5)) > 5 {
			t.Fatalf("%q", s)
		}
	})
}

func TestCut(t *testing.T) {
	require.Equal(t, "abc", Cut("abc", 3))
	require.Equal(t, "a…d", Cut("abcd", 3))
	require.Equal(t, "鸟…图片", Cut("鸟类的很多图片", 4))
	long := Cut(strings.Repeat("x", 3000)+"end", 2000)
	require.Equal(t, 2000, utf8.RuneCountInString(long))
	require.True(t, strings.HasSuffix(long, "end"))
}

// A line of progress fits into every width, keeps its share and says first what it is.
func TestProgressLine(t *testing.T) {
	for _, what := range []string{"epoch 12/100 train", "鸟类👩‍🌾图片鸟类👩‍🌾图片 seed 3: epoch 1/4 validate", "é\x1b[31m\n"} {
		p := Progress{What: what, Done: 431, Total: 1000, Parts: []string{"loss 0.1234", "run 1h2m3s left", "431/1000", "321 images/s", "loader 12 %"}}
		for columns := 1; columns <= 250; columns++ {
			line := p.line(columns)
			require.LessOrEqual(t, Width(line), columns, line)
			require.NotContains(t, line, "\n")
			if columns >= 30 {
				require.Contains(t, line, " 43 %")
			}
			if columns >= 80 {
				require.Contains(t, line, "███····")
			}
		}
		require.Contains(t, p.line(180), "loader 12 %")
	}
	require.Equal(t, "epoch 1/2 train  50 % ████····  loss 0.5", Progress{"epoch 1/2 train", 1, 2, []string{"loss 0.5"}}.line(40))
	require.Equal(t, "a…z", Fit("abcxyz", 3))
	require.Equal(t, "鸟…", Fit("鸟类", 3))
	require.Equal(t, "", Fit("鸟", 0))
	for _, done := range []int{0, 1, 5} {
		require.Contains(t, Progress{"x", done, 0, nil}.line(80), "0 %", "nothing to do is no division by zero")
	}
	require.Contains(t, Progress{"x", 7, 5, nil}.line(80), "100 % "+strings.Repeat("█", maxBar))
}
