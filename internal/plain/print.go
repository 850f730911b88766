package plain

import (
	"fmt"
	"io"
	"strings"
)

// Fprintf is fmt.Fprintf for lines that a person reads: texts, lists of texts and errors among args are made fit for a
// terminal. The format itself is the program's own.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	safe := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case string:
			safe[i] = Text(a)
		case []string:
			list := make([]string, len(a))
			for k, s := range a {
				list[k] = Text(s)
			}
			safe[i] = list
		case error:
			safe[i] = Error(a)
		case fmt.Stringer:
			safe[i] = Text(a.String())
		default:
			safe[i] = a
		}
	}
	return fmt.Fprintf(w, format, safe...)
}

// Writer makes whole tables fit for a terminal: it passes lines on and writes what else a terminal would act upon as
// Text does.
type Writer struct{ W io.Writer }

func (w Writer) Write(b []byte) (int, error) {
	lines := strings.Split(string(b), "\n")
	for i, l := range lines {
		parts := strings.Split(l, "\t")
		for k := range parts {
			parts[k] = Text(parts[k])
		}
		lines[i] = strings.Join(parts, "\t")
	}
	if _, err := io.WriteString(w.W, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(b), nil
}

// MaxError is how many characters of an error are shown.
const MaxError = 1900

// Error is an error's text for a terminal: at most MaxError characters of it, its head and its tail, without control
// characters. Joined errors have a line each; further lines are set in, so that no name can pass for a line of the
// program's own.
func Error(err error) string { return Cut(rendered(err), MaxError) }

// Message is Error for a text, of which errors are made that repeat their input.
func Message(text string) string { return Cut(leaf(text), MaxError) }

// rendered follows what err wraps, because only the line ends between joined errors are meant: those in a path or a
// name are escaped.
func rendered(err error) string {
	text := err.Error()
	var inner []error
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	}
	var b strings.Builder
	for _, e := range inner {
		if e == nil {
			continue
		}
		own, rest, ok := strings.Cut(text, e.Error())
		if !ok {
			continue
		}
		if own == "\n" {
			b.WriteString("\n  ")
		} else {
			b.WriteString(leaf(own))
		}
		b.WriteString(rendered(e))
		text = rest
	}
	b.WriteString(leaf(text))
	return b.String()
}

// leaf is Text of the head and the tail of a text, in which lines that are set in stay: a list in an error is meant.
func leaf(s string) string {
	s = Cut(s, 4*MaxError)
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	var b strings.Builder
	for i, l := range lines {
		switch {
		case i == 0:
		case strings.HasPrefix(l, "  "), strings.HasPrefix(l, "\t"):
			b.WriteString("\n  ")
			l = strings.TrimLeft(l, " \t")
		default:
			b.WriteString(`\n`)
		}
		b.WriteString(Text(l))
	}
	return b.String()
}
