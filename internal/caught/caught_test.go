package caught_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/caught"
)

func TestPanicIsAnError(t *testing.T) {
	var zero int
	err := caught.Do(func() error { _ = 1 / zero; return nil })
	var e *caught.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "internal error, please report it: runtime error: integer divide by zero", err.Error())
	require.Contains(t, string(e.Stack), "TestPanicIsAnError", "the stack says where")
	require.NotContains(t, err.Error(), "goroutine")

	require.ErrorIs(t, caught.Do(func() error { panic(io.EOF) }), io.EOF)
	require.Less(t, len(caught.Do(func() error { panic(strings.Repeat("x", 1<<20)) }).Error()), 600)
	want := errors.New("as it is")
	require.Equal(t, want, caught.Do(func() error { return want }))
	require.NoError(t, caught.Do(func() error { return nil }))
}
