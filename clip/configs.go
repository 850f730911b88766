package clip

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/gospml/gospml/clip/tokenizer"
)

// ownKey is the entry of safetensors metadata and the mark of JSON files that hold this module's configuration.
const ownKey = "gospml_clip"

type ownFile struct {
	Version int    `json:"gospml_clip"`
	Config  Config `json:"config"`
}

func parseOwn(b []byte) (Config, error) {
	var f ownFile
	if err := json.Unmarshal(b, &f); err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	if f.Version != 1 {
		return Config{}, fmt.Errorf("configuration of version %d: this program reads version 1", f.Version)
	}
	return f.Config, nil
}

// pairOf reads a number or a list of two, height first.
func pairOf(raw json.RawMessage, def int) ([2]int, error) {
	if raw == nil {
		return [2]int{def, def}, nil
	}
	var n int
	if json.Unmarshal(raw, &n) == nil {
		return [2]int{n, n}, nil
	}
	var two []int
	if err := json.Unmarshal(raw, &two); err != nil || len(two) != 2 {
		return [2]int{}, fmt.Errorf("%s is neither a size nor height and width", raw)
	}
	return [2]int{two[0], two[1]}, nil
}

// setting is a field that has to have its usual value, because another one makes another architecture.
type setting struct {
	name  string
	usual []any // as encoding/json decodes them; nil and absence are always usual
}

func refuse(raw json.RawMessage, where string, settings []setting) error {
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	for _, s := range settings {
		v := m[s.name]
		if v == nil || slices.ContainsFunc(s.usual, func(u any) bool { return u == v }) {
			continue
		}
		return fmt.Errorf("%s: %s is %v, which is another architecture than CLIP's and is not supported", where, s.name, v)
	}
	return nil
}

var never = []any{false, 0.0, ""}

// actSettings are open_clip's act_kwargs: nn.GELU's form, which QuickGELU has not.
type actSettings map[string]any

func (s actSettings) of(a Act) (Act, error) {
	for k, v := range s {
		switch {
		case a == GELU && k == "approximate" && v == "none":
		case a == GELU && k == "approximate" && v == "tanh":
			a = GELUTanh
		default:
			return a, fmt.Errorf("act_kwargs: %s is %v, which %s has not", k, v, a)
		}
	}
	return a, nil
}

// hfAct gives Hugging Face's names of activations ours.
func hfAct(name string) Act {
	switch name {
	case "gelu_pytorch_tanh", "gelu_new", "gelu_fast", "gelu_accurate", "gelu_python_tanh":
		return GELUTanh
	case "gelu_python":
		return GELU
	}
	return Act(name)
}

