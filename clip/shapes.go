package clip

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gospml/gospml/torch/nn"
)

// Shapes are the names and shapes of the tensors that a file of a CLIP of this size has in a form, counters of batch normalisation among them. No weight is drawn or touched, so
// the largest sizes cost nothing.
func Shapes(c Config, form Form) (map[string][]int, error) {
	if form == HuggingFace && c.Vision != nil && c.Vision.Stages != nil {
		return nil, errors.New("clip: Hugging Face has no class for CLIP with a ModifiedResNet")
	}
	m, err := build(c, false)
	if err != nil {
		return nil, err
	}
	sd := nn.StateDictOf(m)
	defer sd.Free()
	out := map[string][]int{}
	for k, t := range sd {
		shape := t.Shape()
		switch form {
		case Own, OpenCLIP:
			out[k] = shape
		case HuggingFace:
			p, ok := toHuggingFace(k)
			if !ok {
				return nil, fmt.Errorf("clip: Hugging Face has no tensor for %s", k)
			}
			if p.transpose {
				slices.Reverse(shape)
			}
			if n := len(p.from); n > 1 {
				shape[0] /= n
			}
			for _, name := range p.from {
				out[name] = slices.Clone(shape)
			}
		default:
			return nil, fmt.Errorf("clip: %q is none of own, hf, open_clip", form)
		}
	}
	return out, nil
}
