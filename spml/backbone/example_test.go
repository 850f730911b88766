package backbone_test

import (
	"fmt"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// A network by torchvision's name, with random weights; NewFromFile reads weights.
func ExampleNew() {
	m, err := backbone.New("mobilenet_v2", 20)
	if err != nil {
		panic(err)
	}
	nn.SetTraining(m, false)
	torch.Inference(func() {
		fmt.Println(m.Forward(torch.Zeros([]int{2, 3, 64, 64})).Shape(), m.FeatureDim())
	})
	// Output: [2 20] 1280
}
