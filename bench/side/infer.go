package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// infer answers "network batch iterations" lines with seconds per call of the form frozen, bf16 or int8 (frozen too) or
// plain, random weights, 224 × 224, 80 classes; NaN where a network has none here. One network is kept at a time.
func infer(threads int, form string) error {
	if err := torch.SetNumThreads(threads); err != nil {
		return err
	}
	var name string
	var net backbone.Model
	inputs := map[int]*torch.Tensor{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var want string
		var batch, n int
		if _, err := fmt.Sscan(lines.Text(), &want, &batch, &n); err != nil || batch < 1 || n < 1 {
			return fmt.Errorf("line %q: want `network batch iterations`", lines.Text())
		}
		if want != name {
			m, err := backbone.New(want, 80)
			if err != nil {
				return err
			}
			nn.SetTraining(m, false)
			if net, name = m, want; form != "plain" {
				if net, err = inForm(m, form); err != nil {
					fmt.Fprintf(os.Stderr, "%s in %s: %v\n", want, form, err)
					net = nil
				}
				nn.Walk(m, func(e nn.Entry) { e.Tensor.Free() })
			}
		}
		if net == nil { // the others go on
			fmt.Println("NaN")
			continue
		}
		if inputs[batch] == nil {
			inputs[batch] = torch.Randn(torch.S(batch, 3, 224, 224)).ContiguousFormat(torch.ChannelsLast)
		}
		var seconds float64
		torch.Inference(func() {
			begun := time.Now()
			for range n {
				torch.Scope(func(*torch.Arena) { net.Forward(inputs[batch]) })
			}
			seconds = time.Since(begun).Seconds() / float64(n)
		})
		fmt.Println(seconds)
	}
	return lines.Err()
}

// inForm is a model in a form for inference; int8 is calibrated on noise.
func inForm(m backbone.Model, form string) (backbone.Model, error) {
	switch form {
	case "bf16":
		return backbone.Freeze(m, torch.BFloat16)
	case "int8":
		c, err := backbone.Calibrate(m, func(yield func(*torch.Tensor, error) bool) {
			for range 4 {
				if !yield(torch.Randn(torch.S(1, 3, 224, 224)), nil) {
					return
				}
			}
		})
		if err != nil {
			return nil, err
		}
		return backbone.Quantize(m, c)
	}
	return backbone.Freeze(m, torch.Float32)
}
