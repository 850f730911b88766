package clip

import (
	"fmt"

	"github.com/gospml/gospml/data/pixel"
)

// Config describes a CLIP: the shapes of both towers, and how pictures become its input.
type Config struct {
	EmbedDim int     `json:"embed_dim"`
	Vision   *Vision `json:"vision,omitempty"` // nil: no image tower
	Text     *Text   `json:"text,omitempty"`   // nil: no text tower
	// LogitBias says that there is a trained bias beside the scale (open_clip's models trained with a sigmoid loss).
	LogitBias  bool       `json:"logit_bias,omitempty"`
	Preprocess Preprocess `json:"preprocess"`
}

// Vision is the shape of an image tower: a vision transformer, or a ModifiedResNet where Stages is set.
type Vision struct {
	ImageSize [2]int    `json:"image_size"` // height, width
	Width     int       `json:"width"`
	Heads     int       `json:"heads"` // of the attention pool for a ModifiedResNet
	Layers    int       `json:"layers,omitempty"`
	MLP       int       `json:"mlp,omitempty"` // width of the hidden layer
	PatchSize int       `json:"patch_size,omitempty"`
	Stages    []int     `json:"stages,omitempty"` // blocks of the four stages of a ModifiedResNet
	Act       Act       `json:"act,omitempty"`
	Eps       float64   `json:"eps,omitempty"` // of layer normalisation
	Positions Positions `json:"positions"`
	// NoLNPre leaves out the norm before the blocks (open_clip's no_ln_pre).
	NoLNPre bool `json:"no_ln_pre,omitempty"`
	// MeanPool reads the mean over the patches out instead of the class token (open_clip's pool_type avg).
	MeanPool bool `json:"mean_pool,omitempty"`
	// NormAfterPool takes the last norm of the mean instead of the mean of the norms (open_clip's final_ln_after_pool); without MeanPool both are the same.
	NormAfterPool bool `json:"norm_after_pool,omitempty"`
	// LayerScale says that the blocks' two branches are multiplied by trained gains (open_clip's ls_init_value; Touvron et al. 2021, arXiv:2103.17239).
	LayerScale bool `json:"layer_scale,omitempty"`
	// Pooler reads the tokens out by trained queries (open_clip's attentional_pool); nil: none.
	Pooler *Pooler `json:"pooler,omitempty"`
}

// Pooler is the shape of an attention pool over the tokens of a vision transformer (Yu et al. 2022, arXiv:2205.01917, in open_clip's form).
type Pooler struct {
	Queries int `json:"queries"`
	Heads   int `json:"heads"`
	// Contrastive says what a second pool of one query reads: the tokens beside the first pool, or its results. Without it the first result is read out, or the mean of the others
	// where MeanPool is set.
	Contrastive PoolerForm `json:"contrastive,omitempty"`
}

// PoolerForm is what the second attention pool reads.
type PoolerForm string

// Forms of the second pool.
const (
	PoolerSingle   PoolerForm = ""         // there is none
	PoolerParallel PoolerForm = "parallel" // the tokens
	PoolerCascade  PoolerForm = "cascade"  // the first pool's results
)

// Text is the shape of a text tower.
type Text struct {
	ContextLength int     `json:"context_length"`
	VocabSize     int     `json:"vocab_size"`
	Width         int     `json:"width"`
	Heads         int     `json:"heads"`
	Layers        int     `json:"layers"`
	MLP           int     `json:"mlp"`
	Act           Act     `json:"act"`
	Eps           float64 `json:"eps"`
	// EOT is the id whose first place is read out (Hugging Face); 0 reads the place of the largest id (OpenAI, open_clip).
	EOT int `json:"eot,omitempty"`
	// Pool reads another place out than the end of the text.
	Pool TextPool `json:"pool,omitempty"`
	// Bidirectional says that all places see each other (open_clip's no_causal_mask), padding included.
	Bidirectional bool `json:"bidirectional,omitempty"`
	// LayerScale is as in Vision.
	LayerScale bool `json:"layer_scale,omitempty"`
	// Projection is how the token that is read out becomes an embedding.
	Projection Projection `json:"projection,omitempty"`
}

// Projection is the last map of the text tower.
type Projection string

// Projections.
const (
	ProjectionMatrix Projection = ""     // a matrix
	ProjectionBias   Projection = "bias" // a linear layer with a bias (open_clip's proj_bias)
	ProjectionNone   Projection = "none" // none: the width is that of the embedding (open_clip's proj_type none)
)

// TextPool is the place of a text that becomes its embedding.
type TextPool string

// Places.
const (
	PoolEnd   TextPool = ""      // the end token, see Text.EOT
	PoolFirst TextPool = "first" // the first token
	PoolLast  TextPool = "last"  // the last place of the context, padding or not
)

