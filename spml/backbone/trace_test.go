package backbone

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/jit"
	"github.com/gospml/gospml/torch/nn"
)

// TestTrace: every kind of backbone can be traced on one picture and then takes any number of them.
func TestTrace(t *testing.T) {
	for name, m := range map[string]Model{
		"resnet18": NewResNet(BasicBlocks, [4]int{1, 1, 1, 1}, 5), "resnet50": NewResNet(Bottlenecks, [4]int{1, 1, 1, 1}, 5), "mobilenet_v2": NewMobileNetV2(5),
		"squeezenet1_1": NewSqueezeNet("squeezenet1_1", 5), "small_cnn": NewSmallCNN(5), "convnext": NewConvNeXt([4]int{1, 1, 1, 1}, [4]int{8, 16, 24, 32}, 5),
		"vit": NewViT(ViTConfig{ImageSize: 64, PatchSize: 16, Dim: 24, Depth: 2, NumHeads: 3}, 5),
	} {
		nn.SetTraining(m, false)
		traced, err := jit.Trace(m, torch.Randn(torch.S(1, 3, 64, 64)), m.Forward)
		require.NoError(t, err, name)
		for _, n := range []int{1, 2, 5} {
			x := torch.Randn(torch.S(n, 3, 64, 64))
			y, err := traced.Forward(x)
			require.NoError(t, err, name)
			require.InDeltaSlice(t, torch.ToSlice[float32](m.Forward(x).Detach()), torch.ToSlice[float32](y.Detach()), 1e-5, name)
		}
		require.NoError(t, traced.Close())
	}
}
