package network

import (
	"fmt"

	"github.com/gospml/gospml/clip/tokenizer"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/dualcoop"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// clipModel is the model of a run whose backbone is a CLIP.
func (n *Network) clipModel() (backbone.Model, error) {
	if n.o.Saved != nil {
		return model.Blank(*n.o.Saved)
	}
	path := n.o.Config.Model.Weights
	if n.o.Config.Model.Head == config.HeadDualCoOp {
		path = n.o.Config.Pseudo.Clip
	}
	m, loaded, err := model.LoadClip(path)
	if err != nil {
		return nil, err
	}
	n.o.Events.Say(loaded.String())
	if m.Visual == nil {
		return nil, fmt.Errorf("%w: %s has no image tower", fault.ErrData, path)
	}
	if s := m.Config.Vision.Stride(); n.Size < s {
		return nil, &config.Error{
			Msg: fmt.Sprintf("images of %d pixels are smaller than the %d of a region of %s", n.Size, s, path),
		}
	}
	if n.o.Config.Model.Head == config.HeadDualCoOp {
		tok := loaded.Tokenizer
		if tok == nil {
			tok = tokenizer.Default()
		}
		names, err := n.o.Config.Pseudo.Names()
		switch {
		case err != nil:
			return nil, err
		case names == nil:
			names = n.o.Data.Classes
		case len(names) != n.o.Data.C():
			return nil, &config.Error{Msg: fmt.Sprintf("%s has %d texts and %s %d classes", n.o.Config.Pseudo.ClassNames,
				len(names), n.o.Data.Name, n.o.Data.C())}
		}
		return dualcoop.New(m, tok, names, dualcoop.Config{
			Context: n.o.Config.Model.Context, PerClass: n.o.Config.Model.ClassContext, Generator: n.o.Generator, ImageNet: true,
		})
	}
	var b backbone.Model
	err = torch.Try(func() { b = model.NewClipClassifier(m, n.o.Data.C(), nn.Generator(n.o.Generator)) })
	return b, err
}