func parseOpenCLIP(b []byte) (c Config, err error) {
	fail := func(err error) (Config, error) {
		return Config{}, fmt.Errorf("open_clip configuration: %w", err)
	}
	var file struct {
		Model      json.RawMessage `json:"model_cfg"`
		Preprocess struct {
			Size          json.RawMessage `json:"size"`
			Mean          json.RawMessage `json:"mean"`
			Std           json.RawMessage `json:"std"`
			Interpolation string          `json:"interpolation"`
			ResizeMode    string          `json:"resize_mode"`
			FillColor     float64         `json:"fill_color"`
		} `json:"preprocess_cfg"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return fail(err)
	}
	if file.Model == nil {
		file.Model = b // a file of open_clip's model_configs
	}
	var m struct {
		EmbedDim  int             `json:"embed_dim"`
		QuickGELU bool            `json:"quick_gelu"`
		VisionRaw json.RawMessage `json:"vision_cfg"`
		TextRaw   json.RawMessage `json:"text_cfg"`
	}
	if err := json.Unmarshal(file.Model, &m); err != nil {
		return fail(err)
	}
	if m.VisionRaw == nil || m.TextRaw == nil {
		return fail(fmt.Errorf("vision_cfg or text_cfg is missing"))
	}
	type norm struct {
		Eps float64 `json:"eps"`
	}
	v := struct {
		ImageSize json.RawMessage `json:"image_size"`
		Layers    json.RawMessage `json:"layers"`
		Width     int             `json:"width"`
		HeadWidth int             `json:"head_width"`
		PatchSize json.RawMessage `json:"patch_size"`
		MLPRatio  float64         `json:"mlp_ratio"`
		Norm      norm            `json:"norm_kwargs"`
		Act       actSettings     `json:"act_kwargs"`
		NoLNPre   bool            `json:"no_ln_pre"`
		Pool      string          `json:"pool_type"`
		LNAfter   bool            `json:"final_ln_after_pool"`
		Scale     *float64        `json:"ls_init_value"`
		Attention json.RawMessage `json:"attentional_pool"`
		Queries   int             `json:"attn_pooler_queries"`
		PoolHeads int             `json:"attn_pooler_heads"`
	}{Width: 768, HeadWidth: 64, MLPRatio: 4, Norm: norm{1e-5}, Queries: 256, PoolHeads: 8}
	t := struct {
		Context   int         `json:"context_length"`
		Vocab     int         `json:"vocab_size"`
		Width     int         `json:"width"`
		Heads     int         `json:"heads"`
		Layers    int         `json:"layers"`
		MLPRatio  float64     `json:"mlp_ratio"`
		Pool      string      `json:"pool_type"`
		EOS       int         `json:"eos_id"`
		Norm      norm        `json:"norm_kwargs"`
		Act       actSettings `json:"act_kwargs"`
		NoMask    bool        `json:"no_causal_mask"`
		Scale     *float64    `json:"ls_init_value"`
		ProjBias  bool        `json:"proj_bias"`
		ProjType  string      `json:"proj_type"`
		Tokenizer string      `json:"hf_tokenizer_name"`
	}{Context: 77, Vocab: 49408, Width: 512, Heads: 8, Layers: 12, MLPRatio: 4, Pool: "argmax", EOS: 2, Norm: norm{1e-5}}
	both := []setting{{"block_type", []any{"default"}}, {"qk_norm", never}, {"scaled_cosine_attn", never}, {"scale_heads", never},
		{"scale_attn_inner", never}, {"scale_attn", never}, {"scale_fc", never}}
	if err := refuse(m.VisionRaw, "vision_cfg", append([]setting{{"timm_model_name", never},
		{"pos_embed_type", []any{"learnable", "sin_cos_2d"}}, {"pool_type", []any{"tok", "avg"}}, {"input_patchnorm", never}, {"global_average_pool", never}}, both...)); err != nil {
		return fail(err)
	}
	if err := refuse(m.TextRaw, "text_cfg", append([]setting{{"hf_model_name", never}, {"embed_cls", never},
		{"pool_type", []any{"argmax", "eos", "first", "last"}}, {"proj_type", []any{"linear", "none"}}}, both...)); err != nil {
		return fail(err)
	}
	if err := json.Unmarshal(m.VisionRaw, &v); err != nil {
		return fail(err)
	}
	if err := json.Unmarshal(m.TextRaw, &t); err != nil {
		return fail(err)
	}
	act := GELU
	if m.QuickGELU {
		act = QuickGELU
	}
	if v.HeadWidth < 1 {
		return fail(fmt.Errorf("head_width is %d", v.HeadWidth))
	}
	size, err := pairOf(v.ImageSize, 224)
	if err != nil {
		return fail(err)
	}
	c = Config{EmbedDim: m.EmbedDim, Vision: &Vision{ImageSize: size, Width: v.Width, Positions: PositionsOpenCLIP},
		Text: &Text{ContextLength: t.Context, VocabSize: t.Vocab, Width: t.Width, Heads: t.Heads, Layers: t.Layers, MLP: int(float64(t.Width) * t.MLPRatio), Act: act, Eps: t.Norm.Eps}}
	c.Text.Bidirectional, c.Text.LayerScale = t.NoMask, t.Scale != nil
	if t.ProjType == "none" {
		c.Text.Projection = ProjectionNone
	} else if t.ProjBias {
		c.Text.Projection = ProjectionBias
	}
	switch t.Pool {
	case "eos":
		c.Text.EOT = t.EOS
	case "first", "last":
		c.Text.Pool = TextPool(t.Pool)
	}
	if t.Tokenizer != "" && t.Vocab >= tokenizer.VocabSize { // with fewer tokens texts are refused where they are encoded
		return fail(fmt.Errorf("text_cfg: the tokenizer %s is another one than CLIP's and is not supported", t.Tokenizer))
	}
	if c.Text.Act, err = t.Act.of(act); err != nil {
		return fail(fmt.Errorf("text_cfg: %w", err))
	}
	if json.Unmarshal(v.Layers, &c.Vision.Stages) == nil && c.Vision.Stages != nil {
		c.Vision.Heads = v.Width * 32 / v.HeadWidth
	} else {
		c.Vision.Stages, c.Vision.Layers = nil, 12
		if v.Layers != nil {
			if err := json.Unmarshal(v.Layers, &c.Vision.Layers); err != nil {
				return fail(err)
			}
		}
		patch, err := pairOf(v.PatchSize, 16)
		if err != nil || patch[0] != patch[1] {
			return fail(fmt.Errorf("patch_size %s: patches are squares", v.PatchSize))
		}
		c.Vision.PatchSize, c.Vision.Heads, c.Vision.MLP = patch[0], v.Width/v.HeadWidth, int(float64(v.Width)*v.MLPRatio)
		c.Vision.Eps, c.Vision.NoLNPre, c.Vision.MeanPool, c.Vision.NormAfterPool = v.Norm.Eps, v.NoLNPre, v.Pool == "avg", v.LNAfter
		c.Vision.LayerScale = v.Scale != nil
		if c.Vision.Pooler, err = openCLIPPooler(v.Attention, v.Queries, v.PoolHeads); err != nil {
			return fail(fmt.Errorf("vision_cfg: %w", err))
		}
		if c.Vision.Act, err = v.Act.of(act); err != nil {
			return fail(fmt.Errorf("vision_cfg: %w", err))
		}
	}
	p, in := OpenAIPreprocess, file.Preprocess
	if err := three(in.Mean, &p.Mean); err != nil {
		return fail(err)
	}
	if err := three(in.Std, &p.Std); err != nil {
		return fail(err)
	}
	if in.Interpolation != "" && in.Interpolation != "random" {
		p.Interpolation = Interpolation(in.Interpolation)
	}
	if in.ResizeMode != "" {
		p.Resize = Resize(in.ResizeMode)
	}
	if p.Resize == LongSide && in.FillColor != 0 {
		return fail(fmt.Errorf("fill_color %v: only black is supported", in.FillColor))
	}
	c.Preprocess = p
	return c, nil
}

// openCLIPPooler reads attentional_pool: a switch, or the form of two pools.
func openCLIPPooler(raw json.RawMessage, queries, heads int) (*Pooler, error) {
	p := &Pooler{Queries: queries, Heads: heads}
	var on bool
	switch {
	case raw == nil:
		return nil, nil
	case json.Unmarshal(raw, &on) == nil: // also null
		if !on {
			return nil, nil
		}
		return p, nil
	case json.Unmarshal(raw, &p.Contrastive) == nil && p.Contrastive == "":
		return nil, nil
	case p.Contrastive == PoolerParallel, p.Contrastive == PoolerCascade:
		return p, nil
	}
	return nil, fmt.Errorf("attentional_pool is %s, not true, false, parallel or cascade", raw)
}

// three reads a number or three of them.
func three(raw json.RawMessage, dst *[3]float32) error {
	if raw == nil || string(raw) == "null" {
		return nil
	}
	var one float32
	if json.Unmarshal(raw, &one) == nil {
		*dst = [3]float32{one, one, one}
		return nil
	}
	var l []float32
	if err := json.Unmarshal(raw, &l); err != nil || len(l) != 3 {
		return fmt.Errorf("%s are no three numbers", raw)
	}
	copy(dst[:], l)
	return nil
}

type hfVision struct {
	Hidden       int     `json:"hidden_size"`
	Intermediate int     `json:"intermediate_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	Channels     int     `json:"num_channels"`
	Image        int     `json:"image_size"`
	Patch        int     `json:"patch_size"`
	Act          string  `json:"hidden_act"`
	Eps          float64 `json:"layer_norm_eps"`
}

type hfText struct {
	Vocab        int     `json:"vocab_size"`
	Hidden       int     `json:"hidden_size"`
	Intermediate int     `json:"intermediate_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	Positions    int     `json:"max_position_embeddings"`
	Act          string  `json:"hidden_act"`
	Eps          float64 `json:"layer_norm_eps"`
	EOS          int     `json:"eos_token_id"`
}

// parseHuggingFace reads config.json and, where it is there, preprocessor_config.json. What is left out has CLIPConfig's defaults. Towers that the weights lack are left out.
func parseHuggingFace(b, images []byte, shape shapes) (c Config, err error) {
	fail := func(err error) (Config, error) {
		return Config{}, fmt.Errorf("clip: Hugging Face configuration: %w", err)
	}
	var file struct {
		Type       string          `json:"model_type"`
		Projection int             `json:"projection_dim"`
		Vision     json.RawMessage `json:"vision_config"`
		Text       json.RawMessage `json:"text_config"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return fail(err)
	}
	v := hfVision{768, 3072, 12, 12, 3, 224, 32, "quick_gelu", 1e-5}
	t := hfText{49408, 512, 2048, 12, 8, 77, "quick_gelu", 1e-5, 49407}
	switch file.Type {
	case "clip_vision_model":
		file.Vision = b
	case "clip_text_model":
		file.Text = b
	case "clip", "":
	default:
		return fail(fmt.Errorf("model_type is %q, not clip", file.Type))
	}
	for _, x := range []struct {
		raw json.RawMessage
		to  any
	}{{file.Vision, &v}, {file.Text, &t}} {
		if x.raw != nil {
			if err := json.Unmarshal(x.raw, x.to); err != nil {
				return fail(err)
			}
		}
	}
	if c.EmbedDim = file.Projection; c.EmbedDim == 0 { // left out: the weights say it
		for _, key := range []string{"visual.proj", "text_projection"} {
			if s := shape(key); len(s) == 2 {
				c.EmbedDim = s[1]
			}
		}
	}
	if shape("visual.conv1.weight") != nil {
		if v.Channels != 3 {
			return fail(fmt.Errorf("num_channels is %d, not 3", v.Channels))
		}
		c.Vision = &Vision{ImageSize: [2]int{v.Image, v.Image}, Width: v.Hidden, Heads: v.Heads, Layers: v.Layers, MLP: v.Intermediate, PatchSize: v.Patch, Act: hfAct(v.Act), Eps: v.Eps, Positions: PositionsHuggingFace}
	}
	if shape("token_embedding.weight") != nil {
		c.Text = &Text{ContextLength: t.Positions, VocabSize: t.Vocab, Width: t.Hidden, Heads: t.Heads, Layers: t.Layers, MLP: t.Intermediate, Act: hfAct(t.Act), Eps: t.Eps}
		if t.EOS != 2 { // 2 is the value of old files, whose readers take the largest id
			c.Text.EOT = t.EOS
		}
	}
	c.Preprocess = OpenAIPreprocess
	c.Preprocess.Crop = CropFloor
	if images != nil && c.Vision != nil {
		if err := hfPreprocess(images, &c); err != nil {
			return fail(fmt.Errorf("preprocessor: %w", err))
		}
	}
	return c, nil
}

