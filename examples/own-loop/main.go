// Command own-loop trains ROLE in a loop of its own over train.Stepper: pictures, batches and network are this
// program's, labels, loss and estimates the method's.
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

const side, lr = 64, 3e-3

func main() { fmt.Printf("test mAP %.1f\n", run("role", 8)) }

// run trains on drawn pictures and gives the mean average precision on others, in percent.
func run(id string, epochs int) float64 {
	ds := must(must(shapes.New(7, 300, 0, 200)).WithSinglePositives(1))
	net := must(backbone.New("small_cnn", ds.C(), nn.Generator(torch.NewGenerator(1))))
	s := must(train.NewStepper(id, "voc", nil, loss.Options{}, &method.Setup{Context: context.Background(), Data: ds, Rows: ds.Rows(data.Train), Epochs: epochs, LR: lr}))
	s.Train(optim.NewAdam(nn.Parameters(net), optim.LR(lr)), nn.Parameters(net), lr)
	x, rows, test, g := pictures(ds), len(ds.Rows(data.Train)), ds.Rows(data.Test), rand.New(rand.NewPCG(1, 2))
	s.Forward = func(st *method.Step) error { // training rows are the first ones, so places are rows
		st.Batch.Logits = net.Forward(x.IndexSelect(0, st.At))
		return nil
	}
	scores := func(from, n int) (p *torch.Tensor) {
		nn.SetTraining(net, false)
		torch.NoGrad(func() { p = net.Forward(x.Narrow(0, from, n)).Sigmoid() })
		return p
	}
	for epoch := 1; epoch <= epochs; epoch++ {
		nn.SetTraining(net, true)
		must(0, s.Begin(epoch))
		for order := g.Perm(rows); len(order) > 0; order = order[min(50, len(order)):] {
			must(s.Step(epoch, order[:min(50, len(order))]))
		}
		must(0, s.End(epoch, func() (*torch.Tensor, error) { return scores(0, rows), nil }))
	}
	return 100 * metric.Mean(must(metric.AveragePrecision(torch.ToSlice[float32](scores(test[0], len(test))), ds.Gather(ds.Labels, test), ds.C(), metric.Step)))
}

// pictures are all pictures of a data set, [N, 3, side, side] in ±1.
func pictures(ds *data.Dataset) *torch.Tensor {
	r, all := must(ds.Source.NewReader(data.ReadOptions{})), make([]byte, 3*side*side*ds.N())
	for row := range ds.N() {
		must(0, r.Read(row, side, side, all[3*side*side*row:3*side*side*(row+1)]))
	}
	return torch.FromSlice(all, ds.N(), side, side, 3).Permute(0, 3, 1, 2).ToDType(torch.Float32).DivScalar(127.5).SubScalar(1)
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
