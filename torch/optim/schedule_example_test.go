package optim_test

import (
	"fmt"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/optim"
)

// A schedule is stepped after the optimizer, as in PyTorch.
func ExampleSchedule() {
	p := torch.Zeros(torch.S(1)).SetRequiresGrad(true)
	opt := optim.NewAdam([]*torch.Tensor{p}, optim.LR(0.1))
	s := optim.NewSequentialLR(opt, []*optim.Schedule{
		optim.NewLinearLR(opt, 0.5, 1, 2),
		optim.NewCosineAnnealingLR(opt, 2, 0),
	}, []int{2})
	for range 5 {
		fmt.Printf("%.3f ", opt.Groups()[0].LR)
		opt.Step()
		s.Step()
	}
	// Output: 0.050 0.075 0.100 0.050 0.000
}

// A curve knows the rate of any step, so that a run that goes on needs no state.
func ExampleCurve() {
	c := optim.Curve{Kind: "cosine", Steps: 12, Warmup: 2}
	for _, step := range []int{0, 1, 2, 7, 11} {
		factor, _ := c.At(step)
		fmt.Printf("%.3f ", factor)
	}
	// Output: 0.500 1.000 1.000 0.500 0.024
}
