package nn_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

type attention struct {
	OutProj      *nn.Linear
	InProjWeight *torch.Tensor
	InProjBias   *torch.Tensor `torch:"in_proj_b"`
	Mask         *torch.Tensor `torch:"attn_mask,buffer,nonpersistent"`
	Cache        *torch.Tensor `torch:"-"`
	hidden       *torch.Tensor
}

type named struct {
	Scale *torch.Tensor
}

type model struct {
	named  // an embedded struct's fields are the model's own
	Conv1  *nn.Conv2d
	BN1    *nn.BatchNorm2d
	MLP    nn.Sequential
	Blocks []*attention
	Heads  map[string]*nn.Linear
	QKVB   *torch.Tensor
	Tied   *nn.Linear
	None   *nn.Linear
	Parent *model
	Sizes  []int
	Pair   [2]nn.Layer
	ByName map[string]float64
}

func newModel() *model {
	one := func() *torch.Tensor { return torch.Ones(torch.S(1), torch.RequiresGrad) }
	m := &model{
		named: named{one()}, Conv1: nn.NewConv2d(1, 1, 1, nn.Bias(false)), BN1: nn.NewBatchNorm2d(1),
		MLP:    nn.Sequential{nn.NewLinear(1, 1), nn.ReLU{}, nn.NewDropout(0.5), nn.NewFlatten(), nn.Sequential{nn.NewLinear(1, 1)}},
		Blocks: []*attention{{OutProj: nn.NewLinear(1, 1), InProjWeight: one(), InProjBias: one(), Mask: one(), Cache: one(), hidden: one()}},
		Heads:  map[string]*nn.Linear{"b": nn.NewLinear(1, 1), "a": nn.NewLinear(1, 1)},
		QKVB:   one(), Sizes: []int{1}, Pair: [2]nn.Layer{nn.Identity{}, nn.NewLinear(1, 1)},
	}
	m.Tied = m.Heads["a"]
	m.Parent = m
	return m
}

// The order is PyTorch's: a module's own parameters, its buffers, its children.
func TestWalkKeys(t *testing.T) {
	m := newModel()
	var keys []string
	var buffers, transient []string
	nn.Walk(m, func(e nn.Entry) {
		keys = append(keys, e.Key)
		if e.Buffer {
			buffers = append(buffers, e.Key)
		}
		if e.NonPersistent {
			transient = append(transient, e.Key)
		}
	})
	require.Equal(t, []string{
		"scale", "qkvb", "conv1.weight", "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var", "bn1.num_batches_tracked",
		"mlp.0.weight", "mlp.0.bias", "mlp.4.0.weight", "mlp.4.0.bias",
		"blocks.0.in_proj_weight", "blocks.0.in_proj_b", "blocks.0.attn_mask", "blocks.0.out_proj.weight", "blocks.0.out_proj.bias",
		"heads.a.weight", "heads.a.bias", "heads.b.weight", "heads.b.bias", "tied.weight", "tied.bias", "pair.1.weight", "pair.1.bias",
	}, keys)
	require.Equal(t, []string{"bn1.running_mean", "bn1.running_var", "bn1.num_batches_tracked", "blocks.0.attn_mask"}, buffers)
	require.Equal(t, []string{"blocks.0.attn_mask"}, transient)
	require.NotContains(t, nn.StateDictOf(m), "blocks.0.attn_mask")
	require.Contains(t, nn.StateDictOf(m), "tied.weight")

	// Each parameter once, however many keys it has.
	var names []string
	for k := range nn.NamedParameters(m) {
		names = append(names, k)
	}
	require.NotContains(t, names, "tied.weight")
	require.Len(t, nn.Parameters(m), len(names))
	require.Equal(t, len(names), nn.CountParameters(m)) // all have one element
	names = names[:0]
	for k := range nn.NamedBuffers(m) {
		names = append(names, k)
	}
	require.Equal(t, buffers, names)
	for k := range nn.NamedParameters(m) { // stops early
		require.Equal(t, "scale", k)
		break
	}
}

func TestModules(t *testing.T) {
	m := newModel()
	var names []string
	for name := range nn.Modules(m) {
		names = append(names, name)
	}
	require.Equal(t, "", names[0])
	for _, n := range []string{"conv1", "bn1", "mlp", "mlp.0", "mlp.2", "mlp.4", "mlp.4.0", "blocks.0", "blocks.0.out_proj", "heads.a", "pair.1"} {
		require.True(t, slices.Contains(names, n), n)
	}
	require.NotContains(t, names, "mlp.1", "a layer without fields to set is not addressable")
	for name, l := range nn.Modules(m) {
		if name == "mlp.2" {
			require.IsType(t, &nn.Dropout{}, l)
		}
	}
}

func TestWalkTags(t *testing.T) {
	type wrong struct {
		W *torch.Tensor `torch:"w,bufer"`
	}
	require.PanicsWithValue(t, `nn: field nn_test.wrong.W: unknown word "bufer" in the tag torch:"w,bufer"`, func() { nn.Parameters(&wrong{}) })
	type notBuffer struct {
		W *torch.Tensor `torch:",nonpersistent"`
	}
	require.Panics(t, func() { nn.Parameters(&notBuffer{}) })
	type bufferLayer struct {
		L *nn.Linear `torch:",buffer"`
	}
	require.Panics(t, func() { nn.Parameters(&bufferLayer{}) })
}

// A state dict is walked as a module is, whatever it hangs from.
func TestWalkRoots(t *testing.T) {
	l := nn.NewLinear(2, 3)
	require.Len(t, nn.Parameters(l), 2)
	require.Len(t, nn.Parameters(nn.Sequential{l, l}), 2)
	require.Len(t, nn.StateDictOf([]nn.Layer{l, l}), 4)
	require.Len(t, nn.StateDictOf(map[string]any{"x": l}), 2)
	var none *nn.Linear
	require.Empty(t, nn.Parameters(none))
	require.Empty(t, nn.Parameters(nil))
	loop := nn.Sequential{l, nil}
	loop[1] = loop
	require.Len(t, nn.Parameters(loop), 2)
}
