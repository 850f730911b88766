package loss_test

import (
	"fmt"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

func ExampleNew() {
	l, err := loss.New("EM", "coco", nil, loss.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	z := torch.FromSlice([]float64{2, -1, 0.5, -3, 0, 1.5, -2.5, 0.25}, 2, 4).SetRequiresGrad(true)
	y := torch.FromSlice([]int8{1, 0, 0, 0, 0, 0, 0, 1}, 2, 4)
	v, err := l.Value(loss.Batch{Logits: z, Observed: y})
	if err != nil {
		fmt.Println(err)
		return
	}
	v.Backward()
	fmt.Printf("%.6f %.6f\n", v.Item(), z.Grad().Select(0, 0).Select(0, 0).Item())
	// Output: 0.051950 -0.014900
}

// A loss of your own: a formula and an entry.
func ExampleRegister() {
	err := loss.Register(loss.Entry{
		ID: "squared", Title: "squared error on assumed negatives", Formula: "(p - y)²", Source: "Brier 1950", Needs: loss.Observed,
		New: func(_ loss.Values, _ loss.Options) (loss.Func, error) {
			return func(b loss.Batch) *torch.Tensor {
				return b.Logits.Sigmoid().Sub(b.Observed.ToDType(b.Logits.DType())).Square().Mean()
			}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, _ := loss.New("squared", "", nil, loss.Options{})
	v, _ := l.Value(loss.Batch{Logits: torch.Zeros(torch.S(1, 2), torch.Float64), Observed: torch.FromSlice([]int8{1, 0}, 1, 2)})
	fmt.Println(v.Item()) // 0.25
}
