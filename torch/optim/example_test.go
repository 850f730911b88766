package optim_test

import (
	"fmt"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

func Example() {
	torch.ManualSeed(0)
	body, head := nn.NewLinear(4, 8), nn.NewLinear(8, 1)
	m := nn.Sequential{body, nn.ReLU{}, head}
	opt := optim.NewAdamW(nn.Parameters(body), optim.LR(1e-2))
	opt.AddGroup(nn.Parameters(head), optim.LR(1e-1), optim.WeightDecay(0))

	x := torch.Randn(torch.S(64, 4))
	y := x.SumDim([]int{1}, true)
	var first, last float64
	for step := range 100 {
		torch.Scope(func(*torch.Arena) {
			opt.ZeroGrad()
			loss := m.Forward(x).MseLoss(y, torch.ReductionMean)
			loss.Backward()
			opt.Step()
			if last = loss.Item(); step == 0 {
				first = last
			}
		})
		opt.Groups()[0].LR *= 0.99 // a schedule
	}
	fmt.Println("fits a hundred times better:", last < first/100)
	// Output:
	// fits a hundred times better: true
}
