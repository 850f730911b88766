package loss

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/papers"
)

// TestSources holds every default of every loss against where it is said to come from.
func TestSources(t *testing.T) {
	index, err := papers.ByKey()
	require.NoError(t, err)
	cited := 0
	for _, e := range Entries() {
		if strings.HasPrefix(e.ID, "test-") {
			continue
		}
		for _, p := range e.Params {
			kind, place, ok := strings.Cut(p.Source, ", ")
			require.True(t, ok, "%s %s: source %q", e.ID, p.Name, p.Source)
			repository := ""
			if kind == "code" {
				repository, place, ok = strings.Cut(place, ", ")
				require.True(t, ok, "%s %s: source %q", e.ID, p.Name, p.Source)
			}
			values := map[string]float64{}
			for _, d := range dataSets {
				values[d] = p.Default
				if x, ok := p.ByData[d]; ok {
					values[d] = x
				}
			}
			for d, x := range values {
				if kind == "paper" {
					cited++
					if e.ID == "l2r" && d == "nus" {
						continue // five numbers are printed for four data sets, and the third cannot be told
					}
				}
				require.NoError(t, papers.Check(index, kind, repository, place, x, d), "%s %s", e.ID, p.Name)
			}
		}
	}
	require.Greater(t, cited, 100)
}
