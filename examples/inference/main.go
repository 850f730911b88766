// Command inference answers many goroutines with one model, as the handlers of a server do: a pool of one thread for each core computes, a request that
// is given up before its turn costs nothing, and a bad one is an error for its caller alone.
//
//	go run ./examples/inference -requests 2000 -callers 64
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Service holds a model and the threads that run it. It is safe for many goroutines: a model in evaluation mode is only read.
type Service struct {
	model nn.Sequential
	pool  *torch.Pool
}

func NewService(threads int) (*Service, error) {
	pool, err := torch.NewPool(threads) // 0: one for each core
	if err != nil {
		return nil, err
	}
	torch.ManualSeed(1) // a real one reads its weights: nn.LoadFile, nn.LoadStateDict
	model := nn.Sequential{
		nn.NewConv2d(3, 16, 3, nn.Stride(2)), nn.ReLU{}, nn.NewConv2d(16, 32, 3, nn.Stride(2)), nn.ReLU{},
		nn.AdaptiveAvgPool2d{OutputSize: [2]int{1, 1}}, nn.NewFlatten(), nn.NewLinear(32, 10),
	}
	nn.SetTraining(model, false)
	return &Service{model, pool}, nil
}

func (s *Service) Close() { s.pool.Close() }

// Classify gives the probability of each of 10 classes for an image [3, height, width] of height·width·3 numbers.
func (s *Service) Classify(ctx context.Context, image []float32, height, width int) (probabilities []float32, err error) {
	err = s.pool.Run(ctx, func() error {
		torch.Inference(func() { // records nothing
			torch.Scope(func(*torch.Arena) { // frees everything that is made inside
				x := torch.FromSlice(image, 1, 3, height, width) // a wrong length is the error that Run returns
				probabilities = torch.ToSlice[float32](s.model.Forward(x).Softmax(1))
			})
		})
		return nil
	})
	return probabilities, err
}

func main() {
	requests := flag.Int("requests", 2000, "requests in all")
	callers := flag.Int("callers", 64, "goroutines that send them")
	flag.Parse()
	if err := run(*requests, *callers); err != nil {
		fmt.Fprintln(os.Stderr, "inference:", err)
		os.Exit(1)
	}
}

func run(requests, callers int) error {
	s, err := NewService(0)
	if err != nil {
		return err
	}
	defer s.Close()
	image := make([]float32, 3*64*64)
	start := time.Now()
	var sent, failed atomic.Int64
	var done sync.WaitGroup
	for range callers {
		done.Go(func() {
			for sent.Add(1) <= int64(requests) {
				if _, err := s.Classify(context.Background(), image, 64, 64); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	done.Wait()
	seconds := time.Since(start).Seconds()
	fmt.Printf("%d requests of %d goroutines in %.2f s (%.0f a second), %d failed\n", requests, callers, seconds, float64(requests)/seconds, failed.Load())
	return nil
}
