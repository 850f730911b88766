package nn_test

import (
	"fmt"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// A model is a struct of layers; its keys follow from the fields' names.
type Tagger struct {
	Conv1 *nn.Conv2d
	BN1   *nn.BatchNorm2d
	Head  nn.Sequential
}

func (m *Tagger) Forward(x *torch.Tensor) *torch.Tensor {
	return nn.Through(x, m.Conv1, m.BN1, nn.ReLU{Inplace: true}, nn.AdaptiveAvgPool2d{OutputSize: [2]int{1, 1}}, m.Head)
}

func Example() {
	torch.ManualSeed(0)
	m := &Tagger{
		Conv1: nn.NewConv2d(3, 8, 3, nn.Padding(1), nn.Bias(false)),
		BN1:   nn.NewBatchNorm2d(8),
		Head:  nn.Sequential{nn.NewFlatten(), nn.NewDropout(0.5), nn.NewLinear(8, 2)},
	}
	nn.Walk(m, func(e nn.Entry) { fmt.Println(e.Key, e.Tensor.Shape()) })

	nn.SetTraining(m, false)
	torch.Inference(func() {
		torch.Scope(func(*torch.Arena) {
			fmt.Println(m.Forward(torch.Zeros(torch.S(4, 3, 16, 16))).Shape())
		})
	})
	// Output:
	// conv1.weight [8 3 3 3]
	// bn1.weight [8]
	// bn1.bias [8]
	// bn1.running_mean [8]
	// bn1.running_var [8]
	// bn1.num_batches_tracked []
	// head.2.weight [2 8]
	// head.2.bias [2]
	// [4 2]
}

func ExampleLoadStateDict() {
	m := nn.Sequential{nn.NewLinear(2, 3)}
	sd := nn.StateDictOf(nn.Sequential{nn.NewLinear(2, 3)}).AddPrefix("module.")
	_, err := nn.LoadStateDict(m, sd, true)
	fmt.Println(err)
	r, err := nn.LoadStateDict(m, sd.TrimPrefix("module."), true)
	fmt.Println(r, err)
	// Output:
	// nn: the state dict does not fit the module: 2 missing, 2 unexpected
	//   missing     0.weight
	//   missing     0.bias
	//   unexpected  module.0.bias
	//   unexpected  module.0.weight
	//   did you mean: 2 of the unexpected keys fit without their prefix "module." (StateDict.TrimPrefix)
	// 2 loaded <nil>
}
