package amp_test

import (
	"fmt"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/amp"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// A step in float16 keeps its gradients from vanishing; one that overflows is left out and halves the factor.
func ExampleGradScaler() {
	m := nn.NewLinear(4, 1)
	opt := optim.NewSGD(nn.Parameters(m), optim.LR(0.1))
	scaler := amp.NewGradScaler(amp.Options{InitScale: 1024})
	for _, size := range []float64{1, 1e38} {
		x := torch.Full(torch.S(8, 4), size, torch.Float32)
		opt.ZeroGrad()
		scaler.Scale(m.Forward(x).Sum()).Backward()
		took := scaler.Step(opt)
		scaler.Update()
		fmt.Println(took, scaler.GetScale())
	}
	// Output:
	// true 1024
	// false 512
}
