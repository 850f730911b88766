package recipe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
)

func TestTuning(t *testing.T) {
	names := func(method, data string) (out []string) {
		stages, err := Tuning(method, data)
		require.NoError(t, err)
		for _, s := range stages {
			out = append(out, s.Name)
		}
		return out
	}
	require.Equal(t, []string{"em-alpha"}, names("EM", "voc"))
	require.Equal(t, []string{"em-ls"}, names("an-ls", "voc"))
	require.Equal(t, []string{"ll-delta"}, names("ll-cp", ""))
	require.Equal(t, []string{"gr-q", "gr-beta", "gr-alpha"}, names("gr", "coco"),
		"as their E.2: q2 and q3 first, then β(T), α(T)")
	require.Equal(t, []string{"vlpl-threshold"}, names("vlpl", "nus"))
	require.Equal(t, []string{"vlpl-threshold-cub"}, names("vlpl", "cub"))
	require.Nil(t, names("an", "voc"))
	role, err := Tuning("role", "voc")
	require.NoError(t, err)
	e, err := loss.Lookup("role")
	require.NoError(t, err)
	require.Len(t, role[0].Named, 4)
	require.Equal(t, e.Defaults("cub")["k"], role[0].Named["as on CUB"]["params.k"])
	_, err = Tuning("emm", "voc")
	require.ErrorContains(t, err, "emm")

	// Every grid of every method can be made.
	for _, e := range loss.Entries() {
		for _, d := range append(dataSets, "") {
			stages, err := Tuning(e.ID, d)
			require.NoError(t, err)
			for _, s := range stages {
				points, err := s.Points()
				require.NoError(t, err, s.Name)
				require.NotEmpty(t, points)
			}
		}
	}
}
