package train

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// saveMemory freezes stages and turns checkpointing on.
func (n *network) saveMemory() error {
	body := model.Base(n.model)
	if n.c.Model.FreezeAt > 0 {
		if err := backbone.FreezeAt(body, n.c.Model.FreezeAt); err != nil {
			return &config.Error{Msg: fmt.Sprintf("freeze_at: %v", strings.TrimPrefix(err.Error(), "backbone: "))}
		}
	}
	switch n.c.Model.GradCheckpointing {
	case config.CheckpointAll:
		r, ok := body.(model.BodyCheckpointer)
		if !ok {
			return &config.Error{Msg: "grad_checkpointing all knows the blocks of a ResNet; " + n.c.Model.Backbone + " is none"}
		}
		for _, l := range nn.Modules(body) {
			if bn, ok := l.(*nn.BatchNorm2d); ok && !bn.Frozen {
				return &config.Error{
					Msg: "grad_checkpointing all would count every batch twice in the running statistics: set batch_norm frozen " +
						"or constant",
				}
			}
		}
		r.CheckpointBody()
		fallthrough
	case config.CheckpointHead:
		if h, ok := n.model.(model.HeadCheckpointer); ok {
			h.CheckpointHead()
		}
	}
	return nil
}

// startFrom copies what fits of a saved model into m, and says what did not.
func startFrom(m backbone.Model, dir string) (string, error) {
	dir = model.Dir(dir)
	sd, _, err := nn.LoadSafetensors(filepath.Join(dir, model.WeightsFile))
	if err != nil {
		return "", err
	}
	defer sd.Free()
	if w := sd["weight"]; w != nil && m.HeadKey() != "" { // a head on features
		sd = nn.StateDict{m.HeadKey() + ".weight": w, m.HeadKey() + ".bias": sd["bias"]}
	}
	var fresh, unused []string
	model.Fit(m, sd)
	own := nn.StateDictOf(m)
	err = torch.Try(func() {
		torch.NoGrad(func() {
			for _, k := range own.Keys() {
				from := sd[k]
				if from == nil || !sameShape(from, own[k]) {
					fresh = append(fresh, k)
					continue
				}
				own[k].Detach().Copy_(from)
			}
		})
	})
	for _, k := range sd.Keys() {
		if own[k] == nil {
			unused = append(unused, k)
		}
	}
	if err == nil && len(fresh) == len(own) {
		err = errors.New("none of its tensors fits this model")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", dir, err)
	}
	return fmt.Sprintf("%s: %d tensors taken, %d fresh, %d not used", dir, len(own)-len(fresh), len(fresh), len(unused)), nil
}

func sameShape(a, b *torch.Tensor) bool {
	return fmt.Sprint(a.Shape()) == fmt.Sprint(b.Shape())
}
