package metric

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/internal/testroot"
)

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(testroot.Testdata("metric", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into))
}

func TestGoldenAP(t *testing.T) {
	var g struct {
		Metrics struct {
			AP []struct {
				Name  string
				Y     []int8
				Score []float32
				AP    float64
				Rank  float64 `json:"ap_rank_variant"`
			}
			Matrix struct {
				Y     [][]int8
				Score [][]float32
				Per   []float64 `json:"ap_per_class"`
				MAP   float64   `json:"map_percent"`
			}
		}
	}
	readJSON(t, "golden.json", &g)
	require.Len(t, g.Metrics.AP, 9)
	for _, c := range g.Metrics.AP {
		step, err := AveragePrecision(c.Score, c.Y, 1, Step)
		require.NoError(t, err)
		require.InDelta(t, c.AP, step[0], 1e-12, c.Name)
		rank, err := AveragePrecision(c.Score, c.Y, 1, Rank)
		require.NoError(t, err)
		require.InDelta(t, c.Rank, rank[0], 1e-12, c.Name)
	}
	var scores []float32
	var labels []int8
	for i := range g.Metrics.Matrix.Y {
		scores = append(scores, g.Metrics.Matrix.Score[i]...)
		labels = append(labels, g.Metrics.Matrix.Y[i]...)
	}
	per, err := AveragePrecision(scores, labels, 4, Step)
	require.NoError(t, err)
	require.InDeltaSlice(t, g.Metrics.Matrix.Per, per, 1e-12)
	m, err := MAP(scores, labels, 4)
	require.NoError(t, err)
	require.InDelta(t, g.Metrics.Matrix.MAP, m, 1e-9)
}

// drawCase makes case i of testdata/metric/sklearn.json again: the same numbers from the same generator.
func drawCase(seed int) (scores []float32, labels []int8) {
	g := random.New(uint32(seed))
	randint := func(lo, hi int64) int64 {
		v, err := g.Randint(lo, hi)
		if err != nil {
			panic(err)
		}
		return v
	}
	n, kind := int(randint(1, 400)), randint(0, 6)
	share := g.RandomSample()
	scores, labels = make([]float32, n), make([]int8, n)
	for i := range scores {
		u := g.RandomSample()
		switch kind {
		case 0:
		case 1:
			u = math.Floor(u*8) / 8
		case 2:
			u = math.RoundToEven(u*64)/64 - 0.5
			if i%5 == 0 {
				u = math.Copysign(0, -1)
			}
		case 3:
			u = (u - 0.5) * 1e4
		case 4:
			u = 0.25
		case 5:
			u = 1 - u*1e-7
		}
		scores[i] = float32(u)
	}
	for i := range labels {
		if g.RandomSample() < share*share {
			labels[i] = 1
		}
	}
	switch randint(0, 10) {
	case 0:
		clear(labels)
	case 1:
		for i := range labels {
			labels[i] = 1
		}
	}
	return scores, labels
}

func TestScikitLearn(t *testing.T) {
	var g struct {
		AP [][2]float64
	}
	readJSON(t, "sklearn.json", &g)
	require.Len(t, g.AP, 500)
	for i, want := range g.AP {
		scores, labels := drawCase(i)
		step, err := AveragePrecision(scores, labels, 1, Step)
		require.NoError(t, err)
		require.InDelta(t, want[0], step[0], 1e-12, "case %d", i)
		rank, err := AveragePrecision(scores, labels, 1, Rank)
		require.NoError(t, err)
		require.InDelta(t, want[1], rank[0], 1e-12, "case %d", i)
	}
}

// TestManyClasses puts cases of one length side by side, so that every place within a block of classes and a last short block are used.
func TestManyClasses(t *testing.T) {
	t.Run("without negative scores", func(t *testing.T) { manyClasses(t, 0) })
	t.Run("with negative scores", func(t *testing.T) { manyClasses(t, -5) })
}

func manyClasses(t *testing.T, shift float32) {
	const n, classes = 300, 2*lanes + 5
	scores, labels := make([]float32, n*classes), make([]int8, n*classes)
	column := make([][]float32, classes)
	truth := make([][]int8, classes)
	for c := range classes {
		g := random.New(uint32(c))
		for row := range n {
			s := float32(math.Floor(g.RandomSample()*100))/10 + shift
			y := int8(0)
			switch p := g.RandomSample(); {
			case p < 0.2:
				y = 1
			case p < 0.4:
				y = -1 // an observed negative counts as a negative
			}
			scores[row*classes+c], labels[row*classes+c] = s, y
			column[c], truth[c] = append(column[c], s), append(truth[c], y)
		}
	}
	for _, v := range []Variant{Step, Rank} {
		all, err := AveragePrecision(scores, labels, classes, v)
		require.NoError(t, err)
		for c := range classes {
			one, err := AveragePrecision(column[c], truth[c], 1, v)
			require.NoError(t, err)
			require.Equal(t, one[0], all[c], "class %d", c)
			require.InDelta(t, naiveAP(column[c], truth[c], v), all[c], 1e-13, "class %d", c)
		}
	}
}

// naiveAP counts for every positive the rows that stand at or before it, straight from the definitions.
func naiveAP(s []float32, y []int8, v Variant) float64 {
	positives, sum := 0.0, 0.0
	for i := range s {
		if y[i] != 1 {
			continue
		}
		positives++
		seen, hits := 0.0, 0.0
		for j := range s {
			if s[j] > s[i] || s[j] == s[i] && (v == Step || j >= i) {
				seen++
				if y[j] == 1 {
					hits++
				}
			}
		}
		sum += hits / seen
	}
	if v == Rank {
		return sum / (positives + 1e-8)
	}
	return sum / max(positives, 1)
}

func TestErrors(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		scores := make([]float32, 20*18)
		scores[13*20+17] = float32(bad)
		_, err := MAP(scores, make([]int8, len(scores)), 20)
		var se *ScoreError
		require.ErrorAs(t, err, &se)
		require.Equal(t, [2]int{13, 17}, [2]int{se.Row, se.Class})
		require.ErrorContains(t, err, fmt.Sprintf("row 13, class 17 is %v", bad))
	}
	_, err := MAP(make([]float32, 5), make([]int8, 5), 2)
	require.ErrorContains(t, err, "5 scores do not fill rows of 2 classes")
	_, err = MAP(make([]float32, 4), make([]int8, 6), 2)
	require.ErrorContains(t, err, "4 scores but 6 labels")
	_, err = MAP[float32](nil, nil, 0)
	require.Error(t, err)
	_, err = AveragePrecision[float32](nil, nil, 3, "voc11")
	require.ErrorContains(t, err, "step, rank, openimages or voc2007")
	m, err := MAP[float32](nil, nil, 300)
	require.NoError(t, err)
	require.Zero(t, m)
	v, err := ParseVariant("rank")
	require.NoError(t, err)
	require.Equal(t, Rank, v)
}

// BenchmarkMAP scores a matrix of COCO's size, 40,504 × 80 with 3.6 % positives.
func BenchmarkMAP(b *testing.B) {
	const n, classes = 40504, 80
	scores, labels := make([]float32, n*classes), make([]int8, n*classes)
	g := random.New(1)
	for i := range scores {
		logit := 8*g.RandomSample() - 6
		if g.RandomSample() < 0.036 {
			labels[i] = 1
			logit += 3
		}
		scores[i] = float32(1 / (1 + math.Exp(-logit)))
	}
	for _, v := range []Variant{Step, Rank} {
		b.Run(string(v), func(b *testing.B) {
			for b.Loop() {
				if _, err := AveragePrecision(scores, labels, classes, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
