package plain

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestError(t *testing.T) {
	path := &fs.PathError{Op: "open", Path: "a\x1b\nspml: forged", Err: fs.ErrNotExist}
	for want, err := range map[string]error{
		`open a\x1b\nspml: forged: file does not exist`:                         path,
		`b\nc: open a\x1b\nspml: forged: file does not exist; run d`:            fmt.Errorf("b\nc: %w; run d", path),
		"one\n  open a" + `\x1b\nspml: forged: file does not exist` + "\n  two": errors.Join(errors.New("one"), path, errors.New("two\n")),
		"in x: one\n  two":         fmt.Errorf("in x: %w", errors.Join(errors.New("one"), errors.New("two"))),
		"keys:\n  a\n  b" + `\x1b`: errors.New("keys:\n    a\n  b\x1b"),
		"both one and two, twice":  fmt.Errorf("both %w and %w, twice", errors.New("one"), errors.New("two")),
		`a long line\nmore`:        errors.New("a long line\nmore"),
	} {
		require.Equal(t, want, Error(err))
	}
	long := Error(fmt.Errorf("%w: end", errors.New("begin"+strings.Repeat("\x1b", 100_000))))
	require.Equal(t, MaxError, utf8.RuneCountInString(long))
	require.True(t, strings.HasPrefix(long, `begin\x1b`) && strings.HasSuffix(long, `\x1b: end`), long)
}

func TestFprintf(t *testing.T) {
	var b bytes.Buffer
	_, err := Fprintf(&b, "%s %d %v %v %v %.1f\n", "a\n", 3, []string{"b\x1b"}, errors.New("c\r"), time.Second, 1.5)
	require.NoError(t, err)
	require.Equal(t, `a\n 3 [b\x1b] c\r 1s 1.5`+"\n", b.String())
	b.Reset()
	n, err := Writer{&b}.Write([]byte("x\ty\x1b[1m\n\nz\r\n"))
	require.NoError(t, err)
	require.Equal(t, 12, n)
	require.Equal(t, "x\ty"+`\x1b[1m`+"\n\nz"+`\r`+"\n", b.String())
}
