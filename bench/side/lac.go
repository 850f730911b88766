package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// lacStep answers each line of the input with the seconds of one training step of LAC's second stage, and "peak" with the process's largest resident
// size in MiB: ResNet-50 with constant normalisation and a frozen first stage, 448 × 448, batch 4 in two views, d = 2048, 80 classes, a queue of 512 pairs.
// options are words: bf16 (autocast), contiguous, checkpoint, in-backward (the optimiser), threads=N, device=cuda:0,
// dry (a small network and picture).
func lacStep(options []string) error {
	var bf16, contiguous, checkpoint, inBackward, dry bool
	threads, device := 2, torch.CPU
	for _, o := range options {
		switch {
		case o == "bf16":
			bf16 = true
		case o == "contiguous":
			contiguous = true
		case o == "in-backward":
			inBackward = true
		case o == "checkpoint":
			checkpoint = true
		case o == "dry":
			dry = true
		case strings.HasPrefix(o, "device="):
			var err error
			if device, err = openDevice(strings.TrimPrefix(o, "device=")); err != nil {
				return err
			}
		case strings.HasPrefix(o, "threads="):
			if _, err := fmt.Sscanf(o, "threads=%d", &threads); err != nil {
				return err
			}
		default:
			return fmt.Errorf("no option %q", o)
		}
	}
	if err := torch.SetNumThreads(threads); err != nil {
		return err
	}
	const batch, classes = 4, 80
	name, side, inside := "resnet50", 448, 0
	if dry {
		name, side, inside = "small_cnn", 64, 32
	}
	torch.ManualSeed(0)
	body, err := backbone.New(name, classes)
	if err != nil {
		return err
	}
	width := body.FeatureDim()
	body.SetHead(nil)
	nn.ConstantBatchNorm(body)
	if !dry {
		if err := backbone.FreezeAt(body, 2); err != nil {
			return err
		}
	}
	head, err := decoder.New(decoder.Config{InFeatures: width, Classes: classes, Dim: inside})
	if err != nil {
		return err
	}
	nn.ToDevice(body, device)
	nn.ToDevice(head, device)
	head.Checkpointing = checkpoint
	criterion, err := loss.New("lac", "", nil, loss.Options{})
	if err != nil {
		return err
	}
	pairs, err := label.NewPairs(512, 128, 0.9, device)
	if err != nil {
		return err
	}
	var params []*torch.Tensor
	for _, p := range append(nn.Parameters(body), nn.Parameters(head)...) {
		if p.RequiresGrad() {
			params = append(params, p)
		}
	}
	x, seen := torch.Rand(torch.S(2*batch, 3, side, side)), torch.Zeros(torch.S(batch, classes))
	if !contiguous {
		nn.ChannelsLast(body)
		x = x.ContiguousFormat(torch.ChannelsLast)
	}
	for i := range batch {
		seen.At(i, 7*i).Fill_(1)
	}
	x, seen = x.Send(device), seen.Send(device)
	opt := optim.NewAdamW(params, optim.LR(1e-4), optim.WeightDecay(1e-2))
	if inBackward {
		defer optim.InBackward(opt)()
	}
	step := func() (err error) {
		opt.ZeroGrad()
		var out decoder.Output
		forward := func() { out = head.Forward(body.FeatureMap(x), decoder.Want{Embeddings: true}) }
		if bf16 {
			torch.Autocast(device.Type, torch.BFloat16, forward)
		} else {
			forward()
		}
		half := func(t *torch.Tensor, i int) *torch.Tensor { return t.ToDType(torch.Float32).Narrow(0, i*batch, batch) }
		b := &loss.Batch{Logits: half(out.Logits, 0), Strong: half(out.Logits, 1), Observed: seen}
		if err := pairs.Fill(&label.Step{Batch: b, Weak: half(out.Z, 0), Strong: half(out.Z, 1)}); err != nil {
			return err
		}
		value, err := criterion.Value(*b)
		if err != nil {
			return err
		}
		value.Backward()
		opt.Step()
		return finished(device)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "peak" {
			var use syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
				return err
			}
			fmt.Println(use.Maxrss / 1024)
			continue
		}
		start := time.Now()
		var err error
		torch.Scope(func(*torch.Arena) { err = step() })
		if err != nil {
			return err
		}
		fmt.Println(time.Since(start).Seconds())
	}
	return nil
}
