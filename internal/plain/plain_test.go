package plain

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
