package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/jit"
	"github.com/gospml/gospml/torch/nn"
)

// exportTorchScript writes the model of a folder as a TorchScript archive: forward takes normalised images [B, 3, H, W] (or features [B, D], of a head on
// features) and gives logits [B, C]. config.json lies in the archive. What is written is tried first, on batches of other sizes than the traced one.
func exportTorchScript(from, to string, mc Config) error {
	config, err := json.MarshalIndent(mc, "", "  ")
	if err != nil {
		return err
	}
	return compute.Guard(func() error {
		m, layers, forward, example, err := tracedModel(from, mc)
		if err != nil {
			return err
		}
		defer nn.StateDictOf(layers).Free()
		traced, err := jit.Trace(layers, example(1), forward)
		if err == nil {
			err = alike(traced, forward, example)
		}
		if err == nil {
			err = traced.Save(to, map[string]string{ConfigFile: string(config)})
		}
		if traced != nil {
			err = errors.Join(err, traced.Close())
		}
		var wrong *unlike
		if errors.As(err, &wrong) {
			return fmt.Errorf("%w: %s cannot be written as TorchScript: %w; --to %s writes its weights", ErrData, m, wrong, ExportSafetensors)
		}
		return err
	})
}

// tracedModel opens a model, or a head, for tracing; example makes an input of n rows.
func tracedModel(from string, mc Config) (name string, layers any, forward func(x *torch.Tensor) *torch.Tensor, example func(n int) *torch.Tensor, err error) {
	g := torch.NewGenerator(1)
	if mc.FeaturesOnly {
		head := nn.NewLinear(mc.NumFeatures, mc.NumClasses, nn.NoInit())
		sd, _, err := nn.LoadSafetensors(filepath.Join(from, WeightsFile))
		if err == nil {
			defer sd.Free()
			_, err = nn.LoadStateDict(head, sd, true)
		}
		return "a head on features", head, head.Forward, func(n int) *torch.Tensor { return torch.Randn(torch.S(n, mc.NumFeatures), torch.Float32, g) }, err
	}
	opened, err := Open(from)
	if err != nil {
		return "", nil, nil, nil, err
	}
	m := opened.Net
	name = mc.Architecture
	if mc.Head != "" && mc.Head != HeadLinear {
		name += " with the head " + mc.Head
	}
	size := mc.PretrainedCfg.InputSize
	return name, m, m.Forward, func(n int) *torch.Tensor { return torch.Randn(torch.S(n, size[0], size[1], size[2]), torch.Float32, g) }, nil
}

// unlike says how a traced module differs from its model.
type unlike struct{ msg string }

func (u *unlike) Error() string { return u.msg }

// alike compares the logits of a traced module with the model's on batches of 1 and 3 other inputs.
func alike(traced *jit.Module, forward func(x *torch.Tensor) *torch.Tensor, example func(n int) *torch.Tensor) (err error) {
	torch.Scope(func(*torch.Arena) {
		torch.NoGrad(func() {
			for _, n := range []int{1, 3} {
				x := example(n)
				want := forward(x)
				got, e := traced.Forward(x)
				if e != nil {
					err = &unlike{fmt.Sprintf("what was traced with one image does not run on %d: %v", n, e)}
					return
				}
				if d := got.Sub(want).Abs().Max().Item(); !(d <= 1e-5*(1+want.Abs().Max().Item())) {
					err = &unlike{fmt.Sprintf("on %d images its logits differ by %.3g from the model's", n, d)}
					return
				}
			}
		})
	})
	return err
}
