package nn_test

import (
	"testing"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// benchmarkForward runs a layer in a scope, on one thread.
func benchmarkForward(b *testing.B, l nn.Layer, shape []int, mode func(func())) {
	torch.ManualSeed(0)
	x := torch.Randn(shape)
	b.ReportAllocs()
	mode(func() {
		f := func(*torch.Arena) { l.Forward(x) }
		torch.Scope(f)
		b.ResetTimer()
		for range b.N {
			torch.Scope(f)
		}
	})
}

func recorded(f func()) { _ = torch.Do(func() error { f(); return nil }) }

func BenchmarkLinearForward(b *testing.B) {
	benchmarkForward(b, nn.NewLinear(784, 128), torch.S(64, 784), recorded)
}

func BenchmarkLinearForward1(b *testing.B) {
	benchmarkForward(b, nn.NewLinear(1, 1), torch.S(1, 1), torch.NoGrad)
}

func BenchmarkMLPInference1(b *testing.B) {
	m := nn.Sequential{nn.NewLinear(784, 128), nn.ReLU{}, nn.NewLinear(128, 128), nn.ReLU{}, nn.NewLinear(128, 10)}
	benchmarkForward(b, m, torch.S(1, 784), torch.NoGrad)
}

func BenchmarkConvNormReLUForward(b *testing.B) {
	m := nn.Sequential{nn.NewConv2d(16, 16, 3, nn.Padding(1), nn.Bias(false)), nn.NewBatchNorm2d(16), nn.ReLU{Inplace: true}}
	nn.SetTraining(m, false)
	benchmarkForward(b, m, torch.S(1, 16, 32, 32), torch.Inference)
}
