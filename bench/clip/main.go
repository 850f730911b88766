// Command clip runs our half of the CLIP benchmarks that bench/peers/clip.py alternates with open_clip and Hugging Face.
//
//	clip serve THREADS    reads "case iterations" lines, answers with seconds per call; "cosine" answers with the least cosine of bfloat16 to float32 features
//	clip first MODEL PHOTO DTYPE THREADS   loads a model, encodes one photo, prints the first number
//	clip soak NAME DTYPE IMAGES GOROUTINES   encodes random pictures, one a call, from many goroutines; prints memory before, at most and after
//	clip serve-cuda N   the image tower on card N; see serveCUDA
//	clip export MODEL FOLDER   writes a model for transformers
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"image"
	"log"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/clip/tokenizer"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/vlm"
	"github.com/gospml/gospml/torch"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("clip: ")
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "serve":
		err = serve(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "serve-cuda":
		err = serveCUDA(os.Args[2])
	case len(os.Args) == 6 && os.Args[1] == "first":
		err = first(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	case len(os.Args) == 6 && os.Args[1] == "soak":
		err = soak(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	case len(os.Args) == 4 && os.Args[1] == "export":
		var m *clip.CLIP
		if m, _, err = clip.Load(os.Args[2], clip.LoadOptions{}); err == nil {
			err = clip.Export(os.Args[3], m, clip.HuggingFace, torch.Float32)
		}
	default:
		err = fmt.Errorf("usage: clip serve THREADS | clip serve-cuda N | clip first MODEL PHOTO DTYPE THREADS | clip soak NAME DTYPE IMAGES GOROUTINES | clip export MODEL FOLDER")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// random is a released shape with values drawn from one seed.
func random(name string, dtype torch.DType) (*clip.Model, error) {
	return randomWith(name, clip.Options{DType: dtype, Batch: 128})
}

func randomWith(name string, o clip.Options) (*clip.Model, error) {
	c, err := clip.Named(name)
	if err != nil {
		return nil, err
	}
	torch.ManualSeed(0)
	m, err := clip.New(c)
	if err != nil {
		return nil, err
	}
	return clip.NewModel(m, o)
}

var dtypes = map[string]torch.DType{"fp32": torch.Float32, "bf16": torch.BFloat16}

func serve(threads string) error {
	n, err := strconv.Atoi(threads)
	if err != nil {
		return err
	}
	if err := torch.SetNumThreads(n); err != nil {
		return err
	}
	ctx := context.Background()
	models := map[string]*clip.Model{}
	model := func(dtype string) (m *clip.Model, err error) {
		if m = models[dtype]; m == nil {
			m, err = random("ViT-B/16", dtypes[dtype])
			models[dtype] = m
		}
		return m, err
	}
	run := func(name string) (func() error, error) {
		kind, rest, _ := strings.Cut(name, "_")
		dtype, size, _ := strings.Cut(rest, "_")
		count, _ := strconv.Atoi(size)
		switch kind {
		case "image": // image_bf16_8
			m, err := model(dtype)
			if err != nil {
				return nil, err
			}
			x := torch.Randn(torch.S(count, 3, 224, 224))
			return func() error {
				y, err := m.EncodeImage(ctx, x)
				if err == nil {
					y.Free()
				}
				return err
			}, nil
		case "text": // text_fp32_80
			m, err := model(dtype)
			if err != nil {
				return nil, err
			}
			var prompts []string
			for i := range count {
				prompts = append(prompts, fmt.Sprintf("A photo of a thing number %d.", i))
			}
			return func() error {
				y, err := m.EncodeText(ctx, prompts)
				if err == nil {
					y.Free()
				}
				return err
			}, nil
		case "damp": // damp_bf16_PHOTO,PHOTO: files to labels
			m, err := model(dtype)
			if err != nil {
				return nil, err
			}
			s, err := vlm.Published(vlm.DAMP, "coco", vlm.Default)
			if err != nil {
				return nil, err
			}
			s.Grid, s.Batch = 4, 2
			classes := make([]string, 80)
			for i := range classes {
				classes[i] = fmt.Sprint("thing ", i)
			}
			l, err := vlm.New(ctx, m, classes, s)
			if err != nil {
				return nil, err
			}
			var files [][]byte
			var rows []int
			for i, p := range strings.Split(size, ",") {
				b, err := os.ReadFile(p)
				if err != nil {
					return nil, err
				}
				files, rows = append(files, b), append(rows, i)
			}
			observed := make([]int8, len(files)*len(classes))
			for i := range files {
				observed[i*len(classes)+i] = 1
			}
			return func() error {
				_, broken, err := l.Label(ctx, vlm.Photos{Rows: rows, Files: files}, observed)
				return errors.Join(append(broken, err)...)
			}, nil
		case "views": // views__PHOTO,PHOTO: files to 17 normalised views each
			p, err := clip.NamedPreprocess("aevlp") // the released program's: squash, bilinear
			if err != nil {
				return nil, err
			}
			pre, err := clip.NewPreprocessor(p, 224, 224, 0, pixel.Options{})
			if err != nil {
				return nil, err
			}
			var files [][]byte
			for _, p := range strings.Split(size, ",") {
				b, err := os.ReadFile(p)
				if err != nil {
					return nil, err
				}
				files = append(files, b)
			}
			return func() error {
				x, broken, err := pre.Views(ctx, files, 17, func(_, w, h int) ([]image.Rectangle, error) {
					return append(label.Tiles(w, h, 4, nil), image.Rect(0, 0, w, h)), nil
				})
				if err == nil {
					x.Free()
				}
				return errors.Join(append(broken, err)...)
			}, nil
		case "labels": // labels__1024: cosines to labels
			s, err := vlm.Published(vlm.DAMP, "coco", vlm.Default)
			if err != nil {
				return nil, err
			}
			global, tiles := torch.Rand(torch.S(count, 80)).MulScalar(0.3), torch.Rand(torch.S(16, count, 80)).MulScalar(0.3)
			observed := make([]int8, count*80)
			for i := range count {
				observed[i*80+i%80] = 1
			}
			return func() error { _, err := s.Labels(global, tiles, observed); return err }, nil
		case "tokens": // tokens_FILE: a text a line
			b, err := os.ReadFile(rest)
			if err != nil {
				return nil, err
			}
			texts := strings.Split(strings.TrimSpace(string(b)), "\n")
			return func() error { tokenizer.Default().Batch(texts, 77); return nil }, nil
		}
		return nil, fmt.Errorf("no case %q", name)
	}
	made := map[string]func() error{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var name string
		var n int
		if lines.Text() == "cosine" {
			c, err := leastCosine(ctx, model)
			if err != nil {
				return err
			}
			fmt.Println(c)
			continue
		}
		if _, err := fmt.Sscan(lines.Text(), &name, &n); err != nil || n < 1 {
			return fmt.Errorf("line %q: want `case iterations`", lines.Text())
		}
		if made[name] == nil {
			f, err := run(name)
			if err != nil {
				return err
			}
			if err := f(); err != nil {
				return err
			}
			made[name] = f
		}
		start := time.Now()
		for range n {
			if err := made[name](); err != nil {
				return err
			}
		}
		fmt.Println(time.Since(start).Seconds() / float64(n))
	}
	return lines.Err()
}

// leastCosine compares the features of random pictures.
func leastCosine(ctx context.Context, model func(string) (*clip.Model, error)) (float64, error) {
	x := torch.Randn(torch.S(4, 3, 224, 224))
	var ys []*torch.Tensor
	for _, d := range []string{"fp32", "bf16"} {
		m, err := model(d)
		if err != nil {
			return 0, err
		}
		y, err := m.EncodeImage(ctx, x)
		if err != nil {
			return 0, err
		}
		ys = append(ys, clip.Normalize(y))
	}
	return ys[0].Mul(ys[1]).SumDim([]int{-1}, false).Min().Item(), nil
}

func first(path, photo, dtype, threads string) error {
	n, err := strconv.Atoi(threads)
	if err != nil {
		return err
	}
	if err := torch.SetNumThreads(n); err != nil {
		return err
	}
	o := clip.Options{}
	if dtype == "bfloat16" {
		o.DType = torch.BFloat16
	}
	m, err := clip.Open(path, o)
	if err != nil {
		return err
	}
	y, err := m.EncodePaths(context.Background(), []string{photo})
	if err != nil {
		return err
	}
	fmt.Println(torch.ToSlice[float32](y)[0])
	kb, err := memory("VmHWM:")
	fmt.Println(kb)
	return err
}

// memory reads a line of /proc/self/status, in kB.
func memory(line string) (kb int, err error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), line)
	_, err = fmt.Sscan(rest, &kb)
	return kb, err
}

func soak(name, dtype, images, goroutines string) error {
	n, err := strconv.Atoi(images)
	if err != nil {
		return err
	}
	workers, err := strconv.Atoi(goroutines)
	if err != nil {
		return err
	}
	m, err := random(name, dtypes[dtype])
	if err != nil {
		return err
	}
	runtime.GC()
	h, w := m.ImageSize()
	say := func(when string, live int) error {
		rss, err := memory("VmRSS:")
		if err != nil {
			return err
		}
		most, err := memory("VmHWM:")
		fmt.Printf("%s: %d MiB resident, %d MiB at most, %d tensors; the model's weights are %d MiB\n", when, rss>>10, most>>10, live, m.Memory()>>20)
		return err
	}
	if err := say("loaded", torch.Live()); err != nil {
		return err
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, workers)
	start := time.Now()
	for g := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			pixels := make([]float32, 3*h*w)
			for {
				i := int(next.Add(1))
				if i > n {
					return
				}
				for k := range pixels {
					pixels[k] = float32(r.NormFloat64())
				}
				x := torch.FromSlice(pixels, 1, 3, h, w)
				y, err := m.EncodeImage(context.Background(), x)
				x.Free()
				if err != nil {
					errs[g] = err
					return
				}
				y.Free()
				if i%(n/4) == 0 {
					if err := say(fmt.Sprint("after ", i), torch.Live()); err != nil {
						errs[g] = err
						return
					}
				}
			}
		})
	}
	wg.Wait()
	fmt.Printf("%.1f images a second\n", float64(n)/time.Since(start).Seconds())
	runtime.GC()
	time.Sleep(100 * time.Millisecond)
	return errors.Join(append(errs, say("end", torch.Live()))...)
}
