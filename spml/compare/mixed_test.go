package compare

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/train"
)

// TestMixedDataAreRefused: runs on two data sets are no comparison, both in a report and before anything is trained.
func TestMixedDataAreRefused(t *testing.T) {
	dir := t.TempDir()
	csv := train.Config{Data: testroot.Shared(t, "data", "miml"), Method: "an", Mode: train.Frozen, Features: testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy"), Epochs: 1, Run: filepath.Join(dir, "miml")}
	drawn := train.Config{Data: "shapes", DataOptions: "train=8,val=4,test=4", Method: "an", Epochs: 1, ImageSize: 32, Run: filepath.Join(dir, "shapes")}
	seed := drawn
	seed.Seed, seed.Run = 7, filepath.Join(dir, "seed")
	csv.Seed = 1200
	for _, c := range []train.Config{csv, drawn, seed} {
		_, err := train.Run(context.Background(), c, train.Events{})
		require.NoError(t, err)
	}
	var wrong *train.ConfigError
	_, _, err := Collect([]string{csv.Run, drawn.Run}, 10)
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, csv.Data)
	require.ErrorContains(t, err, "on shapes")
	_, _, err = Collect([]string{drawn.Run, csv.Run}, 10)
	require.ErrorAs(t, err, &wrong)
	_, groups, err := Collect([]string{drawn.Run, seed.Run}, 10)
	require.NoError(t, err, "seeds draw other pictures of one data set")
	require.Len(t, groups, 1)

	v, err := Methods([]string{"an", "em:data=elsewhere"})
	require.NoError(t, err)
	_, err = Run(context.Background(), Options{Settings: map[string]any{"data": "shapes"}, Variants: v, Seeds: []uint32{1}, Dir: filepath.Join(dir, "cmp")})
	require.ErrorContains(t, err, "scores on two data sets do not compare")
}
