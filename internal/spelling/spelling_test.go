package spelling

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearest(t *testing.T) {
	names := []string{"epochs", "batch_size", "max_steps", "seed"}
	for name, want := range map[string]string{
		"epoch": "epochs", "bacth_size": "batch_size", "max-steps": "max_steps", "sede": "seed", "learning": "", "": "",
		strings.Repeat("s", 1<<20): "",
	} {
		require.Equal(t, want, Nearest(name, names), "%.20s", name)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3},
		{"fc.weight", "fc.weigth", 1},
	} {
		require.Equal(t, c.want, Distance(c.a, c.b), "%q to %q", c.a, c.b)
		require.Equal(t, c.want, Distance(c.b, c.a), "%q to %q", c.b, c.a)
	}
}
