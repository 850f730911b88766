package clip

import (
	"fmt"
	"math"
)

// shapes gives the shape of one of our tensors by OpenAI's name, nil where it is absent.
type shapes func(key string) []int

// infer reads a configuration off the tensors' shapes. Heads are not in the shapes: they are width/64, as in every release of OpenAI, but for the widths
// of open_clip's larger models. Nor is the activation; the caller chooses.
func infer(names map[string]string, found naming, shape shapes, act Act, imageSize [2]int) (c Config, notes []string, err error) {
	dims := func(key string, n int) []int {
		if err != nil {
			return make([]int, n)
		}
		s := shape(key)
		if len(s) != n {
			err = fmt.Errorf("%s has the shape %v, want %d dimensions", key, s, n)
			return make([]int, n)
		}
		return s
	}
	heads := func(tower string, width int) int {
		n := width / 64
		switch width {
		case 1280, 1408, 1664: // ViT-H, g, bigG
			n = 16
		}
		if n < 1 || width%max(n, 1) != 0 {
			n = 1
		}
		notes = append(notes, fmt.Sprintf("heads of the %s tower by its width: %d", tower, n))
		return n
	}
	c.Preprocess = OpenAIPreprocess
	visionBlocks, textBlocks := "visual.transformer.resblocks.", "transformer.resblocks."
	if found == huggingFaceNames {
		visionBlocks, textBlocks = "vision_model.encoder.layers.", "text_model.encoder.layers."
	}
	switch {
	case shape("visual.proj") != nil:
		proj, conv := dims("visual.proj", 2), dims("visual.conv1.weight", 4)
		positions := dims("visual.positional_embedding", 2)
		v := &Vision{Width: conv[0], PatchSize: conv[3], Layers: blocks(names, visionBlocks), Act: act, Eps: 1e-5, Positions: PositionsAuto, NoLNPre: shape("visual.ln_pre.weight") == nil}
		v.MLP = dims("visual.transformer.resblocks.0.mlp.c_fc.weight", 2)[0]
		v.Heads = heads("image", v.Width)
		v.LayerScale = shape("visual.transformer.resblocks.0.ls_1.gamma") != nil
		if shape("visual.attn_pool_contrastive.query") != nil {
			return c, nil, fmt.Errorf("there are two attention pools, which can be read in two ways (attentional_pool parallel or cascade); a configuration beside the weights is needed")
		}
		if q := shape("visual.attn_pool.query"); len(q) == 2 {
			v.Pooler = &Pooler{Queries: q[0], Heads: 8}
			notes = append(notes, "8 heads in the attention pool, open_clip's number")
		}
		if v.ImageSize, err = gridSize(positions[0]-1, v.PatchSize, imageSize, err); err != nil {
			return c, nil, err
		}
		c.EmbedDim, c.Vision = proj[1], v
	case shape("visual.layer1.0.conv1.weight") != nil:
		v := &Vision{Width: dims("visual.layer1.0.conv1.weight", 4)[0], Positions: PositionsAuto}
		for i := range 4 {
			v.Stages = append(v.Stages, blocks(names, fmt.Sprintf("visual.layer%d.", i+1)))
		}
		v.Heads = max(1, v.Width*32/64)
		if v.ImageSize, err = gridSize(dims("visual.attnpool.positional_embedding", 2)[0]-1, 32, imageSize, err); err != nil {
			return c, nil, err
		}
		c.EmbedDim, c.Vision = dims("visual.attnpool.c_proj.weight", 2)[0], v
	case shape("visual.conv1.weight") != nil:
		return c, nil, fmt.Errorf("the image tower is neither a ViT (visual.proj) nor a ModifiedResNet (visual.layer1)")
	}
	if shape("token_embedding.weight") != nil {
		vocab, positions := dims("token_embedding.weight", 2), dims("positional_embedding", 2)
		var proj []int
		projection := ProjectionMatrix
		if l := shape("text_projection.weight"); len(l) == 2 {
			proj, projection = []int{l[1], l[0]}, ProjectionBias
		} else {
			proj = dims("text_projection", 2)
		}
		t := &Text{Projection: projection, LayerScale: shape("transformer.resblocks.0.ls_1.gamma") != nil,
			VocabSize: vocab[0], ContextLength: positions[0], Width: vocab[1], Layers: blocks(names, textBlocks), Act: act, Eps: 1e-5}
		t.MLP = dims("transformer.resblocks.0.mlp.c_fc.weight", 2)[0]
		t.Heads = heads("text", t.Width)
		c.EmbedDim, c.Text = proj[1], t
	}
	c.LogitBias = shape("logit_bias") != nil
	return c, notes, err
}

// gridSize is the image's size for so many places; a grid that is not square needs to be told.
func gridSize(places, stride int, told [2]int, err error) ([2]int, error) {
	if err != nil {
		return told, err
	}
	if told != [2]int{} && (told[0]/stride)*(told[1]/stride) == places {
		return told, nil
	}
	side := int(math.Round(math.Sqrt(float64(max(places, 0)))))
	if side < 1 || side*side != places {
		return told, fmt.Errorf("there are position embeddings for %d places, which is no square; a configuration with the image's size is needed", places)
	}
	return [2]int{side * stride, side * stride}, nil
}
