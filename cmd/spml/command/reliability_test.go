package command

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReliability draws a point for each bin that has entries, where the numbers of spml metric --json put it.
func TestReliability(t *testing.T) {
	dir := t.TempDir()
	scores, labels, svg := filepath.Join(dir, "s.csv"), filepath.Join(dir, "l.csv"), filepath.Join(dir, "r.svg")
	require.NoError(t, os.WriteFile(scores, []byte("0.1,0.9\n0.15,0.95\n0.12,0.55\n"), 0o644))
	require.NoError(t, os.WriteFile(labels, []byte("0,1\n0,1\n1,0\n"), 0o644))
	_, err := metricCommand(scores, labels, "--bins", "5", "--reliability", svg)
	require.NoError(t, err)
	b, err := os.ReadFile(svg)
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(b, new(struct{})))
	text := string(b)
	require.Equal(t, 3, strings.Count(text, "<circle"))
	require.Contains(t, text, "3 entries, mean probability 0.123, share of positives 0.333")
	require.Contains(t, text, "2 entries, mean probability 0.925, share of positives 1.000")
	require.NoError(t, os.WriteFile(scores, []byte("1,9\n-1,9\n1,5\n"), 0o644))
	_, err = metricCommand(scores, labels, "--reliability", svg)
	require.ErrorContains(t, err, "--logits")
}
