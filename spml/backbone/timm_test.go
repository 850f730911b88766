package backbone

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch/nn"
)

// TestTimmKeys compares the keys with timm's own, paired by testdata/mobilenet_v2_timm.py.
func TestTimmKeys(t *testing.T) {
	m, err := New("mobilenet_v2", 7, nn.NoInit())
	require.NoError(t, err)
	sd := nn.StateDictOf(m)
	got, err := TimmState("mobilenet_v2", sd)
	require.NoError(t, err)
	require.Len(t, got, len(sd))
	b, err := os.ReadFile("testdata/mobilenet_v2_timm.tsv")
	require.NoError(t, err)
	pairs := 0
	for line := range strings.Lines(string(b)) {
		ours, timm, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if sd[ours] == nil {
			require.Contains(t, ours, "num_batches_tracked")
			continue
		}
		require.Same(t, sd[ours], got[timm], timm)
		pairs++
	}
	require.Equal(t, len(sd), pairs)

	back := adapt(m, got)
	require.Len(t, back, len(sd))
	for k, v := range sd {
		require.Same(t, v, back[k], k)
	}
	_, err = TimmState("squeezenet1_1", sd)
	require.ErrorContains(t, err, "timm has no model")
	for _, name := range Names() {
		if timm, ok := TimmName(name); ok {
			require.Equal(t, name, OfTimm(timm))
		}
	}
	sd["extra.weight"] = sd["classifier.1.weight"]
	_, err = TimmState("mobilenet_v2", sd)
	require.ErrorContains(t, err, "extra.weight")
}
