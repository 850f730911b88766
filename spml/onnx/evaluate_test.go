package onnx

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/onnx/internal/onnxpb"
	"github.com/gospml/gospml/torch"
)

// evaluator computes a graph node by node with libtorch's operators, after the definitions of opset 17.
type evaluator struct {
	t      *testing.T
	floats map[string]*torch.Tensor
	ints   map[string][]int
}

// evaluate gives the outputs of a file.
func evaluate(t *testing.T, m *onnxpb.ModelProto, inputs map[string]*torch.Tensor) map[string]*torch.Tensor {
	e := &evaluator{t, inputs, map[string][]int{}}
	for _, c := range m.Graph.Initializer {
		shape := []int{}
		for _, n := range c.Dims {
			shape = append(shape, int(n))
		}
		if c.GetDataType() == int32(onnxpb.TensorProto_INT64) {
			for b := c.RawData; len(b) > 0; b = b[8:] {
				e.ints[c.GetName()] = append(e.ints[c.GetName()], int(int64(binary.LittleEndian.Uint64(b))))
			}
			continue
		}
		v := slices.Clone(unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(c.RawData))), len(c.RawData)/4))
		e.floats[c.GetName()] = torch.FromSlice(v, len(v)).View(shape...)
	}
	for _, n := range m.Graph.Node {
		e.node(n)
	}
	return e.floats
}

func (e *evaluator) node(n *onnxpb.NodeProto) {
	attributes := map[string]*onnxpb.AttributeProto{}
	for _, a := range n.Attribute {
		attributes[a.GetName()] = a
	}
	number := func(name string) int { return int(attributes[name].GetI()) }
	list := func(name string) (v []int) {
		for _, i := range attributes[name].GetInts() {
			v = append(v, int(i))
		}
		return v
	}
	x := func(i int) *torch.Tensor {
		if i >= len(n.Input) {
			return nil
		}
		v := e.floats[n.Input[i]]
		require.NotNil(e.t, v, "%s of %s", n.Input[i], n.GetName())
		return v
	}
	ints := func(i int) []int {
		require.Contains(e.t, e.ints, n.Input[i])
		return e.ints[n.Input[i]]
	}
	var y *torch.Tensor
	switch n.GetOpType() {
	case "Conv":
		p := list("pads")
		require.Equal(e.t, p[:2], p[2:])
		y = torch.Conv2d(x(0), x(1), x(2), list("strides"), p[:2], []int{1, 1}, number("group"))
	case "MaxPool":
		y = x(0).MaxPool2d(list("kernel_shape"), list("strides"), list("pads")[:2], []int{1, 1}, number("ceil_mode") == 1)
	case "GlobalAveragePool":
		y = x(0).MeanDim([]int{2, 3}, true)
	case "Flatten":
		require.Equal(e.t, 1, number("axis"))
		y = x(0).Flatten(1, -1)
	case "ReduceMean":
		y = x(0).MeanDim(list("axes"), number("keepdims") == 1)
	case "LayerNormalization":
		require.Equal(e.t, -1, number("axis"))
		y = torch.LayerNorm(x(0), []int{x(0).Size(-1)}, x(1), x(2), float64(attributes["epsilon"].GetF()))
	case "Transpose":
		y = x(0).Permute(list("perm")...)
	case "Reshape":
		shape := slices.Clone(ints(1))
		for i := range shape {
			if shape[i] == 0 {
				shape[i] = x(0).Size(i)
			}
		}
		y = x(0).Reshape(shape...)
	case "Slice":
		y = x(0).Slice(ints(3)[0], ints(1)[0], min(ints(2)[0], math.MaxInt32), 1)
	case "Pad":
		require.Equal(e.t, []int{0, 1, 0, 0, 0, 0}, ints(1))
		y = x(0).Pad([]int{0, 0, 1, 0}, "constant", x(2).Item())
	case "Concat":
		all := []*torch.Tensor{}
		for i := range n.Input {
			all = append(all, x(i))
		}
		y = torch.Cat(all, number("axis"))
	case "Split":
		at := 0
		for i, size := range ints(1) {
			e.floats[n.Output[i]] = x(0).Narrow(number("axis"), at, size)
			at += size
		}
		return
	case "Unsqueeze":
		y = x(0).Unsqueeze(ints(1)[0])
	case "MatMul":
		y = x(0).Matmul(x(1))
	case "Add":
		y = x(0).Add(x(1))
	case "Sub":
		y = x(0).Sub(x(1))
	case "Mul":
		y = x(0).Mul(x(1))
	case "Div":
		y = x(0).Div(x(1))
	case "Relu":
		y = x(0).Relu()
	case "Clip":
		y = x(0).Clamp(x(1).Item(), x(2).Item())
	case "ReduceSum":
		y = x(0).SumDim(ints(1), number("keepdims") == 1)
	case "Sqrt":
		y = x(0).Sqrt()
	case "Erf":
		y = x(0).Erf()
	case "Tanh":
		y = x(0).Tanh()
	case "Sigmoid":
		y = x(0).Sigmoid()
	case "Softmax":
		y = x(0).Softmax(number("axis"))
	case "Greater":
		y = x(0).Gt(x(1))
	case "Where":
		y = torch.Where(x(0), x(1), x(2))
	case "Cast":
		require.Equal(e.t, int(onnxpb.TensorProto_FLOAT), number("to"))
		y = x(0).ToDType(torch.Float32)
	default:
		require.Fail(e.t, "no such operator", n.GetOpType())
	}
	e.floats[n.Output[0]] = y
}
