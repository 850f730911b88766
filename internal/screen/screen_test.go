package screen

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A line of progress fits into every width, keeps its share and says first what it is.
func TestProgressLine(t *testing.T) {
	for _, what := range []string{"epoch 12/100 train", "鸟类👩‍🌾图片鸟类👩‍🌾图片 seed 3: epoch 1/4 validate", "é\x1b[31m\n"} {
		p := Progress{What: what, Done: 431, Total: 1000, Parts: []string{"loss 0.1234", "run 1h2m3s left", "431/1000", "321 images/s", "loader 12 %"}}
		for columns := 1; columns <= 250; columns++ {
			line := p.line(columns)
			require.LessOrEqual(t, Width(line), columns, line)
			require.NotContains(t, line, "\n")
			if columns >= 30 {
				require.Contains(t, line, " 43 %")
			}
			if columns >= 80 {
				require.Contains(t, line, "███····")
			}
		}
		require.Contains(t, p.line(180), "loader 12 %")
	}
	require.Equal(t, "epoch 1/2 train  50 % ████····  loss 0.5", Progress{"epoch 1/2 train", 1, 2, []string{"loss 0.5"}}.line(40))
	require.Equal(t, "a…z", Fit("abcxyz", 3))
	require.Equal(t, "鸟…", Fit("鸟类", 3))
	require.Equal(t, "", Fit("鸟", 0))
	for _, done := range []int{0, 1, 5} {
		require.Contains(t, Progress{"x", done, 0, nil}.line(80), "0 %", "nothing to do is no division by zero")
	}
	require.Contains(t, Progress{"x", 7, 5, nil}.line(80), "100 % "+strings.Repeat("█", maxBar))
}
