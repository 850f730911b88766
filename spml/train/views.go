package train

import (
	"fmt"

	"github.com/gospml/gospml/data/augment"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/input"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch"
)

// strongView numbers the draws of the strong view; the weak view's only draw is the recipe's flip.
const strongView = 1

// strong turns the images of a view into their strongly augmented, normalised tensor. Its flips are drawn apart from
// the weak view's. Draws depend on (seed, epoch, row), nothing else.
func (f *fineTune) strong(v *view, epoch int) (*torch.Tensor, error) {
	per := 3 * f.Size * f.Size
	n := len(v.places)
	x := make([]byte, n*per)
	p := f.c.Method.Strong(f.Size)
	for i := range n {
		at := v.from + i
		img := &pixel.RGB{W: f.Size, H: f.Size, Pix: append([]byte(nil), v.images.Images[at]...)}
		img, err := p.Apply(img, augment.Draw(uint64(f.c.Run.Seed), epoch, v.images.Rows[at], strongView))
		if err != nil {
			return nil, fmt.Errorf("the strong view of %s: %w", f.ds.Images[v.images.Rows[at]], err)
		}
		copy(x[i*per:(i+1)*per], img.Pix)
	}
	return input.Normalize(torch.FromSlice(x, n, f.Size, f.Size, 3).Send(f.device), nil, input.Options{ChannelsLast: true})
}

// twoViews runs weak and strong images [B, 3, S, S] through the model at once and fills both logits, and the embeddings
// where the loss contrasts them.
func (f *fineTune) twoViews(v *view, weak *torch.Tensor, epoch int, b *loss.Batch) error {
	strong, err := f.strong(v, epoch)
	if err != nil {
		return err
	}
	n := len(v.places)
	both := torch.Cat([]*torch.Tensor{weak, strong}, 0)
	half := func(t *torch.Tensor, i int) *torch.Tensor { return t.Narrow(0, i*n, n) }
	var z, embedded *torch.Tensor
	if f.entry.Needs&loss.Embeddings != 0 {
		if z, embedded = model.Embed(f.Model, both); embedded != nil {
			v.weak, v.strong = half(embedded, 0), half(embedded, 1)
		}
	} else {
		z = f.Model.Forward(both)
	}
	b.Logits, b.Strong = half(z, 0), half(z, 1)
	return nil
}

// threeViews runs the weak, the strong and the masked images through the model, one after the other, so that live batch
// normalisation sees three batches. The masked ones show what the method's mask keeps of the weak ones, 0 (ImageNet's
// mean colour) elsewhere; their logits have no gradient.
func (f *fineTune) threeViews(v *view, weak *torch.Tensor, epoch int, b *loss.Batch) error {
	strong, err := f.strong(v, epoch)
	if err != nil {
		return err
	}
	h := f.Model.Head()
	maps := torch.Linear(f.Model.FeatureMap(weak).Permute(0, 2, 3, 1), h.Weight, h.Bias).Permute(0, 3, 1, 2)
	b.Logits = maps.MeanDim([]int{2, 3}, false)
	b.Strong = f.Model.Forward(strong)
	rows := make([]int, len(v.places))
	for i, p := range v.places {
		rows[i] = f.train[p]
	}
	observed := compute.Upload(f.device, f.ds.Gather(f.ds.Observed, rows), len(rows), f.ds.C())
	torch.NoGrad(func() {
		var mask *torch.Tensor
		mask, _, err = f.method.Mask(f.values).Keep(maps.ToDType(torch.Float32), observed, weak.Size(2), weak.Size(3))
		if err == nil {
			v.masked = f.Model.Forward(weak.Mul(mask.ToDType(weak.DType())))
		}
	})
	return err
}
