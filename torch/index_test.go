package torch_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
)

// indexItem is one index of testdata/torch/index.json; make_index.py says what the fields mean.
type indexItem struct {
	Int   *int
	Range []*int
	New   int
	Dots  int
	Bool  *bool
	Pos   []float64
	Mask  []bool
	Shape []int
	DType string
}

func (i *indexItem) decode(t *testing.T) any {
	orElse := func(p *int, v int) int {
		if p == nil {
			return v
		}
		return *p
	}
	switch {
	case i.Int != nil:
		return *i.Int
	case i.Range != nil:
		r := torch.R(orElse(i.Range[0], 0), orElse(i.Range[1], torch.End), orElse(i.Range[2], 1))
		if i.Range[0] == nil && i.Range[1] == nil && i.Range[2] == nil {
			require.Equal(t, torch.All, r)
		}
		return r
	case i.New == 1:
		return torch.NewAxis
	case i.Dots == 1:
		return torch.Ellipsis
	case i.Bool != nil:
		return *i.Bool
	case i.Mask != nil:
		return torch.FromSlice(i.Mask).Reshape(i.Shape...)
	}
	v := make([]int64, len(i.Pos))
	for k := range v {
		v[k] = int64(i.Pos[k])
	}
	return torch.FromSlice(v).Reshape(i.Shape...).ToDType(dtypeNamed(t, i.DType))
}

type indexCase struct {
	Base, Shape []int
	Index       []indexItem
	Set         json.RawMessage
	Values      []int64
	Error       string
}

// The results are PyTorch's, and NumPy's where it means the same (testdata/torch/make_index.py).
func TestAt(t *testing.T) {
	raw, err := os.ReadFile(testroot.Testdata("torch", "index.json"))
	require.NoError(t, err)
	var golden struct{ Cases []indexCase }
	require.NoError(t, json.Unmarshal(raw, &golden))
	require.NotEmpty(t, golden.Cases)
	for n, c := range golden.Cases {
		numel := 1
		for _, s := range c.Base {
			numel *= s
		}
		torch.Scope(func(*torch.Arena) {
			x := torch.Arange(0, numel, 1).Reshape(c.Base...)
			var idx []any
			for _, i := range c.Index {
				idx = append(idx, i.decode(t))
			}
			var got *torch.Tensor
			before := torch.Live()
			err := torch.Try(func() {
				if c.Set == nil {
					got = x.At(idx...)
					return
				}
				x.SetAt(assigned(t, c.Set), idx...)
				got = x.Detach()
			})
			if c.Error != "" {
				require.Error(t, err, "case %d: %+v", n, c)
				if c.Error == "IndexError" {
					require.ErrorIs(t, err, torch.ErrIndex, "case %d", n)
				}
				require.Equal(t, before, torch.Live()-valueTensors(c.Set), "case %d leaves temporaries", n)
				return
			}
			require.NoError(t, err, "case %d: %+v", n, c)
			require.Equal(t, c.Shape, got.Shape(), "case %d: %+v", n, c)
			require.Equal(t, c.Values, torch.ToSlice[int64](got), "case %d: %+v", n, c)
			got.Free()
			require.Equal(t, before, torch.Live()-valueTensors(c.Set), "case %d leaves temporaries", n)
		})
	}
}

// valueTensors is how many tensors assigned made that stay.
func valueTensors(set json.RawMessage) int {
	if len(set) > 0 && set[0] == '{' {
		return 2 // the elements and their reshape
	}
	return 0
}

func assigned(t *testing.T, set json.RawMessage) any {
	if valueTensors(set) == 0 {
		var v int
		require.NoError(t, json.Unmarshal(set, &v))
		return v
	}
	var v struct {
		Values []int64
		Shape  []int
	}
	require.NoError(t, json.Unmarshal(set, &v))
	return torch.FromSlice(v.Values).Reshape(v.Shape...)
}

func TestAtSlices(t *testing.T) {
	x := torch.Arange(0, 12, 1).Reshape(3, 4)
	require.Equal(t, []int64{8, 9, 10, 11, 0, 1, 2, 3}, torch.ToSlice[int64](x.At([]int{2, 0})))
	require.Equal(t, []int64{0, 2, 4, 6, 8, 10}, torch.ToSlice[int64](x.At(torch.All, []bool{true, false, true, false})))
}

// Ranges and integers give views, positions copies.
func TestAtIsView(t *testing.T) {
	x := torch.Zeros(torch.S(3, 4))
	x.At(1, torch.R(0, 2)).Fill_(7)
	x.At().At(torch.Ellipsis, -1).Fill_(1)
	x.At([]int{0}).Fill_(5)
	require.Equal(t, []float32{0, 0, 0, 1, 7, 7, 0, 1, 0, 0, 0, 1}, torch.ToSlice[float32](x))
}

func TestAtGradient(t *testing.T) {
	x := torch.Arange(0., 6., 1.).Reshape(2, 3).Detach().SetRequiresGrad(true)
	x.At(torch.All, []int{0, 0, 2}).Sum().Backward()
	require.Equal(t, []float32{2, 0, 1, 2, 0, 1}, torch.ToSlice[float32](x.Grad()))
	require.Error(t, torch.Try(func() { x.SetAt(1, 0) }), "a leaf that requires grad is not to be changed in place")
}

func TestSetAtConverts(t *testing.T) {
	x := torch.Zeros(torch.S(3), torch.Int64)
	x.SetAt(2.75, 0)
	x.SetAt(1.5, []int{1})
	x.SetAt(true, 2)
	require.Equal(t, []int64{2, 1, 1}, torch.ToSlice[int64](x))
}

func TestAtErrors(t *testing.T) {
	x := torch.Zeros(torch.S(2, 3))
	for _, c := range []struct {
		want string
		f    func()
	}{
		{"at: [2 3]: 3 indices are too many for 2 dimensions", func() { x.At(0, 0, 0) }},
		{"at: [2 3]: a range with step -1; steps are positive, use Flip to turn a dimension round", func() { x.At(torch.R(2, 0, -1)) }},
		{"at: [2 3]: index 2 is a string; want an int", func() { x.At(0, "1") }},
		{"at: [2 3]: index 1 is a tensor of float32; positions are int64 or int32, masks bool", func() { x.At(torch.Zeros(torch.S(1))) }},
		{"at: [2 3]: a mask of shape [3] does not fit the dimensions [2]", func() { x.At([]bool{true, true, false}) }},
		{"index 5 out of range", func() { x.At(5) }},
		{"the tensor is nil", func() { x.At((*torch.Tensor)(nil)) }},
		{"set_at: [2 3]: 3 indices", func() { x.SetAt(1, 0, 0, 0) }},
	} {
		err := torch.Try(c.f)
		var e *torch.Error
		require.True(t, errors.As(err, &e), "%s: %v", c.want, err)
		require.ErrorContains(t, err, c.want)
	}
}
