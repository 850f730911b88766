package train

import (
	"fmt"

	"github.com/gospml/gospml/clip/tokenizer"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/dualcoop"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// clipModel is the model of a run whose backbone is a CLIP.
func (n *network) clipModel() (backbone.Model, error) {
	if n.saved != nil {
		return model.Blank(*n.saved)
	}
	path := n.c.Model.Weights
	if n.c.Model.Head == config.HeadDualCoOp {
		path = n.c.Pseudo.Clip
	}
	m, loaded, err := model.LoadClip(path)
	if err != nil {
		return nil, err
	}
	n.ev.note(loaded.String())
	if m.Visual == nil {
		return nil, fmt.Errorf("%w: %s has no image tower", ErrData, path)
	}
	if s := m.Config.Vision.Stride(); n.size < s {
		return nil, &config.Error{
			Msg: fmt.Sprintf("images of %d pixels are smaller than the %d of a region of %s", n.size, s, path),
		}
	}
	if n.c.Model.Head == config.HeadDualCoOp {
		tok := loaded.Tokenizer
		if tok == nil {
			tok = tokenizer.Default()
		}
		names, err := n.c.Pseudo.Names()
		switch {
		case err != nil:
			return nil, err
		case names == nil:
			names = n.ds.Classes
		case len(names) != n.ds.C():
			return nil, &config.Error{Msg: fmt.Sprintf("%s has %d texts and %s %d classes", n.c.Pseudo.ClassNames, len(names),
				n.ds.Name, n.ds.C())}
		}
		return dualcoop.New(m, tok, names, dualcoop.Config{
			Context: n.c.Model.Context, PerClass: n.c.Model.ClassContext, Generator: n.torch, ImageNet: true,
		})
	}
	var b backbone.Model
	err = torch.Try(func() { b = model.NewClipClassifier(m, n.ds.C(), nn.Generator(n.torch)) })
	return b, err
}