func hfPreprocess(b []byte, c *Config) error {
	var f struct {
		DoResize    *bool           `json:"do_resize"`
		DoCrop      *bool           `json:"do_center_crop"`
		DoRescale   *bool           `json:"do_rescale"`
		DoNormalize *bool           `json:"do_normalize"`
		Size        json.RawMessage `json:"size"`
		CropSize    json.RawMessage `json:"crop_size"`
		Resample    *int            `json:"resample"`
		Factor      *float64        `json:"rescale_factor"`
		Mean        json.RawMessage `json:"image_mean"`
		Std         json.RawMessage `json:"image_std"`
	}
	var nested struct {
		Images json.RawMessage `json:"image_processor"`
	}
	if err := json.Unmarshal(b, &nested); err != nil {
		return err
	}
	if nested.Images != nil { // processor_config.json
		b = nested.Images
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	off := func(p *bool) bool { return p != nil && !*p }
	p := &c.Preprocess
	if off(f.DoResize) || off(f.DoRescale) || f.Factor != nil && math.Abs(*f.Factor*255-1) > 1e-6 {
		return fmt.Errorf("pictures are always resized and divided by 255 here")
	}
	if f.Resample != nil {
		switch *f.Resample { // Pillow's numbers
		case 2:
			p.Interpolation = Bilinear
		case 3:
			p.Interpolation = Bicubic
		default:
			return fmt.Errorf("resample %d is neither bilinear (2) nor bicubic (3)", *f.Resample)
		}
	}
	if err := three(f.Mean, &p.Mean); err != nil {
		return err
	}
	if err := three(f.Std, &p.Std); err != nil {
		return err
	}
	if off(f.DoNormalize) {
		p.Mean, p.Std = [3]float32{}, [3]float32{1, 1, 1}
	}
	size, crop := c.Vision.ImageSize, c.Vision.ImageSize
	var s struct {
		Short         int `json:"shortest_edge"`
		Height, Width int
	}
	var n int
	switch {
	case f.Size == nil:
	case json.Unmarshal(f.Size, &n) == nil:
		s.Short = n
	default:
		if err := json.Unmarshal(f.Size, &s); err != nil {
			return err
		}
	}
	if s.Height > 0 && s.Width > 0 {
		p.Resize, size = Squash, [2]int{s.Height, s.Width}
	} else if s.Short > 0 {
		size = [2]int{s.Short, s.Short}
	}
	if f.CropSize != nil && !off(f.DoCrop) {
		var z struct{ Height, Width int }
		if json.Unmarshal(f.CropSize, &n) == nil {
			crop = [2]int{n, n}
		} else if err := json.Unmarshal(f.CropSize, &z); err == nil && z.Height > 0 {
			crop = [2]int{z.Height, z.Width}
		}
	}
	switch {
	case p.Resize == Squash && size != crop && !off(f.DoCrop):
		return fmt.Errorf("a squash to %v with a crop of %v is not supported", size, crop)
	case p.Resize == Squash:
		crop = size
	case off(f.DoCrop):
		return fmt.Errorf("pictures of which only the short side is resized have no common size; do_center_crop is needed")
	case size != crop:
		p.ResizeTo = size[0]
	}
	if crop != c.Vision.ImageSize {
		return fmt.Errorf("pictures of %v do not fit the model's image_size %v", crop, c.Vision.ImageSize)
	}
	return nil
}
