// Command side runs our half of the benchmarks that bench/peers/compare.py alternates with Python.
//
//	side serve DATA            reads "case iterations" lines, answers with seconds per call; "case value": a loss's value, or "none"
//	side infer THREADS FORM    a network's pass for "network batch iterations" lines; FORM is frozen, bf16 or plain
//	side folder NETWORK DIR N  N JPEG files to labels: images per second of all, of decoding, of the network; peak MiB
//	side lac OPTION…           a training step of LAC for each line: bf16, contiguous, checkpoint, threads=N
//	side card WHAT OUT.csv …   what a graphics card does: train, damp; see card.go
//	side photos FOLDER N       writes N drawn photos as JPEG
//	side first WEIGHTS PHOTO   classifies one photo with ImageNet's MobileNetV2 and prints the class
package main

import (
	"bufio"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("side: ")
	switch {
	case len(os.Args) == 3 && os.Args[1] == "serve":
		if err := torch.Do(func() error { return serve(os.Args[2]) }); err != nil {
			log.Fatal(err)
		}
	case len(os.Args) == 5 && os.Args[1] == "folder":
		n, err := strconv.Atoi(os.Args[4])
		if err == nil {
			err = folder(os.Args[2], os.Args[3], n)
		}
		if err != nil {
			log.Fatal(err)
		}
	case len(os.Args) == 4 && os.Args[1] == "infer":
		threads, err := strconv.Atoi(os.Args[2])
		if err == nil {
			err = torch.Do(func() error { return infer(threads, os.Args[3]) })
		}
		if err != nil {
			log.Fatal(err)
		}
	case len(os.Args) >= 2 && os.Args[1] == "lac":
		if err := torch.Do(func() error { return lacStep(os.Args[2:]) }); err != nil {
			log.Fatal(err)
		}
	case len(os.Args) >= 4 && os.Args[1] == "card":
		if err := torch.Do(func() error { return card(os.Args[2], os.Args[3], os.Args[4:]) }); err != nil {
			log.Fatal(err)
		}
	case len(os.Args) == 4 && os.Args[1] == "photos":
		if err := drawPhotos(os.Args[2], os.Args[3]); err != nil {
			log.Fatal(err)
		}
	case len(os.Args) == 4 && os.Args[1] == "first":
		if err := torch.Do(func() error { return first(os.Args[2], os.Args[3]) }); err != nil {
			log.Fatal(err)
		}
	case len(os.Args) == 4 && os.Args[1] == "step":
		if err := firstStep(os.Args[2], os.Args[3]); err != nil {
			log.Fatal(err)
		}
	default:
		log.Fatal("usage: side serve DATA | side first WEIGHTS PHOTO | side step features|photos DATA | " +
			"side lac OPTION… | side infer THREADS FORM | side folder NETWORK DIR N | " +
			"side card train|damp OUT.csv [device=D] [dry] [photos=FOLDER] | side photos FOLDER N")
	}
}

func serve(data string) error {
	if err := torch.SetNumThreads(1); err != nil {
		return err
	}
	made := map[string]func(n int) error{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if name, ok := strings.CutSuffix(lines.Text(), " value"); ok {
			c, err := newLossCase(data, name)
			if errors.Is(err, errNone) {
				fmt.Println("none")
				continue
			}
			if err != nil {
				return err
			}
			x, err := c.value()
			if err != nil {
				return err
			}
			made = map[string]func(n int) error{} // the inputs of one loss at a time
			fmt.Println(x)
			continue
		}
		var name string
		var n int
		if _, err := fmt.Sscan(lines.Text(), &name, &n); err != nil || n < 1 {
			return fmt.Errorf("line %q: want `case iterations`", lines.Text())
		}
		run, ok := made[name]
		if !ok {
			make, known := cases[name]
			if strings.HasPrefix(name, lossPrefix) {
				c, err := newLossCase(data, name)
				if err != nil {
					return err
				}
				make, known = func(string) (func(int) error, error) { return c.run, nil }, true
			}
			if !known {
				return fmt.Errorf("no case %q", name)
			}
			var err error
			if run, err = make(data); err != nil {
				return err
			}
			if err := run(3); err != nil {
				return err
			}
			made[name] = run
		}
		start := time.Now()
		if err := run(n); err != nil {
			return err
		}
		fmt.Println(time.Since(start).Seconds() / float64(n))
	}
	return lines.Err()
}

