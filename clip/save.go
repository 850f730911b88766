package clip

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gospml/gospml/clip/tokenizer"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Form is a way of writing a CLIP into a folder.
type Form string

// Forms. Own keeps everything; the others' libraries read their own.
const (
	Own         Form = "own"
	HuggingFace Form = "hf"
	OpenCLIP    Form = "open_clip"
)

var errFrozen = errors.New("clip: the model is frozen; its weights cannot be written any more")

// Save writes a CLIP into a folder in this module's own form: model.safetensors with OpenAI's names, and
// clip_config.json, which is also in the weights' metadata, so that the one file is enough. dtype is the type of the
// stored weights; 0 keeps float32.
func Save(dir string, m *CLIP, dtype torch.DType) error { return Export(dir, m, Own, dtype) }

// Export writes a CLIP into a folder in a form that other libraries read: Hugging Face (config.json, model.safetensors,
// preprocessor_config.json, the tokenizer's files), open_clip (open_clip_config.json, open_clip_model.safetensors).
// What a form cannot say is an error.
func Export(dir string, m *CLIP, form Form, dtype torch.DType) error {
	sd := nn.StateDictOf(m)
	for _, l := range nn.Modules(m) {
		if b, ok := l.(*Block); ok && b.frozen != nil {
			return errFrozen
		}
	}
	if r, ok := m.Visual.(*ModifiedResNet); ok && r.folded {
		return errFrozen
	}
	if dtype == 0 {
		dtype = torch.Float32
	}
	var files map[string]any
	weights := "model.safetensors"
	metadata := map[string]string{"format": "pt"}
	var err error
	var owned nn.StateDict
	defer func() { owned.Free() }()
	switch form {
	case Own:
		own := ownFile{1, m.Config}
		files = map[string]any{"clip_config.json": own}
		b, err := json.Marshal(own)
		if err != nil {
			return err
		}
		metadata = map[string]string{ownKey: string(b)}
	case OpenCLIP:
		weights = "open_clip_model.safetensors"
		files, err = openCLIPFiles(m.Config)
	case HuggingFace:
		if files, err = huggingFaceFiles(m.Config, dtype); err == nil {
			sd, owned, err = huggingFaceTensors(sd)
		}
	default:
		err = fmt.Errorf("%q is none of own, hf, open_clip", form)
	}
	if err != nil {
		return fmt.Errorf("clip: export: %w", err)
	}
	stored := nn.StateDict{}
	var made []*torch.Tensor
	defer func() { free(made...) }()
	if err := torch.Try(func() {
		torch.NoGrad(func() {
			for k, t := range sd {
				if t.DType().IsFloat() && t.DType() != dtype {
					t = t.ToDType(dtype)
					made = append(made, t)
				}
				stored[k] = t
			}
		})
	}); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o775); err != nil {
		return err
	}
	if err := nn.SaveSafetensors(filepath.Join(dir, weights), stored, metadata); err != nil {
		return err
	}
	for name, content := range files {
		b, err := json.MarshalIndent(content, "", "  ")
		if err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(filepath.Join(dir, name), 0o664, append(b, '\n')); err != nil {
			return err
		}
	}
	if form == HuggingFace && m.Config.Text != nil && m.Config.Text.VocabSize == tokenizer.VocabSize {
		return tokenizer.Default().WriteFolder(dir, m.Config.Text.ContextLength)
	}
	return nil
}

// decimal is written with a point or an exponent: Python's libraries take 1 for an int and refuse it where they want a
// float.
type decimal float64

// MarshalJSON writes 1 as 1.0.
func (d decimal) MarshalJSON() ([]byte, error) {
	s := strconv.FormatFloat(float64(d), 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return []byte(s), nil
}

// decimals writes float32 values with the digits that they were given with.
func decimals(v [3]float32) (out [3]decimal) {
	for i, x := range v {
		f, _ := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'g', -1, 32), 64)
		out[i] = decimal(f)
	}
	return out
}

