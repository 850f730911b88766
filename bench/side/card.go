package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/vlm"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// openDevice reads cpu or cuda:N.
func openDevice(name string) (torch.Device, error) {
	if name == "cpu" {
		return torch.CPU, nil
	}
	n, err := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(name, "cuda"), ":"))
	if name == "cuda" {
		n, err = 0, nil
	}
	if err != nil {
		return torch.CPU, fmt.Errorf("device %q is neither cpu nor cuda:N", name)
	}
	return torch.CUDA(n), cuda.Available()
}

// finished waits until a device has done what is queued.
func finished(d torch.Device) error {
	if d.Type != torch.DeviceCUDA {
		return nil
	}
	return cuda.Synchronize(d.Index)
}

// bench is what the cases share.
type bench struct {
	device torch.Device
	dry    bool
	photos string // folder of JPEGs
	rows   *csv.Writer
}

// card measures what into a CSV. dry takes everything small, to see that it runs and what it would write.
func card(what, out string, options []string) (err error) {
	b := &bench{device: torch.CPU}
	name := "cuda:0"
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		switch key {
		case "device":
			name = value
		case "dry":
			b.dry = true
		case "photos":
			b.photos = value
		default:
			return fmt.Errorf("no option %q", o)
		}
	}
	if b.device, err = openDevice(name); err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b.rows = csv.NewWriter(f)
	switch what {
	case "train":
		return b.train()
	case "damp":
		return b.damp()
	}
	return fmt.Errorf("no case %q; there are train and damp", what)
}

// row writes and says a line.
func (b *bench) row(fields ...any) error {
	s := make([]string, len(fields))
	for i, f := range fields {
		s[i] = fmt.Sprint(f)
		if x, ok := f.(float64); ok {
			s[i] = strconv.FormatFloat(x, 'f', 3, 64)
		}
	}
	fmt.Println(strings.Join(s, "  "))
	err := b.rows.Write(s)
	b.rows.Flush()
	return errors.Join(err, b.rows.Error())
}