// whole says that what follows the end of a text matters.
func (t *Text) whole() bool { return t.Bidirectional || t.Pool == PoolLast }

// Act is the activation of the transformer blocks.
type Act string

// Activations. The wrong one degrades a model without any error, so it is stored with it.
const (
	QuickGELU Act = "quick_gelu" // x·σ(1.702x): OpenAI's weights and those trained from them
	GELU      Act = "gelu"       // x·Φ(x): open_clip's default
	GELUTanh  Act = "gelu_tanh"  // GELU by tanh (Hendrycks and Gimpel 2016, section 2): gelu_pytorch_tanh, gelu_new
)

// Positions is the rule by which position embeddings are resized for another image size; all are bicubic without aligned corners.
type Positions string

// Rules of resizing position embeddings.
const (
	PositionsAuto        Positions = "auto"      // antialiased where an axis shrinks, else not
	PositionsOpenCLIP    Positions = "antialias" // open_clip: always with antialiasing (kernel a = -0.5)
	PositionsHuggingFace Positions = "plain"     // Hugging Face: never (kernel a = -0.75)
)

// Grid is the number of patches (of places of the feature map for a ModifiedResNet), rows and columns.
func (v *Vision) Grid() (rows, columns int) {
	p := v.Stride()
	return v.ImageSize[0] / p, v.ImageSize[1] / p
}

// Stride is the side of the square of pixels that becomes one token.
func (v *Vision) Stride() int {
	if v.Stages != nil {
		return 32
	}
	return v.PatchSize
}

// Check says what of a configuration cannot be built.
func (c *Config) Check() error {
	bad := func(format string, a ...any) error { return fmt.Errorf("clip: configuration: "+format, a...) }
	if c.EmbedDim < 1 {
		return bad("embed_dim %d must be positive", c.EmbedDim)
	}
	if c.Vision == nil && c.Text == nil {
		return bad("there is neither an image tower nor a text tower")
	}
	if v := c.Vision; v != nil {
		if min(v.Width, v.Heads) < 1 {
			return bad("the image tower's width %d and heads %d must be positive", v.Width, v.Heads)
		}
		attended := v.Width
		if v.Stages != nil {
			if len(v.Stages) != 4 || min(v.Stages[0], v.Stages[1], v.Stages[2], v.Stages[3]) < 1 {
				return bad("a ModifiedResNet has four stages of at least one block, not %v", v.Stages)
			}
			if v.Width%2 != 0 {
				return bad("a ModifiedResNet's width %d must be even", v.Width)
			}
			attended *= 32
		} else {
			if min(v.Layers, v.MLP, v.PatchSize) < 1 {
				return bad("the image tower's layers %d, hidden width %d and patch size %d must be positive", v.Layers, v.MLP, v.PatchSize)
			}
			if err := v.Act.check(); err != nil {
				return err
			}
			if err := c.checkPooler(); err != nil {
				return err
			}
		}
		if attended%v.Heads != 0 {
			return bad("the image tower's width %d cannot be cut into %d heads", attended, v.Heads)
		}
		if rows, columns := v.Grid(); rows < 1 || columns < 1 {
			return bad("an image of %d×%d has no room for a patch of %d", v.ImageSize[0], v.ImageSize[1], v.Stride())
		}
		switch v.Positions {
		case PositionsAuto, PositionsOpenCLIP, PositionsHuggingFace:
		default:
			return bad("%q is no rule of resizing positions (auto, antialias, plain)", v.Positions)
		}
		if err := c.Preprocess.check(); err != nil {
			return err
		}
	}
	if t := c.Text; t != nil {
		if min(t.ContextLength, t.VocabSize, t.Width, t.Heads, t.Layers, t.MLP) < 1 {
			return bad("the text tower has a size that is not positive: %+v", *t)
		}
		if t.Width%t.Heads != 0 {
			return bad("the text tower's width %d cannot be cut into %d heads", t.Width, t.Heads)
		}
		if err := t.Act.check(); err != nil {
			return err
		}
		switch t.Pool {
		case PoolEnd, PoolFirst, PoolLast:
		default:
			return bad("%q is no place that a text is read out at (first, last, or nothing for its end)", t.Pool)
		}
		switch t.Projection {
		case ProjectionMatrix, ProjectionBias:
		case ProjectionNone:
			if t.Width != c.EmbedDim {
				return bad("without a projection the text tower's width %d must be embed_dim %d", t.Width, c.EmbedDim)
			}
		default:
			return bad("%q is no projection of a text (bias, none, or nothing for a matrix)", t.Projection)
		}
	}
	return nil
}

