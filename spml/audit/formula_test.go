package audit

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoFormulas: no name in the table for spreadsheets is run as a formula, and every name comes back from it.
func TestNoFormulas(t *testing.T) {
	names := []string{"=cmd|'/c calc'!A0", "+1", "-1.jpg", "@SUM(A1)", "\tx", "\rx", "'=1", "''=1", "'a'", "a=1.jpg", "=", "'", "it's"}
	table := &Table{}
	for i, n := range names {
		table.Candidates = append(table.Candidates, Candidate{Rank: i + 1, Image: n, Label: names[len(names)-1-i], Neighbours: []string{n}})
	}
	var b bytes.Buffer
	require.NoError(t, table.WriteCSV(&b))
	recs, err := csv.NewReader(bytes.NewReader(b.Bytes())).ReadAll()
	require.NoError(t, err)
	for _, r := range recs {
		for k, cell := range r {
			require.NotContains(t, "=+-@\t\r", (cell + "x")[:1])
			if recs[0][k] == "decision" && r[0] != "rank" {
				r[k] = Accept
			}
		}
	}
	var decided strings.Builder
	require.NoError(t, csv.NewWriter(&decided).WriteAll(recs))
	d, err := ParseDecisions("t.csv", []byte(decided.String()))
	require.NoError(t, err)
	require.Len(t, d.All, len(names))
	for i, x := range d.All {
		require.Equal(t, names[i], x.Image)
		require.Equal(t, names[len(names)-1-i], x.Label)
	}
}
