package train

import (
	"context"
	"fmt"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/torch"
)

// Explanation says where in a photo a model looked for each label.
type Explanation struct {
	// Kind is "attention" (of the label's query over positions, LAC's Fig. 6: a row sums to 1) or "cam" (class activation map: what a position adds
	// to the logit).
	Kind          string
	H, W          int
	Maps          [][]float32 // [C][H·W], rows of the squashed photo from top to bottom
	Probabilities []float32   // [C]
}

// Explain decodes one photo and computes the map of every label: the decoder's attention where the model has one, class activation maps where its head is
// linear. ML-Decoder's queries answer for groups of classes, so it has neither.
func (t *Tagger) Explain(ctx context.Context, photo []byte) (*Explanation, error) {
	if h, ok := t.model.(*headed); ok && h.Decoder == nil {
		return nil, fmt.Errorf("%w: %s has no map for a single label; train with --head decoder or linear", ErrData, HeadMLDecoder)
	}
	var e *Explanation
	err := t.pool.Run(ctx, func() error {
		x, err := t.input(photo)
		if err != nil {
			return err
		}
		torch.Scope(func(*torch.Arena) {
			torch.Inference(func() { e, err = t.explain(t.tensor(x)) })
		})
		return err
	})
	return e, err
}

// explain runs on a worker, inside a scope.
func (t *Tagger) explain(x *torch.Tensor) (*Explanation, error) {
	m := t.model.FeatureMap(x)
	e := &Explanation{Kind: "cam", H: m.Size(2), W: m.Size(3)}
	var maps, logits *torch.Tensor
	if h, ok := t.model.(*headed); ok {
		out := h.Decoder.Forward(m, decoder.Want{Attention: true})
		e.Kind, maps, logits = "attention", out.Attention, out.Logits
	} else {
		head := t.model.Head()
		var err error
		if maps, err = decoder.CAM(m, head.Weight); err != nil {
			return nil, err
		}
		logits = head.Forward(m.MeanDim([]int{2, 3}, false))
	}
	e.Probabilities = torch.ToSlice[float32](sigmoids(logits))
	all := torch.ToSlice[float32](maps.ToDType(torch.Float32).Contiguous().Flatten(0, -1))
	for n := e.H * e.W; len(all) > 0; all = all[n:] {
		e.Maps = append(e.Maps, all[:n:n])
	}
	return e, nil
}

// input decodes a photo as the model was trained on them.
func (t *Tagger) input(photo []byte) ([]float32, error) {
	h, w := t.Config.PretrainedCfg.InputSize[1], t.Config.PretrainedCfg.InputSize[2]
	d := <-t.spare
	defer func() { t.spare <- d }()
	x := make([]float32, 3*h*w)
	return x, d.Normalized(photo, w, h, pixel.Bilinear, t.Config.PretrainedCfg.Mean, t.Config.PretrainedCfg.Std, false, x)
}

func (t *Tagger) tensor(x []float32) *torch.Tensor {
	h, w := t.Config.PretrainedCfg.InputSize[1], t.Config.PretrainedCfg.InputSize[2]
	return torch.FromSlice(x, 1, 3, h, w).ContiguousFormat(torch.ChannelsLast).ToDevice(t.device)
}
