// Command ddp trains one model in several processes: each takes its part of every batch, and the gradients are averaged while backward runs, so that the
// weights are those of one process that sees the whole batch.
//
//	go build -o ddp ./examples/ddp
//	torchrun --no-python --nproc-per-node 2 ./ddp          # or srun -n 2 ./ddp, or mpirun; alone it is one process
//
// A process that dies ends the others within seconds, and torchrun's error file says why.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/dist"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

func main() {
	dist.Main(func() error { return run(os.Stdout, os.Getenv("WEIGHTS")) })
}

const (
	batch = 64 // of all processes together
	steps = 100
)

// run trains and, on rank 0, prints the loss and writes the weights where a path is given.
func run(out io.Writer, weights string) error {
	env, err := dist.FromEnv()
	if err != nil {
		return err
	}
	group, err := dist.Init(env, dist.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer group.Close()

	torch.ManualSeed(1)
	model := nn.Sequential{nn.NewLinear(8, 32), nn.ReLU{}, nn.NewLinear(32, 1)}
	ddp, err := dist.NewDDP(group, model, dist.DDPOptions{}) // rank 0's weights go to all
	if err != nil {
		return err
	}
	defer ddp.Close()
	opt := optim.NewSGD(nn.Parameters(model), optim.LR(0.05), optim.Momentum(0.9))

	part := batch / group.Size()
	for step := range steps {
		var failed error
		torch.Scope(func(*torch.Arena) {
			x, y := examples(step)
			from := group.Rank() * part
			loss := model.Forward(x.Narrow(0, from, part)).MseLoss(y.Narrow(0, from, part), torch.ReductionMean)
			opt.ZeroGrad()
			if failed = ddp.Prepare(loss); failed != nil {
				return
			}
			if failed = torch.Try(func() { loss.Backward() }); failed != nil { // where another process has died
				return
			}
			opt.Step()
			if step == steps-1 {
				mean := loss.Detach()
				if failed = group.AllReduce(mean, dist.Sum); failed == nil && group.Rank() == 0 {
					fmt.Fprintf(out, "%d processes, step %d: loss %.4f\n", group.Size(), step+1, mean.Item()/float64(group.Size()))
				}
			}
		})
		if failed != nil {
			return failed
		}
	}
	if weights != "" && group.Rank() == 0 {
		if err := nn.SaveSafetensors(weights, nn.StateDictOf(model), nil); err != nil {
			return err
		}
	}
	return group.Barrier()
}

// examples are the whole batch of a step, the same in every process: a loader would give each process its part (data.Plan.Rank and World).
func examples(step int) (x, y *torch.Tensor) {
	g := torch.NewGenerator(int64(step))
	x = torch.Randn(torch.S(batch, 8), g)
	return x, x.Square().SumDim([]int{1}, true)
}
