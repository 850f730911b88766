package backbone_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

func mobilenetFile(b *testing.B) string {
	m, err := backbone.New("mobilenet_v2", 1000)
	require.NoError(b, err)
	path := filepath.Join(b.TempDir(), "m.safetensors")
	require.NoError(b, nn.SaveSafetensors(path, nn.StateDictOf(m), nil))
	return path
}

func BenchmarkNewAndLoadMobileNetV2(b *testing.B) {
	path := mobilenetFile(b)
	for b.Loop() {
		m, err := backbone.New("mobilenet_v2", 1000)
		require.NoError(b, err)
		_, err = backbone.LoadWeights(m, path)
		require.NoError(b, err)
	}
}

func BenchmarkMobileNetV2FromFile(b *testing.B) {
	path := mobilenetFile(b)
	for b.Loop() {
		_, _, err := backbone.NewFromFile("mobilenet_v2", path, 0)
		require.NoError(b, err)
	}
}

func benchmarkInference(b *testing.B, name string, side int) {
	m, err := backbone.New(name, 5)
	require.NoError(b, err)
	nn.SetTraining(m, false)
	x := torch.Randn(torch.S(1, 3, side, side))
	torch.Inference(func() {
		for b.Loop() {
			torch.Scope(func(*torch.Arena) { m.Forward(x) })
		}
	})
}

func BenchmarkMobileNetV2Inference224(b *testing.B) { benchmarkInference(b, "mobilenet_v2", 224) }

func BenchmarkResNet50Inference224(b *testing.B) { benchmarkInference(b, "resnet50", 224) }

func BenchmarkSmallCNNInference64(b *testing.B) { benchmarkInference(b, "small_cnn", 64) }
