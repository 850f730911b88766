package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sort"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/spml/metric"
)

func init() {
	for _, kind := range []string{"scene", "cub"} {
		cases[kind+"_448"] = func(root string) (func(int) error, error) { return pipeline(root, kind) }
		cases[kind+"_loader"] = func(root string) (func(int) error, error) { return loading(root, kind, 0, true) }
		cases[kind+"_uint8"] = func(root string) (func(int) error, error) { return loading(root, kind, 0, false) }
		cases[kind+"_cached"] = func(root string) (func(int) error, error) { return loading(root, kind, 1<<30, false) }
	}
	cases["map"] = func(string) (func(int) error, error) {
		scores, labels := cocoScores()
		return func(n int) error {
			for range n {
				m, err := metric.MAP(scores, labels, 80)
				if err != nil {
					return err
				}
				if shown := os.Getenv("SIDE_SHOW"); shown != "" {
					fmt.Fprintf(os.Stderr, "mAP %.12f\n", m)
				}
			}
			return nil
		}, nil
	}
}

// photos are the files of bench/peers/images.py: COCO and VOC scenes, or every 25th bird.
func photos(root, kind string) ([]string, error) {
	patterns := []string{"coco/coco128/*/*.jpg", "coco/coco_mini/val2017/*.jpg", "VOCdevkit/VOC2012/JPEGImages/*.jpg"}
	if kind == "cub" {
		patterns = []string{"cub/images/*/*.jpg"}
	}
	var all []string
	for _, p := range patterns {
		found, err := filepath.Glob(filepath.Join(root, "data", filepath.FromSlash(p)))
		if err != nil {
			return nil, err
		}
		sort.Strings(found)
		all = append(all, found...)
	}
	if kind == "cub" {
		var some []string
		for i := 0; i < len(all); i += 25 {
			some = append(some, all[i])
		}
		all = some
	}
	if len(all) < 64 {
		return nil, fmt.Errorf("%d %s photos below %s, want 64", len(all), kind, root)
	}
	return all[:64], nil
}

// pipeline: a call is one photo from its bytes to normalized float32, on one goroutine.
func pipeline(root, kind string) (func(int) error, error) {
	paths, err := photos(root, kind)
	if err != nil {
		return nil, err
	}
	var files [][]byte
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		files = append(files, b)
	}
	d, err := pixel.NewDecoder(pixel.Options{})
	if err != nil {
		return nil, err
	}
	at, out := 0, make([]float32, 3*448*448)
	return func(n int) error {
		for range n {
			if err := d.Normalized(files[at%len(files)], 448, 448, pixel.Bilinear, pixel.ImageNetMean, pixel.ImageNetStd, false, out); err != nil {
				return err
			}
			at++
		}
		return nil
	}, nil
}

// loading: a call is one photo of an epoch through the loader with two workers, in batches of 16; normalize: to float32 by the consumer,
// otherwise batches stay uint8, as they go to a device.
func loading(root, kind string, cache int64, normalize bool) (func(int) error, error) {
	runtime.GOMAXPROCS(2)
	paths, err := photos(root, kind)
	if err != nil {
		return nil, err
	}
	for i, p := range paths {
		if paths[i], err = filepath.Rel(root, p); err != nil {
			return nil, err
		}
	}
	source, err := data.OpenFiles(root, paths)
	if err != nil {
		return nil, err
	}
	l, err := data.NewLoader(&data.Dataset{Name: kind, Images: paths, Classes: []string{"any"}, Source: source}, data.LoaderOptions{Width: 448, Height: 448, Workers: 2, CacheBytes: cache})
	if err != nil {
		return nil, err
	}
	order := make([]int, len(paths))
	for i := range order {
		order[i] = i
	}
	out := make([]float32, 3*448*448)
	return func(n int) error {
		for done := 0; done < n; {
			for b, err := range l.Batches(context.Background(), data.Plan{Order: order, BatchSize: 16}) {
				if err != nil {
					return err
				}
				done += b.Len()
				if !normalize {
					continue
				}
				for i := range b.Len() {
					if err := pixel.Normalize(out, b.Images[i], 448, 448, pixel.ImageNetMean, pixel.ImageNetStd, false); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}, nil
}

// cocoScores are 40,504 × 80 scores and labels that images.py draws too.
func cocoScores() ([]float32, []int8) {
	const n = 40504 * 80
	g := random.New(1)
	labels, scores := make([]int8, n), make([]float32, n)
	for i := range labels {
		if g.RandomSample() < 0.036 {
			labels[i] = 1
		}
	}
	for i := range scores {
		u := g.RandomSample()
		scores[i] = float32(math.Floor((u*u*0.8+0.2*float64(labels[i]))*(1<<22)) / (1 << 22))
	}
	return scores, labels
}
