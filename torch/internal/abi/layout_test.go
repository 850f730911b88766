//go:build cgo

package abi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The Go structs and numbers are written by hand; the header is the other side's truth.
func TestLayout(t *testing.T) {
	goSide, cSide := layout()
	require.Equal(t, cSide, goSide)
}

func TestConstants(t *testing.T) {
	goSide, cSide := constants()
	require.Equal(t, cSide, goSide)
}
