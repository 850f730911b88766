// Command classifier trains a small convolutional network on drawn pictures (package shapes: 12 labels, several in a picture) and prints after each
// epoch how well it ranks the labels of pictures that it has not seen.
//
//	go run ./examples/classifier -epochs 8
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// Net is a model: a struct of layers, whose state-dict keys follow from the fields' names (body.0.weight, …, head.bias).
type Net struct {
	Body nn.Sequential
	Head *nn.Linear
}

func NewNet(classes int) *Net {
	block := func(in, out int) []nn.Layer {
		return []nn.Layer{nn.NewConv2d(in, out, 3, nn.Stride(2), nn.Padding(1), nn.Bias(false)), nn.NewBatchNorm2d(out), nn.ReLU{Inplace: true}}
	}
	body := append(append(block(3, 16), block(16, 32)...), block(32, 64)...)
	return &Net{Body: body, Head: nn.NewLinear(64, classes)}
}

// Forward takes images [B, 3, 64, 64] and gives logits [B, C].
func (n *Net) Forward(x *torch.Tensor) *torch.Tensor {
	return n.Head.Forward(n.Body.Forward(x).Amax([]int{2, 3}, false))
}

func main() {
	epochs := flag.Int("epochs", 8, "epochs")
	pictures := flag.Int("pictures", 2000, "pictures to train on")
	flag.Parse()
	if _, err := train(context.Background(), os.Stdout, *pictures, *epochs); err != nil {
		fmt.Fprintln(os.Stderr, "classifier:", err)
		os.Exit(1)
	}
}

// train returns the mean average precision, in percent, of the test pictures after each epoch.
func train(ctx context.Context, out io.Writer, pictures, epochs int) ([]float64, error) {
	if err := torch.Available(); err != nil {
		return nil, err // libtorch is absent; the sentence says what to run
	}
	ds, err := shapes.New(1, pictures, 0, 500)
	if err != nil {
		return nil, err
	}
	defer ds.Close()
	loader, err := data.NewLoader(ds, data.LoaderOptions{Width: shapes.Size, Height: shapes.Size, Cache: data.CacheMemory, CacheBytes: 64 << 20})
	if err != nil {
		return nil, err
	}
	defer loader.Close()

	torch.ManualSeed(1)
	net := NewNet(ds.C())
	opt := optim.NewAdamW(nn.Parameters(net), optim.LR(4e-3))
	rows := ds.Rows(data.Train)
	steps := epochs * ((len(rows) + batchSize - 1) / batchSize)
	schedule := optim.NewCosineAnnealingLR(opt, steps, 0)

	var history []float64
	for epoch := range epochs {
		nn.SetTraining(net, true)
		plan := data.Plan{Order: data.Shuffled(rows, 1, epoch), BatchSize: batchSize}
		for b, err := range loader.Batches(ctx, plan) {
			if err != nil {
				return nil, err
			}
			torch.Scope(func(*torch.Arena) { // everything made inside is freed when it ends
				y := torch.FromSlice(ds.Gather(ds.Labels, b.Rows), b.Len(), ds.C()).ToDType(torch.Float32)
				loss := net.Forward(images(b)).BinaryCrossEntropyWithLogits(y, nil, nil, torch.ReductionMean)
				opt.ZeroGrad()
				loss.Backward()
				opt.Step()
			})
			schedule.Step()
		}
		score, err := evaluate(ctx, net, ds, loader)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(out, "epoch %d: mAP %.1f %%\n", epoch+1, score)
		history = append(history, score)
	}
	return history, nil
}

const batchSize = 32

// images makes a batch [B, 3, 64, 64] of numbers around 0 from bytes [B][64, 64, 3]. The permuted tensor lies channels-last in memory, which convolutions like.
func images(b *data.Batch) *torch.Tensor {
	x := torch.Empty(torch.S(b.Len(), b.Height, b.Width, 3), torch.Uint8)
	torch.View(x, func(pixels []uint8) {
		for i, image := range b.Images {
			copy(pixels[i*len(image):], image)
		}
	})
	return x.Permute(0, 3, 1, 2).ToDType(torch.Float32).DivScalar(127.5).SubScalar(1)
}

func evaluate(ctx context.Context, net *Net, ds *data.Dataset, loader *data.Loader) (float64, error) {
	nn.SetTraining(net, false)
	rows := ds.Rows(data.Test)
	var scores []float32
	for b, err := range loader.Batches(ctx, data.Plan{Order: rows, BatchSize: batchSize}) {
		if err != nil {
			return 0, err
		}
		torch.Inference(func() {
			torch.Scope(func(*torch.Arena) { scores = append(scores, torch.ToSlice[float32](net.Forward(images(b)))...) })
		})
	}
	return metric.MAP(scores, ds.Gather(ds.Labels, rows), ds.C())
}
