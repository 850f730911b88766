package train_test

import (
	"context"
	"fmt"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// A loop of one's own over the steps of any method: here ROLE, whose table of estimates trains beside a linear layer.
func ExampleStepper() {
	ds, err := shapes.New(1, 40, 0, 0)
	if err == nil {
		ds, err = ds.WithSinglePositives(1)
	}
	if err != nil {
		panic(err)
	}
	defer ds.Close()
	rows := ds.Rows(data.Train)
	s, err := train.NewStepper("role", "voc", nil, loss.Options{}, &method.Setup{
		Context: context.Background(), Data: ds, Rows: rows, Epochs: 3, LR: 0.01,
	})
	if err != nil {
		panic(err)
	}
	features, head := torch.Randn(torch.S(len(rows), 16)), nn.NewLinear(16, ds.C())
	s.Train(optim.NewAdam(nn.Parameters(head), optim.LR(0.01)), nn.Parameters(head), 0.01)
	s.Forward = func(st *method.Step) error {
		st.Batch.Logits = head.Forward(features.IndexSelect(0, st.At))
		return nil
	}
	var first, last float64
	for epoch := 1; epoch <= 3; epoch++ {
		if err := s.Begin(epoch); err != nil {
			panic(err)
		}
		for from := 0; from < len(rows); from += 10 {
			places := make([]int, 10)
			for i := range places {
				places[i] = from + i
			}
			if last, err = s.Step(epoch, places); err != nil {
				panic(err)
			}
			if epoch == 1 && from == 0 {
				first = last
			}
		}
		if err := s.End(epoch, nil); err != nil {
			panic(err)
		}
	}
	fmt.Println("the loss falls:", last < first)
	// Output: the loss falls: true
}
