package nn_test

import (
	"fmt"

	"github.com/gospml/gospml/torch/nn"
)

func weight(m *nn.Linear) float64 { return m.Weight.Item() }

// The average is a second model, a copy that follows the first.
func ExampleNewEMA() {
	m := nn.NewLinear(1, 1, nn.Bias(false))
	m.Weight.Detach().Fill_(0)
	ema := nn.NewEMA(m, 0.5)
	for _, w := range []float64{1, 2, 3} {
		m.Weight.Detach().Fill_(w)
		ema.Update(m)
	}
	fmt.Println(weight(m), weight(ema.Module))
	// Output: 3 2.25
}

// The average lies beside the model and changes places with it, to score and to save.
func ExampleShadow() {
	m := nn.NewLinear(1, 1, nn.Bias(false))
	m.Weight.Detach().Fill_(1)
	average := nn.NewShadow(nn.StateDictOf(m), 0.5)
	for _, w := range []float64{2, 3} {
		m.Weight.Detach().Fill_(w)
		average.Update()
	}
	average.Swap()
	fmt.Println("to score:", weight(m))
	average.Swap()
	fmt.Println("to go on:", weight(m))
	// Output:
	// to score: 2.25
	// to go on: 3
}
