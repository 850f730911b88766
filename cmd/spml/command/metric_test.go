package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// metricFiles are the five images and four classes of the metric goldens, whose mAP is 66.67.
func metricFiles(t *testing.T) (scores, labels, observed string) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	return write("scores.csv", "image,a,b,c,d\n0,.9,.2,.3,.76\n1,.1,.8,.4,.5\n2,.6,.7,.2,.6\n3,.55,.51,.1,.2\n4,.3,.74,.9,.75\n"),
		write("labels.csv", "image,a,b,c,d\n4,0,0,0,1\n3,1,0,0,0\n2,0,1,0,1\n1,0,1,0,0\n0,1,0,0,1\n"),
		write("observed.csv", "1,0,0,0\n0,1,0,0\n0,0,0,1\n1,0,0,0\n0,0,0,1\n")
}

func metricCommand(args ...string) (string, error) {
	var out bytes.Buffer
	c := newRoot()
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(append([]string{"metric"}, args...))
	err := c.Execute()
	return out.String(), err
}

func TestMetric(t *testing.T) {
	scores, labels, observed := metricFiles(t)
	out, err := metricCommand(scores, labels, "--json", "--by-class", "--threshold", "0.75", "--observed", observed, "--pseudo", observed, "--against", scores, "--best-thresholds")
	require.NoError(t, err)
	var r struct {
		Images, Classes int
		MAP             float64
		Micro, Macro    struct{ Precision, Recall, F1 float64 }
		At              []struct {
			K                      int
			Precision, Recall, Top float64
		}
		PerClass []struct {
			Class string
			AP    float64
		} `json:"per_class"`
		Calibration struct{ ECE float64 }
		Comparison  struct {
			Difference struct{ Value, Low, High float64 }
			P          float64
		}
		Separation struct{ W1 float64 }
		Pseudo     struct{ Pseudo, Correct, Hidden int } `json:"pseudo_labels"`
		Interval   struct{ Low, High float64 }           `json:"map_interval"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	require.Equal(t, [2]int{5, 4}, [2]int{r.Images, r.Classes})
	require.InDelta(t, 66.6666666667, r.MAP, 1e-9)
	require.InDeltaSlice(t, []float64{0.545454545455, 0.458333333333, 0.75, 0.333333333333}, []float64{r.Micro.F1, r.Macro.F1, r.Macro.Precision, r.Macro.Recall}, 1e-9)
	require.Equal(t, 3, r.At[1].K)
	require.InDelta(t, 0.466666666667, r.At[1].Precision, 1e-9)
	require.Equal(t, "b", r.PerClass[1].Class)
	require.InDelta(t, 0.833333333333, r.PerClass[1].AP, 1e-9)
	require.Equal(t, 1., r.Comparison.P, "the same scores do not differ")
	require.Zero(t, r.Comparison.Difference.High)
	require.Positive(t, r.Separation.W1)
	require.Equal(t, 2, r.Pseudo.Hidden)
	require.Less(t, r.Interval.Low, r.MAP)

	out, err = metricCommand(scores, labels, "--by-class", "--method", "em", "--bootstrap", "50", "--observed", observed)
	require.NoError(t, err)
	require.Contains(t, out, "micro P, R, F1 at 0.75")
	require.Contains(t, out, "66.6667   95 % of resamples")
	out, err = metricCommand(labels, labels)
	require.NoError(t, err)
	require.Contains(t, out, "75.0000", "a class without positives stays in the mean")
}

func TestMetricErrors(t *testing.T) {
	scores, labels, observed := metricFiles(t)
	bad := filepath.Join(t.TempDir(), "nan.csv")
	require.NoError(t, os.WriteFile(bad, []byte("1,0,0,0\n0,nan,0,0\n0,0,0,1\n1,0,0,0\n0,0,0,1\n"), 0o600))
	for want, args := range map[string][]string{
		"nan.csv: metric: the score of row 1, class 1 is NaN":  {bad, observed},
		"scores.csv: row 0, column \"a\": 0.9 is no label":     {scores, scores},
		"--method and --threshold":                             {scores, labels, "--method", "em", "--threshold", "1"},
		`unknown form of average precision "area"`:             {scores, labels, "--ap", "area"},
		"for --ap step only":                                   {scores, labels, "--ap", "rank", "--bootstrap", "3"},
		"add --by-class":                                       {scores, labels, "--best-thresholds"},
		"--pseudo needs --observed":                            {scores, labels, "--pseudo", labels},
		"precision at 0 classes":                               {scores, labels, "--k", "0"},
		"2 thresholds for 4 classes":                           {scores, labels, "--threshold", "1,2"},
		"a file of scores and one of labels":                   {scores},
		"no such file":                                         {scores, "none.npy"},
		"a matrix comes from .npy, .npz, .safetensors or .csv": {"x.txt", labels},
		"--bootstrap wants a number of resamples and --level":  {scores, labels, "--level", "1"},
		"--bins wants at least 1":                              {scores, labels, "--bins", "0"},
	} {
		_, err := metricCommand(args...)
		require.ErrorContains(t, err, want)
	}
	code, _, _ := spml(t, nil, "metric", bad, observed)
	require.Equal(t, exitData, code)
	code, _, _ = spml(t, nil, "metric", scores, scores)
	require.Equal(t, exitData, code)
	code, _, _ = spml(t, nil, "metric", scores)
	require.Equal(t, exitUsage, code)
}
