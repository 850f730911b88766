package model

import (
	"fmt"
	"math"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/spml/dualcoop"
	"github.com/gospml/gospml/spml/internal/graph"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Description is a network for packages of this module that make other forms of it: the steps of its body, and what
// stands on the body's feature map. Without any of that the logits are the body's own.
type Description struct {
	Body *graph.Description

	Decoder *decoder.Decoder
	Latent  *decoder.Latent // beside Decoder, whose classifier then judges the mean of the latent
	ML      *decoder.MLDecoder
	Boosted *nn.Linear // judges each position; positive scores are raised by Boost before their mean
	Boost   float64
	Texts   *torch.Tensor // DualCoOp's prompts [2·C, E], which the regions of Body.Maps are compared with
}

// Describe writes a network down. Its tensors are the network's own, or new ones, which are the caller's scope's. A
// network whose layers have no description is an error that wraps backbone.ErrForm.
func Describe(m backbone.Model) (d *Description, err error) {
	d = &Description{}
	body := m
	switch h := m.(type) {
	case *decoded:
		body, d.Decoder = h.Body, h.Decoder
	case *enhanced:
		body, d.Decoder, d.Latent = h.Body, h.Decoder, h.Latent
	case *grouped:
		body, d.ML = h.Body, h.ML
	case *boosted:
		body, d.Boosted, d.Boost = h.Body, h.Body.Head(), h.spec.Boost
	case *clipClassifier:
		d.Body, err = describeTower(h.Visual, h.config, h.Fc)
		return d, err
	case *dualcoop.Model:
		d.Texts = h.Texts()
		d.Body, err = describeTower(h.CLIP.Visual, h.CLIP.Config, nil)
		return d, err
	}
	d.Body, err = backbone.Describe(body)
	return d, err
}

// describeTower writes a CLIP's vision transformer down, whose pictures come normalised by ImageNet's numbers. Features
// and maps are embeddings, with the class token's as the first of the map.
func describeTower(tower clip.ImageTower, c clip.Config, head *nn.Linear) (*graph.Description, error) {
	v, ok := tower.(*clip.ViT)
	act, known := map[clip.Act]graph.Act{
		clip.QuickGELU: graph.QuickGELU, clip.GELU: graph.GELU, clip.GELUTanh: graph.GELUTanh,
	}[c.Vision.Act]
	if !ok || !known || v.AttnPool != nil || c.Vision.MeanPool || v.Conv1 == nil {
		return nil, fmt.Errorf("%w of a CLIP whose image tower is no transformer with a class token", backbone.ErrForm)
	}
	d := &graph.Description{}
	steps, err := graph.Describe(func(b *graph.Builder) {
		norm := func(x graph.Value, n *nn.LayerNorm) graph.Value { return b.Norm(x, n.Weight, n.Bias, n.Eps) }
		x := b.Tokens(b.Input(), rescaled(v.Conv1, c), true)
		if v.LNPre != nil {
			x = norm(x, v.LNPre)
		}
		for _, k := range v.Transformer.Resblocks {
			branch := func(s *clip.LayerScale, add graph.Value) graph.Then {
				if s == nil {
					return graph.Then{Add: &add}
				}
				return graph.Then{Scale: s.Gamma, Add: &add}
			}
			qkv := b.Linear(norm(x, k.LN1), k.Attn.InProjWeight, k.Attn.InProjBias, graph.Then{})
			y := b.Attention(qkv, k.Attn.Heads, 1/math.Sqrt(float64(x.Channels()/k.Attn.Heads)))
			x = b.Linear(y, k.Attn.OutProj.Weight, k.Attn.OutProj.Bias, branch(k.LS1, x))
			y = b.Linear(norm(x, k.LN2), k.Mlp.CFc.Weight, k.Mlp.CFc.Bias, graph.Then{Act: act})
			x = b.Linear(y, k.Mlp.CProj.Weight, k.Mlp.CProj.Bias, branch(k.LS2, x))
		}
		project := v.Proj.Detach().T().Contiguous()
		d.Features = b.Linear(norm(b.First(x), v.LNPost), project, nil, graph.Then{})
		d.Maps = b.Linear(norm(x, v.LNPost), project, nil, graph.Then{})
		if head != nil {
			d.Logits = b.Linear(d.Features, head.Weight, head.Bias, graph.Then{})
		}
	})
	d.Steps = steps
	d.Table = func(height, width int) *torch.Tensor {
		p := c.Vision.PatchSize
		t := clip.ResizePositions(v.PositionalEmbedding, *c.Vision, height/p, width/p)
		first := t.Slice(0, 0, 1, 1).Add(v.ClassEmbedding)
		return torch.Cat([]*torch.Tensor{first, t.Slice(0, 1, t.Size(0), 1)}, 0)
	}
	return d, err
}

// rescaled is a convolution without a border whose weights bring pictures with ImageNet's statistics to a CLIP's.
func rescaled(c *nn.Conv2d, config clip.Config) *nn.Conv2d {
	scale, shift := dualcoop.Renormalize(config.Preprocess.Mean, config.Preprocess.Std)
	w := c.Weight.Detach().ToDType(torch.Float64)
	out := *c
	out.Weight = w.Mul(scale).ToDType(torch.Float32)
	bias := w.Mul(shift).SumDim([]int{1, 2, 3}, false)
	if c.Bias != nil {
		bias = bias.Add(c.Bias.Detach())
	}
	out.Bias = bias.ToDType(torch.Float32)
	return &out
}