func openCLIPFiles(c Config) (map[string]any, error) {
	v, t := c.Vision, c.Text
	if v == nil || t == nil {
		return nil, errors.New("open_clip's form has both towers")
	}
	if v.Stages == nil && (v.Act == QuickGELU) != (t.Act == QuickGELU) {
		return nil, fmt.Errorf("open_clip's form has one activation; the towers have %s and %s", v.Act, t.Act)
	}
	p := c.Preprocess
	if p.Via != 0 || p.ResizeTo != 0 {
		return nil, errors.New("open_clip's preprocessing has no second resize")
	}
	vision := map[string]any{"image_size": v.ImageSize[0], "width": v.Width}
	if v.ImageSize[0] != v.ImageSize[1] {
		vision["image_size"] = v.ImageSize
	}
	if v.Stages != nil {
		vision["layers"], vision["head_width"] = v.Stages, v.Width*32/v.Heads
	} else {
		vision["layers"], vision["head_width"], vision["patch_size"] = v.Layers, v.Width/v.Heads, v.PatchSize
		if v.MLP != 4*v.Width {
			vision["mlp_ratio"] = mlpRatio(v.MLP, v.Width)
		}
		if v.Eps != 1e-5 {
			vision["norm_kwargs"] = map[string]decimal{"eps": decimal(v.Eps)}
		}
		if v.Act == GELUTanh {
			vision["act_kwargs"] = map[string]string{"approximate": "tanh"}
		}
		if v.NoLNPre {
			vision["no_ln_pre"] = true
		}
		if v.MeanPool {
			vision["pool_type"] = "avg"
		}
		if v.NormAfterPool {
			vision["final_ln_after_pool"] = true
		}
		if v.LayerScale {
			vision["ls_init_value"] = decimal(1e-5)
		}
		if p := v.Pooler; p != nil {
			vision["attentional_pool"], vision["attn_pooler_queries"], vision["attn_pooler_heads"] = true, p.Queries, p.Heads
			if p.Contrastive != PoolerSingle {
				vision["attentional_pool"] = p.Contrastive
			}
		}
	}
	text := map[string]any{"context_length": t.ContextLength, "vocab_size": t.VocabSize, "width": t.Width, "heads": t.Heads, "layers": t.Layers}
	if t.Eps != 1e-5 {
		text["norm_kwargs"] = map[string]decimal{"eps": decimal(t.Eps)}
	}
	if t.Act == GELUTanh {
		text["act_kwargs"] = map[string]string{"approximate": "tanh"}
	}
	if t.MLP != 4*t.Width {
		text["mlp_ratio"] = mlpRatio(t.MLP, t.Width)
	}
	if t.EOT != 0 && t.EOT != t.VocabSize-1 {
		text["pool_type"], text["eos_id"] = "eos", t.EOT
	}
	if t.Pool != PoolEnd {
		text["pool_type"] = t.Pool
	}
	if t.Bidirectional {
		text["no_causal_mask"] = true
	}
	if t.LayerScale {
		text["ls_init_value"] = decimal(1e-5)
	}
	switch t.Projection {
	case ProjectionBias:
		text["proj_bias"] = true
	case ProjectionNone:
		text["proj_type"] = "none"
	}
	return map[string]any{"open_clip_config.json": map[string]any{
		"model_cfg":      map[string]any{"embed_dim": c.EmbedDim, "quick_gelu": t.Act == QuickGELU, "vision_cfg": vision, "text_cfg": text},
		"preprocess_cfg": map[string]any{"mean": decimals(p.Mean), "std": decimals(p.Std), "interpolation": p.Interpolation, "resize_mode": p.Resize},
	}}, nil
}

// mlpRatio is the factor of which open_clip truncates the product.
func mlpRatio(hidden, width int) decimal {
	ratio := float64(hidden) / float64(width)
	if int(float64(width)*ratio) != hidden {
		ratio = (float64(hidden) + 0.5) / float64(width)
	}
	return decimal(ratio)
}