// cases make the function that runs a case n times.
var cases = map[string]func(data string) (func(n int) error, error){
	"add1": func(string) (func(int) error, error) {
		x, y := torch.Ones(torch.S(1)), torch.Ones(torch.S(1))
		return func(n int) error {
			for n > 0 {
				k := min(n, 64)
				torch.Scope(func(*torch.Arena) {
					for range k {
						x.Add(y)
					}
				})
				n -= k
			}
			return nil
		}, nil
	},
	"mlp_sgd": func(string) (func(int) error, error) {
		return mlp(func(p []*torch.Tensor) optim.Optimizer { return optim.NewSGD(p, optim.LR(0.01)) }), nil
	},
	"mlp_adamw": func(string) (func(int) error, error) {
		return mlp(func(p []*torch.Tensor) optim.Optimizer { return optim.NewAdamW(p, optim.LR(1e-3)) }), nil
	},
	"mlp_sgd_recorded": func(string) (func(int) error, error) {
		return recordedMLP(func(p []*torch.Tensor) optim.Optimizer { return optim.NewSGD(p, optim.LR(0.01)) }), nil
	},
	"mlp_adamw_recorded": func(string) (func(int) error, error) {
		return recordedMLP(func(p []*torch.Tensor) optim.Optimizer { return optim.NewAdamW(p, optim.LR(1e-3)) }), nil
	},
	"jpeg448": func(data string) (func(int) error, error) {
		photos, err := scenes(data, 64)
		if err != nil {
			return nil, err
		}
		d, err := pixel.NewDecoder(pixel.Options{})
		if err != nil {
			return nil, err
		}
		at, out := 0, make([]float32, 3*448*448)
		return func(n int) error {
			for range n {
				if err := d.Normalized(photos[at%len(photos)], 448, 448, pixel.Bilinear, pixel.ImageNetMean, pixel.ImageNetStd, false, out); err != nil {
					return err
				}
				at++
			}
			return nil
		}, nil
	},
}

// mlp is a step of 784-128-128-10 on a batch of 64 with cross-entropy.
func mlp(make func([]*torch.Tensor) optim.Optimizer) func(n int) error {
	torch.ManualSeed(0)
	m := nn.Sequential{nn.NewLinear(784, 128), nn.ReLU{}, nn.NewLinear(128, 128), nn.ReLU{}, nn.NewLinear(128, 10)}
	x, t := torch.Randn(torch.S(64, 784)), torch.Randint(0, 10, torch.S(64))
	opt := make(nn.Parameters(m))
	return func(n int) error {
		for range n {
			torch.Scope(func(*torch.Arena) {
				opt.ZeroGrad()
				m.Forward(x).CrossEntropyLoss(t, nil, torch.ReductionMean).Backward()
				opt.Step()
			})
		}
		return nil
	}
}

// recordedMLP is the same step, recorded.
func recordedMLP(make func([]*torch.Tensor) optim.Optimizer) func(n int) error {
	torch.ManualSeed(0)
	m := nn.Sequential{nn.NewLinear(784, 128), nn.ReLU{}, nn.NewLinear(128, 128), nn.ReLU{}, nn.NewLinear(128, 10)}
	x, t := torch.Randn(torch.S(64, 784)), torch.Randint(0, 10, torch.S(64))
	opt := make(nn.Parameters(m))
	step := torch.Record(func(in []*torch.Tensor) []*torch.Tensor {
		opt.ZeroGrad()
		loss := m.Forward(in[0]).CrossEntropyLoss(in[1], nil, torch.ReductionMean)
		loss.Backward()
		opt.Step()
		return []*torch.Tensor{loss}
	})
	return func(n int) error {
		for range n {
			if _, err := step.Run(x, t); err != nil {
				return err
			}
		}
		return nil
	}
}

// scenes are the first n COCO and VOC photos by path, the files that compare.py reads.
func scenes(data string, n int) ([][]byte, error) {
	var coco []string
	err := filepath.WalkDir(filepath.Join(data, "data", "coco"), func(p string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".jpg") {
			coco = append(coco, p)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	voc, err := filepath.Glob(filepath.Join(data, "data", "VOCdevkit", "VOC2012", "JPEGImages", "*.jpg"))
	if err != nil {
		return nil, err
	}
	files := append(coco, voc...)
	sort.Strings(files)
	if len(files) < n {
		return nil, fmt.Errorf("%d photos in %s, want %d", len(files), data, n)
	}
	var out [][]byte
	for _, f := range files[:n] {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

func first(weights, photo string) error {
	if err := torch.SetNumThreads(1); err != nil {
		return err
	}
	m, _, err := backbone.NewFromFile("mobilenet_v2", weights, 1000)
	if err != nil {
		return err
	}
	nn.SetTraining(m, false)
	b, err := os.ReadFile(photo)
	if err != nil {
		return err
	}
	d, err := pixel.NewDecoder(pixel.Options{})
	if err != nil {
		return err
	}
	x := make([]float32, 3*224*224)
	if err := d.Normalized(b, 224, 224, pixel.Bilinear, pixel.ImageNetMean, pixel.ImageNetStd, false, x); err != nil {
		return err
	}
	return torch.Try(func() {
		torch.Scope(func(*torch.Arena) {
			torch.Inference(func() {
				z := m.Forward(torch.FromSlice(x, 1, 3, 224, 224))
				fmt.Println(z.Argmax(1, false).ItemInt())
			})
		})
	})
}
