package onnx

import (
	"fmt"
	"math"
	"unsafe"

	"google.golang.org/protobuf/proto"

	"github.com/gospml/gospml/spml/internal/graph"
	"github.com/gospml/gospml/spml/onnx/internal/onnxpb"
	"github.com/gospml/gospml/torch"
)

// writer collects the nodes of a graph and their constants. Values are known by their names.
type writer struct {
	graph   *onnxpb.GraphProto
	tensors map[*torch.Tensor]string // constants that are there already
	turned  map[*torch.Tensor]string // those of matrices the other way round
	shapes  map[string]string        // those of whole numbers, by what they hold
	pending error                    // the first layer that cannot be written
}

func newWriter() *writer {
	return &writer{
		graph:   &onnxpb.GraphProto{Name: proto.String("spml")},
		tensors: map[*torch.Tensor]string{}, turned: map[*torch.Tensor]string{}, shapes: map[string]string{},
	}
}

// refuse keeps the first error.
func (w *writer) refuse(format string, a ...any) {
	if w.pending == nil {
		w.pending = fmt.Errorf("%w for "+format, append([]any{graph.ErrForm}, a...)...)
	}
}

// attribute is a number, some, or a text of a node.
func attribute(name string, v any) *onnxpb.AttributeProto {
	a := &onnxpb.AttributeProto{Name: &name}
	switch v := v.(type) {
	case int:
		a.Type, a.I = onnxpb.AttributeProto_INT.Enum(), proto.Int64(int64(v))
	case float64:
		a.Type, a.F = onnxpb.AttributeProto_FLOAT.Enum(), proto.Float32(float32(v))
	case []int:
		a.Type = onnxpb.AttributeProto_INTS.Enum()
		for _, i := range v {
			a.Ints = append(a.Ints, int64(i))
		}
	}
	return a
}

// node adds an operation of one result and gives its name. Attributes are names and values in turn.
func (w *writer) node(op string, inputs []string, attributes ...any) string {
	return w.nodes(op, inputs, 1, attributes...)[0]
}

// nodes is node of several results.
func (w *writer) nodes(op string, inputs []string, results int, attributes ...any) []string {
	name := fmt.Sprintf("%s_%d", op, len(w.graph.Node))
	n := &onnxpb.NodeProto{OpType: &op, Name: &name, Input: inputs}
	for i := range results {
		out := name
		if results > 1 {
			out = fmt.Sprintf("%s_%d", name, i)
		}
		n.Output = append(n.Output, out)
	}
	for i := 0; i+1 < len(attributes); i += 2 {
		n.Attribute = append(n.Attribute, attribute(attributes[i].(string), attributes[i+1]))
	}
	w.graph.Node = append(w.graph.Node, n)
	return n.Output
}

// rename gives the result of the last node the name of an output of the graph.
func (w *writer) rename(to string) {
	last := w.graph.Node[len(w.graph.Node)-1]
	last.Output[0] = to
}

// constant makes a tensor a constant in float32; the same tensor is written once.
func (w *writer) constant(t *torch.Tensor) string {
	if name, ok := w.tensors[t]; ok {
		return name
	}
	name := w.floats(t.Shape(), torch.ToSlice[float32](t.Detach().ToDType(torch.Float32).Contiguous()))
	w.tensors[t] = name
	return name
}

// floats is a constant of numbers, which must not be changed afterwards.
func (w *writer) floats(shape []int, v []float32) string {
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
	return w.initializer(onnxpb.TensorProto_FLOAT, shape, raw)
}

// number is a constant of one number.
func (w *writer) number(v float64) string {
	key := fmt.Sprint("float ", v)
	name, ok := w.shapes[key]
	if !ok {
		name = w.floats(nil, []float32{float32(v)})
		w.shapes[key] = name
	}
	return name
}

// ints is a constant of whole numbers.
func (w *writer) ints(v ...int64) string {
	key := fmt.Sprint("ints ", v)
	name, ok := w.shapes[key]
	if !ok {
		raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 8*len(v))
		name = w.initializer(onnxpb.TensorProto_INT64, []int{len(v)}, raw)
		w.shapes[key] = name
	}
	return name
}

