package torch_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gospml/gospml/torch"
)

// A step of gradient descent: everything that the scope's function makes is freed when it ends.
func Example() {
	w := torch.Zeros(torch.S(2, 1), torch.RequiresGrad)
	x := torch.FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	want := torch.FromSlice([]float32{5, 11}, 2, 1)
	for range 3000 {
		torch.Scope(func(*torch.Arena) {
			loss := x.Mm(w).Sub(want).Square().Mean()
			loss.Backward()
			torch.NoGrad(func() { w.Sub_(w.Grad().MulScalar(0.05)) })
		})
		torch.ZeroGrad([]*torch.Tensor{w}, false)
	}
	fmt.Println(w)
	// Output:
	// tensor([[1.0000],
	//         [2.0000]], requires_grad=True)
}

func ExampleScope() {
	var best *torch.Tensor
	torch.Scope(func(s *torch.Arena) {
		scores := torch.FromSlice([]float32{0.25, 2, -1})
		best = s.Keep(scores.At([]int{1})) // the rest is freed
	})
	fmt.Println(best)
	// Output: tensor([2.])
}

func ExampleTry() {
	a, b := torch.Ones(torch.S(2, 3)), torch.Ones(torch.S(4, 5))
	err := torch.Try(func() { a.Mm(b) })
	var e *torch.Error
	if errors.As(err, &e) {
		fmt.Println(e.Op, e.Shapes)
	}
	fmt.Println(err)
	// Output:
	// aten::mm [[2 3] [4 5]]
	// torch: mm: [2 3] x [4 5]: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)
}

func ExampleTensor_At() {
	x := torch.Arange(0, 12, 1).Reshape(3, 4)
	fmt.Println(x.At(1))                                  // x[1]
	fmt.Println(x.At(torch.All, torch.R(1, 3)))           // x[:, 1:3]
	fmt.Println(x.At(torch.Ellipsis, -1))                 // x[..., -1]
	fmt.Println(x.At(torch.R(0, torch.End, 2), []int{3})) // x[::2, [3]]
	fmt.Println(x.At(x.GtScalar(8)))                      // x[x > 8]
	// Output:
	// tensor([4, 5, 6, 7])
	// tensor([[ 1,  2],
	//         [ 5,  6],
	//         [ 9, 10]])
	// tensor([ 3,  7, 11])
	// tensor([[ 3],
	//         [11]])
	// tensor([ 9, 10, 11])
}

func ExampleTensor_SetAt() {
	x := torch.Zeros(torch.S(2, 3))
	x.SetAt(1, torch.All, 0)                                  // x[:, 0] = 1
	x.SetAt(torch.FromSlice([]float32{7, 8}), 1, []int{1, 2}) // x[1, [1, 2]] = tensor([7., 8.])
	fmt.Println(x)
	// Output:
	// tensor([[1., 0., 0.],
	//         [1., 7., 8.]])
}

func ExampleNoGrad() {
	w := torch.Ones(torch.S(2), torch.RequiresGrad)
	torch.NoGrad(func() { fmt.Println(w.MulScalar(2).RequiresGrad()) })
	fmt.Println(w.MulScalar(2).RequiresGrad())
	// Output:
	// false
	// true
}

// round is the step function with the gradient of the identity (straight-through; Bengio et al. 2013, arXiv:1308.3432): an autograd function in Go.
type round struct{}

func (round) Forward(c *torch.FunctionContext, in []*torch.Tensor) []*torch.Tensor {
	c.Save(in[0])
	return []*torch.Tensor{in[0].Round()}
}

func (round) Backward(c *torch.FunctionContext, grads []*torch.Tensor) []*torch.Tensor {
	inside := c.Saved()[0].Abs().LeScalar(1) // no gradient beyond ±1
	return []*torch.Tensor{grads[0].Mul(inside)}
}

func ExampleApply() {
	x := torch.FromSlice([]float32{-1.4, -0.6, 0.2, 0.9}).SetRequiresGrad(true)
	y := torch.Apply(round{}, x)[0]
	y.MulScalar(10).Sum().Backward()
	fmt.Println(y)
	fmt.Println(x.Grad())
	// Output:
	// tensor([-1., -1.,  0.,  1.], grad_fn=<GoFunction>)
	// tensor([ 0., 10., 10., 10.])
}

func ExampleTensor_Backward() {
	x := torch.FromSlice([]float32{1, 2, 3}).SetRequiresGrad(true)
	y := x.Mul(x).Sum()
	fmt.Println(y)
	y.Backward()
	fmt.Println(x.Grad())
	// Output:
	// tensor(14., grad_fn=<SumBackward0>)
	// tensor([2., 4., 6.])
}

// A server's handlers share a pool: each job runs on one of its threads.
func ExamplePool() {
	pool, err := torch.NewPool(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	var sum float64
	err = pool.Run(context.Background(), func() error {
		torch.Scope(func(*torch.Arena) { sum = torch.Ones(torch.S(2, 3)).Sum().Item() })
		return nil
	})
	fmt.Println(sum, err)
	err = pool.Run(context.Background(), func() error {
		torch.Ones(torch.S(2)).View(3)
		return nil
	})
	fmt.Println(err)
	// Output:
	// 6 <nil>
	// torch: view: [2]: shape '[3]' is invalid for input of size 2
}

func ExampleView() {
	x := torch.Zeros(torch.S(2, 2))
	torch.View(x, func(v []float32) { v[3] = 1 }) // no copy
	fmt.Println(x)
	// Output:
	// tensor([[0., 0.],
	//         [0., 1.]])
}

func ExampleCall() {
	x := torch.FromSlice([]float32{3, 1, 2})
	r := torch.Call("aten::sort", x, -1, true)
	fmt.Println(r[0], r[1])
	// Output: tensor([3., 2., 1.]) tensor([0, 2, 1])
}
