package random

import (
	"math"
	"testing"

	"github.com/gospml/gospml/internal/goldenfill"

	"github.com/stretchr/testify/require"
)

func TestGoldenSplits(t *testing.T) {
	var g struct {
		Random struct {
			Splits map[string]struct {
				N          int
				NTrain     int    `json:"n_train"`
				NVal       int    `json:"n_val"`
				TrainHash  string `json:"train_sha256_int64le"`
				ValHash    string `json:"val_sha256_int64le"`
				Train, Val []int
			} `json:"splits_seed_1200"`
		}
	}
	readJSON(t, "golden.json", &g)
	require.Len(t, g.Random.Splits, 6)
	for name, c := range g.Random.Splits {
		train, val, err := Split(c.N, 0.2, SplitSeed)
		require.NoError(t, err)
		if c.TrainHash == "" {
			require.Equal(t, c.Train, train, name)
			require.Equal(t, c.Val, val, name)
			continue
		}
		require.Len(t, train, c.NTrain, name)
		require.Len(t, val, c.NVal, name)
		require.Equal(t, c.TrainHash, sha256OfInts(train), name)
		require.Equal(t, c.ValHash, sha256OfInts(val), name)
	}
	_, _, err := Split(10, 1.2, SplitSeed)
	require.ErrorContains(t, err, "fraction must lie in [0, 1]")
	train, val, err := Split(0, 0.2, SplitSeed)
	require.NoError(t, err)
	require.Empty(t, train)
	require.Empty(t, val)
}

func TestSinglePositiveTiny(t *testing.T) {
	var g struct {
		Random struct {
			Tiny struct {
				Labels   [][]int8
				Observed [][]int8 `json:"observed_seed_1200"`
				Wrong    [][]int8 `json:"observed_if_negatives_were_not_shuffled"`
			} `json:"single_positive_tiny"`
		}
	}
	readJSON(t, "golden.json", &g)
	var labels, want, wrong []int8
	for i := range g.Random.Tiny.Labels {
		labels = append(labels, g.Random.Tiny.Labels[i]...)
		want = append(want, g.Random.Tiny.Observed[i]...)
		wrong = append(wrong, g.Random.Tiny.Wrong[i]...)
	}
	got, err := SinglePositive(labels, 5, 1200)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NotEqual(t, wrong, got)
}

func TestSinglePositive200x20(t *testing.T) {
	var g struct {
		Random struct {
			Case struct {
				Hash   string `json:"labels_sha256_int64le"`
				Chosen []int  `json:"chosen_class_per_row"`
			} `json:"single_positive_200x20"`
		}
	}
	readJSON(t, "golden.json", &g)
	require.Len(t, g.Random.Case.Chosen, 200)
	labels, ints := make([]int8, 4000), make([]int, 4000)
	for i := range 200 {
		any := false
		for c := range 20 {
			if goldenfill.Unit("labels:200x20", i*20+c)-0.5 > 0.35 {
				labels[i*20+c], any = 1, true
			}
		}
		if !any {
			labels[i*20+i%20] = 1
		}
	}
	for i, v := range labels {
		ints[i] = int(v)
	}
	require.Equal(t, g.Random.Case.Hash, sha256OfInts(ints), "the label matrix itself")
	observed, err := SinglePositive(labels, 20, 1200)
	require.NoError(t, err)
	for i, want := range g.Random.Case.Chosen {
		for c := range 20 {
			require.Equal(t, c == want, observed[i*20+c] == 1, "row %d, class %d", i, c)
		}
	}
}

func TestSinglePositiveErrors(t *testing.T) {
	_, err := SinglePositive([]int8{1, 0, -1, 0}, 2, 1)
	require.ErrorContains(t, err, "row 1, class 0: label -1")
	_, err = SinglePositive([]int8{1, 0, 1}, 2, 1)
	require.ErrorContains(t, err, "3 labels do not fill rows of 2 classes")
	_, err = SinglePositive(nil, 0, 1)
	require.Error(t, err)
}

func TestCoin(t *testing.T) {
	heads, same := 0, 0
	for row := range 10000 {
		if Coin(3, 1, row) {
			heads++
		}
		if Coin(3, 1, row) == Coin(3, 2, row) {
			same++
		}
	}
	require.InDelta(t, 5000, heads, 200)
	require.InDelta(t, 5000, same, 200)
	require.Equal(t, uint64(0xe220a8397b1dcdaf), Mix(0), "first output of splitmix64(0)")
	require.NotEqual(t, Mix(1, 2), Mix(2, 1))
}

// TestReferenceRecipe draws as the reference runs do: one generator for weight, bias and every epoch's order (reference_runs.md 3).
func TestReferenceRecipe(t *testing.T) {
	const classes, dim = 5, 1280
	g := New(1200)
	bound := 1 / math.Sqrt(dim)
	draw := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = g.Uniform(-bound, bound)
		}
		return v
	}
	require.InDeltaSlice(t, []float64{0.00346332, 0.02584715, 0.00970802}, draw(classes * dim)[:3], 5e-9)
	require.InDeltaSlice(t, []float64{-0.00072221, -0.02478273}, draw(classes)[:2], 5e-9)
	require.Equal(t, []int{867, 182, 472, 247, 287, 461}, g.Permutation(1000)[:6])
}
