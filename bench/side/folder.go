package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// folder labels up to n JPEG files of a folder by a network with random weights, 224 × 224, 80 classes, as a Tagger
// does by all cores, and prints images per second: of all, of decoding alone, of the network alone, and the peak of
// resident memory in MiB when the first of them had ended.
func folder(network, photos string, n int) error {
	files, err := filepath.Glob(filepath.Join(photos, "*.jpg"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("%s has no .jpg: %w", photos, err)
	}
	files = files[:min(n, len(files))]
	dir, err := os.MkdirTemp("", "folder")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m, err := backbone.New(network, 80)
	if err != nil {
		return err
	}
	c := model.Config{
		Architecture: network, NumClasses: 80, NumFeatures: m.FeatureDim(),
		LabelNames: strings.Split(strings.Repeat("x,", 79)+"x", ","), Threshold: 0.5, Method: "an",
		PretrainedCfg: model.Input{
			InputSize: [3]int{3, 224, 224}, Interpolation: "bilinear", CropMode: "squash", CropPct: 1,
			Mean: pixel.ImageNetMean, Std: pixel.ImageNetStd,
		},
	}
	if err := model.Save(dir, c, nn.StateDictOf(m)); err != nil {
		return err
	}
	nn.Walk(m, func(e nn.Entry) { e.Tensor.Free() })
	t, err := model.OpenTagger(dir, model.TaggerOptions{Device: "cpu"})
	if err != nil {
		return err
	}
	defer t.Close()
	workers := runtime.NumCPU()
	one := func(i int) error { _, err := t.TagFile(context.Background(), files[i]); return err }
	all, err := rate(workers, len(files), one)
	if err != nil {
		return err
	}
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return err
	}
	decoding, err := decodeRate(workers, files)
	if err != nil {
		return err
	}
	computing, err := networkRate(workers, len(files), network)
	if err != nil {
		return err
	}
	fmt.Println(all, decoding, computing, use.Maxrss/1024)
	return nil
}

// rate calls f(0) … f(n-1) by this many goroutines, after a first one that does not count, and gives calls per
// second.
func rate(workers, n int, f func(i int) error) (float64, error) {
	if err := f(0); err != nil {
		return 0, err
	}
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make(chan error, workers)
	begun := time.Now()
	for range workers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	seconds := time.Since(begun).Seconds()
	close(errs)
	return float64(n) / seconds, <-errs
}

func decodeRate(workers int, files []string) (float64, error) {
	spare := make(chan *pixel.Decoder, workers)
	for range workers {
		d, err := pixel.NewDecoder(pixel.Options{})
		if err != nil {
			return 0, err
		}
		defer d.Close()
		spare <- d
	}
	return rate(workers, len(files), func(i int) error {
		d := <-spare
		defer func() { spare <- d }()
		b, err := pixel.ReadFile(files[i])
		if err != nil {
			return err
		}
		out := make([]float32, 3*224*224)
		return d.Normalized(b, 224, 224, pixel.Bilinear, pixel.ImageNetMean, pixel.ImageNetStd, false, out)
	})
}

func networkRate(workers, n int, network string) (float64, error) {
	m, err := backbone.New(network, 80)
	if err != nil {
		return 0, err
	}
	nn.SetTraining(m, false)
	f, err := backbone.Freeze(m, torch.Float32)
	if err != nil {
		return 0, err
	}
	pool, err := torch.NewPool(workers)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	x := torch.Randn(torch.S(1, 3, 224, 224))
	return rate(workers, n, func(int) error {
		return pool.Run(context.Background(), func() error {
			torch.Scope(func(*torch.Arena) { torch.Inference(func() { f.Forward(x) }) })
			return nil
		})
	})
}
