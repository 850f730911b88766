package dist

import "github.com/gospml/gospml/torch"

// Sum adds a tensor up over the processes as a step of the graph: its gradient is the sum of theirs (torch.distributed.nn.functional.all_reduce). Every process must
// take part forward and backward, in the same order. It panics with *torch.Error where the group fails, as tensor maths does.
func (g *Group) Sum(x *torch.Tensor) *torch.Tensor { return torch.Apply(sumOver{g}, x)[0] }

type sumOver struct{ g *Group }

func (s sumOver) sum(x *torch.Tensor) *torch.Tensor {
	y := x.Detach().Contiguous().Clone()
	if err := s.g.AllReduce(y, Sum); err != nil {
		panic(&torch.Error{Kind: torch.KindRuntime, Op: "sum over processes", Msg: err.Error()})
	}
	return y
}

// Forward and Backward are those of torch.Function.
func (s sumOver) Forward(_ *torch.FunctionContext, in []*torch.Tensor) []*torch.Tensor {
	return []*torch.Tensor{s.sum(in[0])}
}

func (s sumOver) Backward(_ *torch.FunctionContext, grads []*torch.Tensor) []*torch.Tensor {
	return []*torch.Tensor{s.sum(grads[0])}
}
