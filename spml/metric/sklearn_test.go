package metric

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/random"
)

// metricsGolden is testdata/metric/metrics.json, written by make_metrics.py beside it.
type metricsGolden struct {
	Cases, Scaling, Bootstrap [][]float64
	Wasserstein               []float64
}

type drawer struct{ *random.RandomState }

func (g drawer) int(lo, hi int64) int {
	v, err := g.Randint(lo, hi)
	if err != nil {
		panic(err)
	}
	return int(v)
}

// drawMatrix makes the same matrix as matrix() in the script.
func drawMatrix(seed uint32, least int64) (scores []float32, labels []int8, classes int) {
	g := drawer{random.New(seed)}
	n, c, kind, share := g.int(least, 60), g.int(3, 12), g.int(0, 5), g.RandomSample()
	scores, labels = make([]float32, n*c), make([]int8, n*c)
	for i := range scores {
		u := g.RandomSample()
		switch kind {
		case 1:
			u = math.Floor(u*8) / 8
		case 2:
			u = math.RoundToEven(u*20) / 20
		case 3:
			u = 0.25
		case 4:
			u = 1 - u*1e-6
		}
		scores[i] = float32(u)
	}
	for i := range labels {
		switch v := g.RandomSample(); {
		case v < share*share:
			labels[i] = 1
		case v > 0.9:
			labels[i] = -1
		}
	}
	for j := range c {
		if k := g.int(0, 10); k < 3 {
			for i := j; i < len(labels); i += c {
				labels[i] = []int8{0, 1, -1}[k]
			}
		}
	}
	return scores, labels, c
}

// values are in the order of case() in the script.
func values(t *testing.T, r Report, scores []float32, labels []int8, classes int) []float64 {
	out := []float64{r.MAP}
	for _, v := range []Variant{OpenImages, VOC2007} {
		ap, err := AveragePrecision(scores, labels, classes, v)
		require.NoError(t, err)
		out = append(out, 100*Mean(ap))
	}
	for _, f := range []PRF{r.Micro, r.Macro, r.Weighted} {
		out = append(out, f.Precision, f.Recall, f.F1)
	}
	out = append(out, r.Hamming, r.SubsetAccuracy)
	for _, at := range r.At {
		out = append(out, at.Precision, at.Recall, at.Top)
	}
	_, f1, err := BestThresholds(scores, labels, classes, 0.5)
	require.NoError(t, err)
	return append(out, r.Coverage, r.RankingLoss, r.LRAP, r.OneError, r.Calibration.ECE, r.Calibration.ClassECE, r.Calibration.Brier, Mean(f1))
}

func TestRandomMatrices(t *testing.T) {
	var g metricsGolden
	readJSON(t, "metrics.json", &g)
	require.Len(t, g.Cases, 500)
	o := Options{Thresholds: []float64{0.4}, K: []int{1, 3}, Bins: 10}
	for i, want := range g.Cases {
		scores, labels, classes := drawMatrix(uint32(1000+i), 1)
		r, err := Evaluate(scores, labels, classes, o)
		require.NoError(t, err)
		require.InDeltaSlice(t, want, values(t, r, scores, labels, classes), 1e-11, "case %d", i)

		// The same in batches, with a file for what does not fit into a few bytes, and from float64.
		small := o
		small.MaxBytes = 200
		a, err := NewAccumulator[float64](classes, small)
		require.NoError(t, err)
		for from := 0; from < len(scores); from += 7 * classes {
			part := scores[from:min(from+7*classes, len(scores))]
			require.NoError(t, a.Add(doubles(part), labels[from:from+len(part)]))
		}
		again, err := a.Report()
		require.NoError(t, err)
		again.Thresholds = r.Thresholds
		if len(scores) > 200 {
			require.NotNil(t, a.spill)
			require.FileExists(t, a.spill.Name())
			name := a.spill.Name()
			require.NoError(t, a.Close())
			_, err := os.Stat(name)
			require.ErrorIs(t, err, os.ErrNotExist)
		}
		require.InDeltaSlice(t, want[:1], []float64{again.MAP}, 1e-11)
		if i%2 == 1 { // 0.4 lies between other float64 than float32 values, so compare where no score is 0.4
			continue
		}
		require.Equal(t, r.Ranking, again.Ranking)
		require.Equal(t, r.Calibration, again.Calibration)
	}
}

func doubles(s []float32) []float64 {
	out := make([]float64, len(s))
	for i, v := range s {
		out[i] = float64(v)
	}
	return out
}

// The F1 that a threshold promises is the F1 that is counted at it.
func TestBestThresholdsAreReached(t *testing.T) {
	for i := range uint32(200) {
		scores, labels, classes := drawMatrix(1000+i, 1)
		at, f1, err := BestThresholds(scores, labels, classes, 0.5)
		require.NoError(t, err)
		counts, err := CountAt(scores, labels, classes, at...)
		require.NoError(t, err)
		for c, n := range counts {
			if n.TP+n.FN > 0 {
				require.Equal(t, f1[c], n.F1(), "case %d, class %d", i, c)
			} else {
				require.Equal(t, 0.5, at[c])
			}
		}
	}
}