func (w *writer) initializer(kind onnxpb.TensorProto_DataType, shape []int, raw []byte) string {
	name := fmt.Sprintf("constant_%d", len(w.graph.Initializer))
	t := &onnxpb.TensorProto{Name: &name, DataType: proto.Int32(int32(kind)), RawData: raw}
	for _, n := range shape {
		t.Dims = append(t.Dims, int64(n))
	}
	w.graph.Initializer = append(w.graph.Initializer, t)
	return name
}

// value declares what a graph takes or gives: any number of rows of this shape.
func value(name string, kind onnxpb.TensorProto_DataType, shape ...int) *onnxpb.ValueInfoProto {
	s := &onnxpb.TensorShapeProto{Dim: []*onnxpb.TensorShapeProto_Dimension{
		{Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "batch"}},
	}}
	for _, n := range shape {
		s.Dim = append(s.Dim, &onnxpb.TensorShapeProto_Dimension{
			Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(n)},
		})
	}
	t := &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(int32(kind)), Shape: s}
	return &onnxpb.ValueInfoProto{Name: &name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: t}}}
}

// Layers that several networks have, in terms of the operators of opset 17.

func (w *writer) plus(x, y string) string  { return w.node("Add", []string{x, y}) }
func (w *writer) times(x, y string) string { return w.node("Mul", []string{x, y}) }

func (w *writer) turn(x string, order ...int) string {
	return w.node("Transpose", []string{x}, "perm", order)
}

// reshape keeps a dimension where 0 stands; -1 is what is left.
func (w *writer) reshape(x string, shape ...int64) string {
	return w.node("Reshape", []string{x, w.ints(shape...)})
}

// slice takes from … to of a dimension.
func (w *writer) slice(x string, dim, from, to int64) string {
	return w.node("Slice", []string{x, w.ints(from), w.ints(to), w.ints(dim)})
}

// linear maps the last dimension: weight [out, in], bias [out] or nil.
func (w *writer) linear(x string, weight, bias *torch.Tensor) string {
	turned, ok := w.turned[weight]
	if !ok {
		turned = w.constant(weight.Detach().T().Contiguous())
		w.turned[weight] = turned
	}
	y := w.node("MatMul", []string{x, turned})
	if bias != nil {
		y = w.plus(y, w.constant(bias))
	}
	return y
}

// norm normalises the last dimension.
func (w *writer) norm(x string, gain, bias *torch.Tensor, eps float64) string {
	inputs := []string{x, w.constant(gain)}
	if bias != nil {
		inputs = append(inputs, w.constant(bias))
	}
	return w.node("LayerNormalization", inputs, "axis", -1, "epsilon", eps)
}

// act applies an activation. Those that are no operators of opset 17 are written out.
func (w *writer) act(x string, a graph.Act) string {
	switch a {
	case graph.None:
		return x
	case graph.ReLU:
		return w.node("Relu", []string{x})
	case graph.ReLU6:
		return w.node("Clip", []string{x, w.number(0), w.number(6)})
	case graph.GELU: // x·(1 + erf(x/√2))/2
		e := w.node("Erf", []string{w.node("Div", []string{x, w.number(math.Sqrt2)})})
		return w.times(w.times(x, w.plus(e, w.number(1))), w.number(0.5))
	case graph.GELUTanh: // x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2
		cube := w.times(w.times(w.times(x, x), x), w.number(0.044715))
		t := w.node("Tanh", []string{w.times(w.plus(x, cube), w.number(math.Sqrt(2/math.Pi)))})
		return w.times(w.times(x, w.plus(t, w.number(1))), w.number(0.5))
	case graph.QuickGELU:
		return w.times(x, w.node("Sigmoid", []string{w.times(x, w.number(1.702))}))
	}
	w.refuse("the activation %d", a)
	return x
}

// attention is softmax(q·kᵀ·scale)·v of each head, over tokens [B, N, width]; q may have one row for all images.
func (w *writer) attention(q, k, v string, width, heads int, scale float64) string {
	cut := func(x string, order ...int) string {
		return w.turn(w.reshape(x, 0, -1, int64(heads), int64(width/heads)), order...)
	}
	scores := w.node("MatMul", []string{cut(q, 0, 2, 1, 3), cut(k, 0, 2, 3, 1)})
	weights := w.node("Softmax", []string{w.times(scores, w.number(scale))}, "axis", -1)
	y := w.node("MatMul", []string{weights, cut(v, 0, 2, 1, 3)})
	return w.reshape(w.turn(y, 0, 2, 1, 3), 0, -1, int64(width))
}