func (c *Config) checkPooler() error {
	p := c.Vision.Pooler
	if p == nil {
		return nil
	}
	bad := func(format string, a ...any) error {
		return fmt.Errorf("clip: configuration: attention pool: "+format, a...)
	}
	switch {
	case min(p.Queries, p.Heads) < 1:
		return bad("queries %d and heads %d must be positive", p.Queries, p.Heads)
	case c.EmbedDim%p.Heads != 0:
		return bad("embed_dim %d cannot be cut into %d heads", c.EmbedDim, p.Heads)
	case p.Contrastive != PoolerSingle && p.Contrastive != PoolerParallel && p.Contrastive != PoolerCascade:
		return bad("%q is neither parallel nor cascade", p.Contrastive)
	case p.Contrastive != PoolerSingle && c.Vision.Width != c.EmbedDim: // open_clip applies ln_post, of embed_dim, to the tokens
		return bad("two pools need a width (%d) equal to embed_dim (%d)", c.Vision.Width, c.EmbedDim)
	case p.Contrastive == PoolerSingle && c.Vision.MeanPool && p.Queries < 2:
		return bad("a mean over all results but the first needs two queries")
	}
	return nil
}

func (a Act) check() error {
	if a != QuickGELU && a != GELU && a != GELUTanh {
		return fmt.Errorf("clip: configuration: the activation %q is none of %s, %s, %s", a, QuickGELU, GELU, GELUTanh)
	}
	return nil
}

// Named lists the released shapes by OpenAI's names (Radford et al. 2021, table 19 and 20), and open_clip's larger ones.
func Named(name string) (Config, error) {
	vit := func(embed, image, width, heads, layers, mlp, patch, text, textHeads, textLayers int, act Act) Config {
		return Config{EmbedDim: embed, Preprocess: OpenAIPreprocess,
			Vision: &Vision{ImageSize: [2]int{image, image}, Width: width, Heads: heads, Layers: layers, MLP: mlp, PatchSize: patch, Act: act, Eps: 1e-5, Positions: PositionsAuto},
			Text:   &Text{ContextLength: 77, VocabSize: 49408, Width: text, Heads: textHeads, Layers: textLayers, MLP: 4 * text, Act: act, Eps: 1e-5}}
	}
	rn := func(embed, image, width int, stages [4]int, text, textHeads int) Config {
		c := vit(embed, image, 1, 1, 1, 1, 1, text, textHeads, 12, QuickGELU)
		c.Vision = &Vision{ImageSize: [2]int{image, image}, Width: width, Heads: width / 2, Stages: stages[:], Positions: PositionsAuto}
		return c
	}
	switch name {
	case "ViT-B/32":
		return vit(512, 224, 768, 12, 12, 3072, 32, 512, 8, 12, QuickGELU), nil
	case "ViT-B/16":
		return vit(512, 224, 768, 12, 12, 3072, 16, 512, 8, 12, QuickGELU), nil
	case "ViT-L/14":
		return vit(768, 224, 1024, 16, 24, 4096, 14, 768, 12, 12, QuickGELU), nil
	case "ViT-L/14@336px":
		return vit(768, 336, 1024, 16, 24, 4096, 14, 768, 12, 12, QuickGELU), nil
	case "ViT-H/14":
		return vit(1024, 224, 1280, 16, 32, 5120, 14, 1024, 16, 24, GELU), nil
	case "ViT-g/14":
		return vit(1024, 224, 1408, 16, 40, 6144, 14, 1024, 16, 24, GELU), nil
	case "RN50":
		return rn(1024, 224, 64, [4]int{3, 4, 6, 3}, 512, 8), nil
	case "RN101":
		return rn(512, 224, 64, [4]int{3, 4, 23, 3}, 512, 8), nil
	case "RN50x4":
		return rn(640, 288, 80, [4]int{4, 6, 10, 6}, 640, 10), nil
	case "RN50x16":
		return rn(768, 384, 96, [4]int{6, 8, 18, 8}, 768, 12), nil
	case "RN50x64":
		return rn(1024, 448, 128, [4]int{3, 15, 36, 10}, 1024, 16), nil
	}
	return Config{}, fmt.Errorf("clip: no released shape is named %q; there are ViT-B/32, ViT-B/16, ViT-L/14, ViT-L/14@336px, ViT-H/14, ViT-g/14, RN50, RN101, RN50x4, RN50x16, RN50x64", name)
}

// OpenAIPreprocess is the preprocessing of OpenAI's models.
var OpenAIPreprocess = Preprocess{Mean: pixel.CLIPMean, Std: pixel.CLIPStd, Resize: ShortSide, Interpolation: Bicubic, Crop: CropRound}