func huggingFaceFiles(c Config, dtype torch.DType) (map[string]any, error) {
	v, t := c.Vision, c.Text
	if v == nil || t == nil {
		return nil, errors.New("hf: Hugging Face's form is written with both towers")
	}
	if v.Stages != nil {
		return nil, errors.New("hf: Hugging Face has no class for CLIP with a ModifiedResNet; --to open_clip has")
	}
	if v.ImageSize[0] != v.ImageSize[1] {
		return nil, fmt.Errorf("hf: Hugging Face's form has square images, not %v", v.ImageSize)
	}
	if c.LogitBias {
		return nil, errors.New("hf: Hugging Face's form has no logit bias")
	}
	if v.NoLNPre || v.MeanPool || v.Pooler != nil || v.LayerScale || t.LayerScale || t.Projection != ProjectionMatrix || t.Bidirectional || t.Pool != PoolEnd {
		return nil, errors.New("hf: Hugging Face's CLIP has a norm before the blocks and no LayerScale, reads the class token and the end of a text through one matrix each, and masks causally; this model does not, --to open_clip says so")
	}
	p := c.Preprocess
	if p.Via != 0 || p.Resize == LongSide {
		return nil, errors.New("hf: Hugging Face's preprocessing has neither a second resize nor padding")
	}
	eos := t.EOT
	if eos == 0 {
		eos = 2 // the largest id is read out
		if t.VocabSize == tokenizer.VocabSize {
			eos = tokenizer.EOT
		}
	}
	n := v.ImageSize[0]
	size := map[string]int{"shortest_edge": n}
	if p.ResizeTo > 0 {
		size["shortest_edge"] = p.ResizeTo
	}
	if p.Resize == Squash {
		size = map[string]int{"height": n, "width": n}
	}
	resample := 3
	if p.Interpolation == Bilinear {
		resample = 2
	}
	common := func(width, mlp, layers, heads int, act Act, eps float64) map[string]any {
		name := string(act)
		if act == GELUTanh {
			name = "gelu_pytorch_tanh"
		}
		return map[string]any{"hidden_size": width, "intermediate_size": mlp, "num_hidden_layers": layers, "num_attention_heads": heads, "hidden_act": name,
			"layer_norm_eps": decimal(eps), "projection_dim": c.EmbedDim}
	}
	vision, text := common(v.Width, v.MLP, v.Layers, v.Heads, v.Act, v.Eps), common(t.Width, t.MLP, t.Layers, t.Heads, t.Act, t.Eps)
	vision["model_type"], vision["image_size"], vision["patch_size"], vision["num_channels"] = "clip_vision_model", n, v.PatchSize, 3
	text["model_type"], text["vocab_size"], text["max_position_embeddings"], text["eos_token_id"], text["bos_token_id"], text["pad_token_id"] = "clip_text_model", t.VocabSize, t.ContextLength, eos, t.VocabSize-2, 1
	return map[string]any{
		"config.json": map[string]any{"architectures": []string{"CLIPModel"}, "model_type": "clip", "projection_dim": c.EmbedDim, "logit_scale_init_value": 2.6592,
			"dtype": dtype.String(), "vision_config": vision, "text_config": text},
		"preprocessor_config.json": map[string]any{"do_resize": true, "size": size, "resample": resample, "do_center_crop": p.Resize != Squash,
			"crop_size": map[string]int{"height": n, "width": n}, "do_rescale": true, "rescale_factor": decimal(1.0 / 255), "do_normalize": true, "image_mean": decimals(p.Mean), "image_std": decimals(p.Std),
			"do_convert_rgb": true, "feature_extractor_type": "CLIPFeatureExtractor", "image_processor_type": "CLIPImageProcessor"},
	}, nil
}

// huggingFaceTensors renames, splits and transposes. made holds the new tensors.
func huggingFaceTensors(sd nn.StateDict) (out, made nn.StateDict, err error) {
	out, made = nn.StateDict{}, nn.StateDict{}
	err = torch.Try(func() {
		torch.NoGrad(func() {
			for k, t := range sd {
				p, ok := toHuggingFace(k)
				if !ok {
					panic(&torch.Error{Kind: torch.KindValue, Op: "clip.Export", Msg: k + " has no name at Hugging Face"})
				}
				if p.transpose {
					v := t.T()
					made[p.from[0]] = v.Contiguous()
					v.Free()
					out[p.from[0]] = made[p.from[0]]
					continue
				}
				if len(p.from) == 1 {
					out[p.from[0]] = t
					continue
				}
				for i, c := range t.Chunk(len(p.from), 0) {
					made[p.from[i]] = c.Clone()
					c.Free()
					out[p.from[i]] = made[p.from[i]]
				}
			}
		})
	})
	return out, made, err
}

// Describe is a table of a configuration for people.
func (c Config) Describe() string {
	var b strings.Builder
	if v := c.Vision; v != nil {
		if v.Stages != nil {
			fmt.Fprintf(&b, "  image tower    ModifiedResNet %v, width %d, %d heads in the attention pool, images %d×%d\n", v.Stages, v.Width, v.Heads, v.ImageSize[0], v.ImageSize[1])
		} else {
			fmt.Fprintf(&b, "  image tower    ViT, %d layers, width %d, %d heads, hidden %d, patches %d, %s, images %d×%d\n", v.Layers, v.Width, v.Heads, v.MLP, v.PatchSize, v.Act, v.ImageSize[0], v.ImageSize[1])
		}
		fmt.Fprintf(&b, "  positions      resized by the rule %s\n", v.Positions)
		p := c.Preprocess
		fmt.Fprintf(&b, "  preprocessing  %s, %s, crop %s, mean %v, std %v\n", p.Resize, p.Interpolation, p.Crop, p.Mean, p.Std)
	}
	if t := c.Text; t != nil {
		fmt.Fprintf(&b, "  text tower     %d layers, width %d, %d heads, hidden %d, %s, %d tokens of %d\n", t.Layers, t.Width, t.Heads, t.MLP, t.Act, t.ContextLength, t.VocabSize)
	}
	fmt.Fprintf(&b, "  embeddings     %d\n", c.EmbedDim)
	return b.String()
}
