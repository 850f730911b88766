package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A ranking by chance has a mean average precision of about 30 %.
func TestTrain(t *testing.T) {
	var out strings.Builder
	history, err := train(t.Context(), &out, 600, 3)
	require.NoError(t, err)
	t.Log(out.String())
	require.Len(t, history, 3)
	require.Contains(t, out.String(), "epoch 3: mAP ")
	require.Greater(t, history[2], 45.0)
}
