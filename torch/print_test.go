package torch_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
)

type printCase struct {
	Name, DType, Then, Text string
	Shape                   []int
	Data                    []byte
}

func dtypeNamed(t *testing.T, name string) torch.DType {
	t.Helper()
	for _, d := range []torch.DType{torch.Bool, torch.Uint8, torch.Int8, torch.Int16, torch.Int32, torch.Int64,
		torch.Float16, torch.BFloat16, torch.Float32, torch.Float64, torch.Complex64} {
		if d.String() == name {
			return d
		}
	}
	require.FailNow(t, "no such dtype", name)
	return 0
}

func (c *printCase) tensor(t *testing.T) *torch.Tensor {
	t.Helper()
	x := torch.FromBytes(c.Data, dtypeNamed(t, c.DType), c.Shape...)
	switch c.Then {
	case "":
		return x
	case "grad":
		return x.SetRequiresGrad(true)
	case "t":
		return x.T()
	case "meta":
		return torch.Empty(c.Shape, x.DType(), torch.Meta)
	case "mul":
		return x.SetRequiresGrad(true).Mul(x)
	case "sum":
		return x.SetRequiresGrad(true).Sum()
	case "view":
		return x.SetRequiresGrad(true).View(-1)
	case "select":
		return x.SetRequiresGrad(true).Select(0, 0)
	case "slice":
		return x.Slice(1, 0, 1<<40, 2)
	case "conj":
		return torch.Call("aten::_conj", x)[0].(*torch.Tensor)
	}
	require.FailNow(t, "no such change", c.Then)
	return nil
}

// The texts are Python's (testdata/torch/make_print.py).
func TestString(t *testing.T) {
	raw, err := os.ReadFile(testroot.Testdata("torch", "print.json"))
	require.NoError(t, err)
	var golden struct{ Cases []printCase }
	require.NoError(t, json.Unmarshal(raw, &golden))
	require.GreaterOrEqual(t, len(golden.Cases), 60)
	for _, c := range golden.Cases {
		t.Run(c.Name, func(t *testing.T) {
			torch.Scope(func(*torch.Arena) {
				require.Equal(t, c.Text, c.tensor(t).String())
			})
		})
	}
}

// Autograd's symbolic zeros have no storage until they are copied.
func TestStringOfSymbolicZeros(t *testing.T) {
	x := torch.Call("aten::_efficientzerotensor", torch.S(2), torch.Float32)[0].(*torch.Tensor)
	require.Equal(t, "tensor([0., 0.])", x.String())
	require.Equal(t, []float32{0, 0}, torch.ToSlice[float32](x))
	require.Equal(t, "tensor([[0.],\n        [0.]])", x.Unsqueeze(1).String())
	require.Equal(t, []float32{0, 0, 0, 0}, torch.ToSlice[float32](x.Unsqueeze(1).Expand(2, 2)))
}

func TestStringNeverPanics(t *testing.T) {
	var none *torch.Tensor
	require.Equal(t, "tensor(<nil>)", none.String())
	var zero torch.Tensor
	require.Equal(t, "tensor(<freed>)", zero.String())
	x := torch.Ones(torch.S(2))
	x.Free()
	require.Equal(t, "tensor(<freed>)", x.String())
	var left *torch.Tensor
	torch.Scope(func(*torch.Arena) { left = torch.Ones(torch.S(2)) })
	require.Equal(t, "tensor(<its scope ended>)", left.String())
	deep := torch.Ones([]int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})
	require.True(t, strings.HasPrefix(deep.String(), "tensor([[[["), deep)
	deeper := deep.Unsqueeze(0)
	require.Contains(t, deeper.String(), "17 dimensions")
	sparse := torch.Call("aten::to_sparse", torch.Eye(3))[0].(*torch.Tensor)
	require.Equal(t, "tensor(..., size=(3, 3))", sparse.String())
}

// Printing leaves nothing behind.
func TestStringFrees(t *testing.T) {
	x := torch.Randn(torch.S(100, 100))
	before := torch.Live()
	require.Contains(t, x.String(), "...")
	require.Equal(t, before, torch.Live())
}

func TestGradFn(t *testing.T) {
	x := torch.Ones(torch.S(2), torch.RequiresGrad)
	require.Empty(t, x.GradFn())
	require.Equal(t, "MulBackward0", x.Mul(x).GradFn())
}
