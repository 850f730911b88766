// Package plain makes texts that others chose (names of files and classes, errors that repeat their input) fit for a
// person's terminal. Every line that a person reads goes through it; what programs read (JSON, CSV, Parquet) keeps its
// exact bytes in its own quoting.
package plain

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text is s on one line without control characters: what a terminal would act upon (escape sequences, line ends, marks
// that turn the direction of a text) and what is no UTF-8 is written as in a Go string, \x1b or \n. Letters, signs and
// emoji of every language stay.
func Text(s string) string {
	clean := true
	for _, r := range s { // a byte that is no UTF-8 reads as RuneError, which is looked at again below
		if !visible(r) || r == utf8.RuneError {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	b := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b = append(b, `\x`...)
			b = append(b, "0123456789abcdef"[s[i]>>4], "0123456789abcdef"[s[i]&15])
		case visible(r):
			b = append(b, s[i:i+n]...)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b = append(b, q[1:len(q)-1]...)
		}
		i += n
	}
	return string(b)
}

// visible says whether a terminal shows r, or joins letters by it: emoji and Persian words need U+200C and U+200D.
func visible(r rune) bool {
	return unicode.IsGraphic(r) || r == '\u200c' || r == '\u200d'
}

// Lines is Text for a text of several lines: its line ends stay, and each further line is set in by two spaces, so that
// no name in it can pass for a line of the program's own.
func Lines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.ReplaceAll(Text(strings.ReplaceAll(l, "\t", "    ")), "\n", `\n`)
	}
	return strings.Join(lines, "\n  ")
}

// Cut leaves at most n characters of s: its head and its tail, with … between them.
func Cut(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	head := (n - 1) / 2
	tail := n - 1 - head
	i, j := 0, len(s)
	for range head {
		_, w := utf8.DecodeRuneInString(s[i:])
		i += w
	}
	for range tail {
		_, w := utf8.DecodeLastRuneInString(s[:j])
		j -= w
	}
	return s[:i] + "…" + s[j:]
}
