package model

import (
	"context"

	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/torch"
)

// Explanation says where in a photo a model looked for each label.
type Explanation struct {
	// Kind is "attention" (of the label's query over positions, LAC's Fig. 6: a row sums to 1) or "cam" (class activation
	// map: what a position adds to the logit).
	Kind          string
	H, W          int
	Maps          [][]float32 // [C][H·W], rows of the squashed photo from top to bottom
	Probabilities []float32   // [C]
}

// Explain decodes one photo and computes the map of every label: the decoder's attention where the model has one, class
// activation maps where its head is linear. ML-Decoder's queries answer for groups of classes, so it has neither.
func (t *Tagger) Explain(ctx context.Context, photo []byte) (*Explanation, error) {
	if err := explains(t.model, t.Config.Head); err != nil {
		return nil, err
	}
	var e *Explanation
	err := t.pool.Run(ctx, func() error {
		x, err := t.input(photo)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		torch.Scope(func(*torch.Arena) {
			torch.Inference(func() { e, err = t.explain(t.tensor(x, 1)) })
		})
		return err
	})
	return e, err
}

// explain runs on a worker, inside a scope.
func (t *Tagger) explain(x *torch.Tensor) (*Explanation, error) {
	m, err := explain(t.model, x)
	if err != nil {
		return nil, err
	}
	e := &Explanation{Kind: m.Kind, H: m.H, W: m.W, Probabilities: torch.ToSlice[float32](compute.Sigmoids(m.Logits))}
	all := torch.ToSlice[float32](m.Values.ToDType(torch.Float32).Contiguous().Flatten(0, -1))
	for n := e.H * e.W; len(all) > 0; all = all[n:] {
		e.Maps = append(e.Maps, all[:n:n])
	}
	return e, nil
}
