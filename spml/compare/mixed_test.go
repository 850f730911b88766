package compare

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/train"
)

// TestMixedDataAreRefused: runs on two data sets are no comparison, both in a report and before anything is trained.
func TestMixedDataAreRefused(t *testing.T) {
	dir := t.TempDir()
	csv := config.Config{
		Data:   config.Data{Path: testroot.Shared(t, "data", "miml")},
		Method: config.Method{ID: "an"},
		Model: config.Model{
			Mode:     config.Frozen,
			Features: config.Paths{testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy")},
		},
		Schedule: config.Schedule{Epochs: 1},
		Run:      config.Run{Dir: filepath.Join(dir, "miml")},
	}
	drawn := config.Config{
		Data:     config.Data{Path: "shapes", Options: config.DataOptions{Train: 8, Val: 4, Test: 4}, ImageSize: 32},
		Method:   config.Method{ID: "an"},
		Schedule: config.Schedule{Epochs: 1},
		Run:      config.Run{Dir: filepath.Join(dir, "shapes")},
	}
	seed := drawn
	seed.Run.Seed, seed.Run.Dir = 7, filepath.Join(dir, "seed")
	csv.Run.Seed = 1200
	for _, c := range []config.Config{csv, drawn, seed} {
		_, err := train.Run(context.Background(), c, train.RunOptions{})
		require.NoError(t, err)
	}
	var wrong *config.Error
	_, _, err := Collect([]string{csv.Run.Dir, drawn.Run.Dir}, 10)
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, csv.Data.Path)
	require.ErrorContains(t, err, "on shapes")
	_, _, err = Collect([]string{drawn.Run.Dir, csv.Run.Dir}, 10)
	require.ErrorAs(t, err, &wrong)
	_, groups, err := Collect([]string{drawn.Run.Dir, seed.Run.Dir}, 10)
	require.NoError(t, err, "seeds draw other pictures of one data set")
	require.Len(t, groups, 1)

	v, err := Methods([]string{"an", "em:data=elsewhere"})
	require.NoError(t, err)
	_, err = Run(context.Background(), Options{Settings: map[string]any{"data": "shapes"}, Variants: v, Seeds: []uint32{1}, Dir: filepath.Join(dir, "cmp")})
	require.ErrorContains(t, err, "scores on two data sets do not compare")
}
