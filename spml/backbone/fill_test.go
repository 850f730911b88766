package backbone_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/goldenfill"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// det is the deterministic fill of the goldens: a hash of name and index, in [offset-scale/2, offset+scale/2), float64.
func det(name string, offset, scale float64, shape ...int) *torch.Tensor {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return torch.FromSlice(goldenfill.Values(name, n, offset, scale), shape...)
}

// fill writes the fill of the goldens into a model: float64 values rounded to d, then in the model's type.
func fill(m any, d torch.DType, weightScale func(key string, shape []int) float64) {
	torch.NoGrad(func() {
		nn.Walk(m, func(e nn.Entry) {
			shape := e.Tensor.Shape()
			if len(shape) == 0 {
				return // num_batches_tracked
			}
			offset, scale := 0.0, 0.5
			switch {
			case strings.HasSuffix(e.Key, "running_var") || len(shape) == 1 && strings.HasSuffix(e.Key, ".weight"):
				offset, scale = 1, 1
			case len(shape) > 1:
				scale = weightScale(e.Key, shape)
			}
			torch.Scope(func(*torch.Arena) { e.Tensor.Copy_(det(e.Key, offset, scale, shape...).ToDType(d)) })
		})
	})
}

// byFanIn is the scale of weights in golden_backbones.json and vision.json.
func byFanIn(_ string, shape []int) float64 {
	fan := 1
	for _, n := range shape[1:] {
		fan *= n
	}
	return math.Sqrt(24 / float64(fan))
}

type summary struct {
	Shape  []int     `json:"shape"`
	Sum    float64   `json:"sum"`
	SumSq  float64   `json:"sumsq"`
	AbsMax float64   `json:"abs_max"`
	First  []float64 `json:"first"`
}

// check compares relative to scale (0: the largest value of the tensor itself).
func (s summary) check(t *testing.T, got *torch.Tensor, tol, scale float64, what string) {
	t.Helper()
	require.Equal(t, s.Shape, got.Shape(), what)
	v := torch.ToSlice[float64](got)
	sum, sumsq, largest := 0.0, 0.0, 0.0
	for _, x := range v {
		sum, sumsq, largest = sum+x, sumsq+x*x, max(largest, math.Abs(x))
	}
	if scale == 0 {
		scale = s.AbsMax
	}
	require.InDelta(t, s.AbsMax, largest, tol*scale, what)
	require.InDelta(t, s.Sum, sum, tol*scale*float64(len(v)), what)
	require.InDelta(t, s.SumSq, sumsq, 4*tol*s.SumSq+1e-9*s.SumSq, what)
	for i, x := range s.First {
		require.InDelta(t, x, v[i], tol*scale, "%s, element %d", what, i)
	}
}

type keyList struct {
	Entries int              `json:"entries"`
	Floats  int              `json:"parameters_and_buffers_float"`
	Hash    string           `json:"sha256_of_sorted_lines"`
	Shapes  map[string][]int `json:"shapes"`
}

func (k keyList) check(t *testing.T, m any) {
	t.Helper()
	sd := nn.StateDictOf(m)
	require.Len(t, sd, k.Entries)
	var lines []string
	floats := 0
	for key, x := range sd {
		if k.Shapes != nil {
			require.Equal(t, k.Shapes[key], x.Shape(), key)
		}
		if x.DType().IsFloat() {
			floats += x.Numel()
		}
		dims := strings.Trim(strings.ReplaceAll(fmt.Sprint(x.Shape()), " ", "x"), "[]")
		lines = append(lines, fmt.Sprintf("%s %s %v\n", key, dims, x.DType()))
	}
	require.Equal(t, k.Floats, floats)
	sort.Strings(lines)
	h := sha256.Sum256([]byte(strings.Join(lines, "")))
	require.Equal(t, k.Hash, hex.EncodeToString(h[:]))
}

type statistic struct {
	Sum   float64   `json:"sum"`
	SumSq float64   `json:"sumsq"`
	First []float64 `json:"first"`
}

// UnmarshalJSON takes a bare number too, as num_batches_tracked is one.
func (s *statistic) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return json.Unmarshal(b, &s.Sum)
	}
	type plain statistic
	return json.Unmarshal(b, (*plain)(s))
}

func (s statistic) check(t *testing.T, got *torch.Tensor, tol float64, key string) {
	t.Helper()
	v := torch.ToSlice[float64](got)
	sum, sumsq := 0.0, 0.0
	for _, x := range v {
		sum, sumsq = sum+x, sumsq+x*x
	}
	n := math.Sqrt(float64(len(v)) * max(s.SumSq, sumsq))
	require.InDelta(t, s.Sum, sum, tol*max(n, math.Abs(s.Sum)), key)
	if s.SumSq != 0 {
		require.InEpsilon(t, s.SumSq, sumsq, 4*tol, key)
	}
	for i, x := range s.First {
		require.InDelta(t, x, v[i], tol*max(n, 1), key)
	}
}