// seconds is the time of one call of step, of many in a row behind some that warm up.
func (b *bench) seconds(step func() error) (float64, error) {
	warm, n := 5, 20
	if b.dry {
		warm, n = 2, 2
	}
	calls := func(n int) error {
		for range n {
			var err error
			torch.Scope(func(*torch.Arena) { err = step() })
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := calls(warm); err != nil {
		return 0, err
	}
	if b.device.Type == torch.DeviceCUDA {
		t, err := cuda.Time(b.device.Index, func() error { return calls(n) })
		return t.Seconds() / float64(n), err
	}
	start := time.Now()
	err := calls(n)
	return time.Since(start).Seconds() / float64(n), err
}

// train are training steps from one fixed tensor, as bench/peers/train_cuda.py takes them.
func (b *bench) train() error {
	if err := b.row("what", "size", "batch", "precision", "ms", "images_per_s"); err != nil {
		return err
	}
	for _, recorded := range []bool{false, true} {
		if err := b.mlp(recorded); err != nil {
			return err
		}
	}
	type network struct {
		name        string
		size, batch int
	}
	all := []network{{"resnet50", 448, 64}, {"resnet50", 224, 64}, {"mobilenet_v2", 224, 64}}
	if b.dry {
		all = []network{{"small_cnn", 32, 4}}
	}
	for _, n := range all {
		for _, precision := range []string{"fp32", "tf32", "bf16"} {
			err := b.network(n.name, n.size, n.batch, precision)
			if errors.Is(err, torch.ErrOutOfMemory) {
				fmt.Println(n.name, n.size, precision, "out of memory")
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

func targets(batch int, d torch.Device) *torch.Tensor {
	return torch.Rand(torch.S(batch, 80)).LtScalar(0.03).ToDType(torch.Int8).Send(d)
}

func (b *bench) network(name string, size, batch int, precision string) error {
	torch.SetAllowTF32(precision == "tf32")
	defer torch.SetAllowTF32(false)
	m, err := backbone.New(name, 80)
	if err != nil {
		return err
	}
	defer nn.StateDictOf(m).Free()
	nn.ToDevice(m, b.device)
	nn.ChannelsLast(m)
	nn.SetTraining(m, true)
	opt := optim.NewSGD(nn.Parameters(m), optim.LR(0.01), optim.Momentum(0.9))
	criterion, err := loss.New("bce", "", nil, loss.Options{})
	if err != nil {
		return err
	}
	x, y := torch.Rand(torch.S(batch, 3, size,
		size)).ContiguousFormat(torch.ChannelsLast).Send(b.device), targets(batch, b.device)
	s, err := b.seconds(func() error {
		var z *torch.Tensor
		forward := func() { z = m.Forward(x) }
		if precision == "bf16" {
			torch.Autocast(b.device.Type, torch.BFloat16, forward)
		} else {
			forward()
		}
		v, err := criterion.Value(loss.Batch{Logits: z.ToDType(torch.Float32), Full: y})
		if err != nil {
			return err
		}
		opt.ZeroGrad()
		v.Backward()
		opt.Step()
		return nil
	})
	if err != nil {
		return err
	}
	return b.row(name, size, batch, precision, 1e3*s, float64(batch)/s)
}

// mlp is a small step, eager or recorded (on a card as a CUDA graph).
func (b *bench) mlp(recorded bool) error {
	const in, batch = 2048, 128
	first, second := nn.NewLinear(in, 512), nn.NewLinear(512, 80)
	nn.ToDevice(first, b.device)
	nn.ToDevice(second, b.device)
	opt := optim.NewSGD(append(nn.Parameters(first), nn.Parameters(second)...), optim.LR(0.01))
	x, y := torch.Rand(torch.S(batch, in)).Send(b.device), targets(batch, b.device).ToDType(torch.Float32)
	step := func(in []*torch.Tensor) []*torch.Tensor {
		opt.ZeroGrad()
		v := second.Forward(first.Forward(in[0]).Relu()).BinaryCrossEntropyWithLogits(in[1], nil, nil, 1)
		v.Backward()
		opt.Step()
		return []*torch.Tensor{v}
	}
	name, once := "mlp eager", func() error { step([]*torch.Tensor{x, y}); return nil }
	if recorded {
		r := torch.Record(step)
		defer r.Close()
		name, once = "mlp graph", func() error { _, err := r.Run(x, y); return err }
	}
	s, err := b.seconds(once)
	if err != nil {
		return err
	}
	return b.row(name, in, batch, "fp32", 1e3*s, batch/s)
}

// damp labels photos, each in 17 views, from prepared views and from JPEG files.
func (b *bench) damp() error {
	if err := b.row("what", "batch", "precision", "photos_per_s", "views_per_s"); err != nil {
		return err
	}
	c, err := clip.Named("ViT-B/16")
	if err != nil {
		return err
	}
	dtype, batch, rounds := torch.BFloat16, 32, 10
	if b.dry {
		dtype, batch, rounds = torch.Float32, 2, 1
	}
	torch.ManualSeed(0)
	var m *clip.Model
	if b.dry {
		m, err = clip.OpenBuiltin(clip.Options{Device: b.device})
	} else {
		net, e := clip.New(c)
		if e != nil {
			return e
		}
		m, err = clip.NewModel(net, clip.Options{DType: dtype, Device: b.device, Batch: 1024})
	}
	if err != nil {
		return err
	}
	defer m.Close()
	s, err := vlm.Published(vlm.DAMP, "coco", vlm.Default)
	if err != nil {
		return err
	}
	s.Grid, s.Batch = 4, batch
	const views, classes = 17, 80
	names := make([]string, classes)
	for i := range names {
		names[i] = fmt.Sprint("thing ", i)
	}
	ctx := context.Background()
	l, err := vlm.New(ctx, m, names, s)
	if err != nil {
		return err
	}
	observed := make([]int8, batch*classes)
	for i := range batch {
		observed[i*classes+i%classes] = 1
	}
	h, w := m.ImageSize()
	x := torch.Rand(torch.S(batch*views, 3, h, w)).Send(b.device).ToDType(m.DType())
	tensors := func() error {
		z, err := m.EncodeImage(ctx, x)
		if err != nil {
			return err
		}
		defer z.Free()
		// As the labeller: cosines of unit vectors, then labels.
		cos := clip.Normalize(z).Matmul(clip.Normalize(torch.Ones(torch.S(classes, z.Size(1)))).T()).Reshape(batch, views,
			classes)
		_, err = s.Labels(cos.Select(1, 0).Contiguous(), cos.Slice(1, 1, views, 1).Permute(1, 0, 2).Contiguous(), observed)
		return err
	}
	t, err := b.seconds(tensors)
	if err != nil {
		return err
	}
	precision := map[torch.DType]string{torch.BFloat16: "bf16", torch.Float32: "fp32"}[dtype]
	if err := b.row("tensors", batch, precision, float64(batch)/t, float64(batch*views)/t); err != nil {
		return err
	}
	if b.photos == "" {
		return nil
	}
	paths, err := filepath.Glob(filepath.Join(b.photos, "*.jpg"))
	if err != nil || len(paths) == 0 {
		return errors.Join(err, fmt.Errorf("%s holds no .jpg; `side photos FOLDER N` makes some", b.photos))
	}
	files, rows := make([][]byte, batch), make([]int, batch)
	for i := range files {
		rows[i] = i
		if files[i], err = os.ReadFile(paths[i%len(paths)]); err != nil {
			return err
		}
	}
	label := func() error {
		_, broken, err := l.Label(ctx, vlm.Photos{Rows: rows, Files: files}, observed)
		return errors.Join(append(broken, err)...)
	}
	if err := label(); err != nil {
		return err
	}
	// Two at a time: one batch is decoded while another one is encoded.
	var left atomic.Int64
	left.Store(int64(rounds))
	var wg sync.WaitGroup
	var failed [2]error
	start := time.Now()
	for i := range failed {
		wg.Go(func() {
			for failed[i] == nil && left.Add(-1) >= 0 {
				failed[i] = label()
			}
		})
	}
	wg.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		return err
	}
	rate := float64(rounds*batch) / time.Since(start).Seconds()
	return b.row("jpegs", batch, precision, rate, rate*views)
}

// drawPhotos writes drawn photos of 640 × 480 as JPEG.
func drawPhotos(dir, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	seed := uint32(1)
	for i := range n {
		m := image.NewRGBA(image.Rect(0, 0, 640, 480))
		for y := range 480 {
			for x := range 640 {
				seed = seed*1664525 + 1013904223
				noise := uint8(seed >> 27)
				m.SetRGBA(x, y, color.RGBA{uint8(x/3+i) + noise, uint8(y/2+2*i) + noise, uint8((x+y)/4) + noise, 255})
			}
		}
		var b bytes.Buffer
		if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 90}); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d.jpg", i)), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