func TestScaling(t *testing.T) {
	var g metricsGolden
	readJSON(t, "metrics.json", &g)
	require.Len(t, g.Scaling, 60)
	for i, want := range g.Scaling {
		d := drawer{random.New(uint32(2000 + i))}
		z := make([]float64, d.int(5, 300))
		for i := range z {
			z[i] = (d.RandomSample() - 0.5) * 12
		}
		y := make([]int8, len(z))
		for i := range y {
			if d.RandomSample() < sigmoid(z[i]*0.6-0.5) {
				y[i] = 1
			}
		}
		temperature, err := Temperature(z, y)
		if want[0] == 0 {
			require.ErrorContains(t, err, "no temperature fits", "case %d", i)
		} else {
			require.NoError(t, err)
			require.InEpsilon(t, want[0], temperature, 1e-8, "case %d", i)
		}
		p, err := FitPlatt(z, y)
		require.NoError(t, err)
		require.InDelta(t, want[1], p.A, 1e-7, "case %d", i)
		require.InDelta(t, want[2], p.B, 1e-7, "case %d", i)
		require.InDelta(t, sigmoid(-want[1]*2-want[2]), p.At(2), 1e-7)
	}
	_, err := Temperature([]float64{-1, 2}, []int8{0, 1})
	require.ErrorContains(t, err, "perfectly")
	_, err = Temperature([]float64{1, -2}, []int8{0, 1})
	require.ErrorContains(t, err, "better than chance")
	p, err := FitPlatt([]float32{3, 3, 3}, []int8{0, 1, 1})
	require.NoError(t, err)
	require.InDelta(t, (2*0.75+1./3)/3, p.At(3), 1e-9, "equal scores get the mean target")
	_, err = FitPlatt([]float32{}, nil)
	require.Error(t, err)
}

func TestBootstrap(t *testing.T) {
	var g metricsGolden
	readJSON(t, "metrics.json", &g)
	require.Len(t, g.Bootstrap, 6)
	for i, want := range g.Bootstrap {
		seed := uint32(3000 + i)
		scores, labels, classes := drawMatrix(seed, 20)
		other := make([]float32, len(scores))
		for i, s := range scores {
			other[i] = float32(math.RoundToEven((float64(s)*0.5+0.2*float64(max(labels[i], 0)))*100) / 100)
		}
		r := Resampling{Replicates: 50, Level: 0.9, Seed: seed}
		m, per, err := BootstrapMAP(scores, labels, classes, r)
		require.NoError(t, err)
		c, err := CompareMAP(scores, other, labels, classes, r)
		require.NoError(t, err)
		require.InDeltaSlice(t, want, []float64{m.Low, m.High, per[0].Low, per[0].High, c.Difference.Low, c.Difference.High, c.P}, 1e-11, "case %d", i)
		value, err := MAP(scores, labels, classes)
		require.NoError(t, err)
		require.InDelta(t, value, m.Value, 1e-11)
		require.InDelta(t, value, c.A, 1e-11)
		require.Equal(t, c.B-c.A, c.Difference.Value)
		again, _, err := BootstrapMAP(scores, labels, classes, r)
		require.NoError(t, err)
		require.Equal(t, m, again, "independent of how goroutines are scheduled")
	}
	_, _, err := BootstrapMAP([]float32{}, nil, 3, Resampling{})
	require.ErrorContains(t, err, "no images")
	_, err = CompareMAP([]float32{1}, []float32{1, 2}, []int8{1}, 1, Resampling{})
	require.ErrorContains(t, err, "1 scores of one model and 2 of the other")
	_, err = CompareMAP([]float32{1}, []float32{1}, []int8{1}, 1, Resampling{Level: 1})
	require.ErrorContains(t, err, "at level 1")
}

func TestWasserstein(t *testing.T) {
	var g metricsGolden
	readJSON(t, "metrics.json", &g)
	require.Len(t, g.Wasserstein, 60)
	for i, want := range g.Wasserstein {
		d := drawer{random.New(uint32(4000 + i))}
		a := make([]float64, d.int(1, 50))
		for i := range a {
			a[i] = d.RandomSample()
		}
		b := make([]float64, d.int(1, 50))
		for i := range b {
			b[i] = d.RandomSample()
		}
		for i := range a {
			a[i] = math.RoundToEven(a[i]*100) / 100
		}
		for i := range b {
			b[i] = math.RoundToEven(b[i]*0.7*100) / 100
		}
		w, err := Wasserstein(a, b)
		require.NoError(t, err)
		require.InDelta(t, want, w, 1e-12, "case %d", i)
	}
	_, err := Wasserstein(nil, []float64{1})
	require.ErrorContains(t, err, "empty sample")
	_, err = Wasserstein([]float64{1}, []float64{math.NaN()})
	require.ErrorContains(t, err, "with NaN")
}
