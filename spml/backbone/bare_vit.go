package backbone

import (
	"regexp"
	"strings"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Keys of DINOv2's and SigLIP's image towers in the files of others as timm has them. What is not named stays.
var (
	dinoOfHuggingFace = rules(
		`embeddings\.cls_token`, `cls_token`,
		`embeddings\.mask_token`, ``, // of its training
		`embeddings\.position_embeddings`, `pos_embed`,
		`embeddings\.patch_embeddings\.projection\.(.*)`, `patch_embed.proj.$1`,
		`encoder\.layer\.(\d+)\.norm([12])\.(.*)`, `blocks.$1.norm$2.$3`,
		`encoder\.layer\.(\d+)\.attention\.attention\.(query|key|value)\.(.*)`, `blocks.$1.attn.$2.$3`,
		`encoder\.layer\.(\d+)\.attention\.output\.dense\.(.*)`, `blocks.$1.attn.proj.$2`,
		`encoder\.layer\.(\d+)\.attention\.q_proj\.(.*)`, `blocks.$1.attn.query.$2`, // as transformers 5 has them
		`encoder\.layer\.(\d+)\.attention\.k_proj\.(.*)`, `blocks.$1.attn.key.$2`,
		`encoder\.layer\.(\d+)\.attention\.v_proj\.(.*)`, `blocks.$1.attn.value.$2`,
		`encoder\.layer\.(\d+)\.attention\.o_proj\.(.*)`, `blocks.$1.attn.proj.$2`,
		`encoder\.layer\.(\d+)\.layer_scale([12])\.lambda1`, `blocks.$1.ls$2.gamma`,
		`encoder\.layer\.(\d+)\.mlp\.(fc[12])\.(.*)`, `blocks.$1.mlp.$2.$3`,
		`layernorm\.(.*)`, `norm.$1`,
		`mask_token`, ``, // of the authors' file
	)
	siglipOfHuggingFace = rules(
		`embeddings\.patch_embedding\.(.*)`, `patch_embed.proj.$1`,
		`embeddings\.position_embedding\.weight`, `pos_embed`,
		`encoder\.layers\.(\d+)\.layer_norm([12])\.(.*)`, `blocks.$1.norm$2.$3`,
		`encoder\.layers\.(\d+)\.self_attn\.q_proj\.(.*)`, `blocks.$1.attn.query.$2`,
		`encoder\.layers\.(\d+)\.self_attn\.k_proj\.(.*)`, `blocks.$1.attn.key.$2`,
		`encoder\.layers\.(\d+)\.self_attn\.v_proj\.(.*)`, `blocks.$1.attn.value.$2`,
		`encoder\.layers\.(\d+)\.self_attn\.out_proj\.(.*)`, `blocks.$1.attn.proj.$2`,
		`encoder\.layers\.(\d+)\.mlp\.(fc[12])\.(.*)`, `blocks.$1.mlp.$2.$3`,
		`post_layernorm\.(.*)`, `norm.$1`,
		`head\.probe`, `attn_pool.latent`,
		`head\.attention\.in_proj_(weight|bias)`, `attn_pool.qkv.$1`,
		`head\.attention\.out_proj\.(.*)`, `attn_pool.proj.$1`,
		`head\.layernorm\.(.*)`, `attn_pool.norm.$1`,
		`head\.mlp\.(fc[12])\.(.*)`, `attn_pool.mlp.$1.$2`,
	)
	separate = regexp.MustCompile(`^(.*\.attn)\.query\.(weight|bias)$`)
)

// bareViT gives a file of DINOv2's or SigLIP's image tower timm's keys: the authors' own, Hugging Face's, and
// open_clip's, whose towers are timm's. Of a file with both towers the image's are taken.
func bareViT(m *ViT, sd nn.StateDict) nn.StateDict {
	set, prefixes := dinoOfHuggingFace, []string{"dinov2."}
	if m.Pool != nil {
		set, prefixes = siglipOfHuggingFace, []string{"vision_model.", "visual.trunk."}
	}
	for _, p := range prefixes {
		inner := nn.StateDict{}
		for k, t := range sd {
			if rest, ok := strings.CutPrefix(k, p); ok {
				inner[rest] = t
			}
		}
		for k, t := range sd { // a classifier beside the tower
			if strings.HasPrefix(k, m.HeadKey()+".") && len(inner) > 0 {
				inner[k] = t
			}
		}
		if len(inner) > 0 {
			sd = inner
			break
		}
	}
	out := nn.StateDict{}
	for k, t := range sd {
		name := k
		for _, r := range set {
			if r.from.MatchString(k) {
				name = r.from.ReplaceAllString(k, r.to)
				break
			}
		}
		if name != "" {
			out[name] = t
		}
	}
	for k, q := range out {
		p := separate.FindStringSubmatch(k)
		if p == nil {
			continue
		}
		key, value := p[1]+".key."+p[2], p[1]+".value."+p[2]
		if out[key] == nil || out[value] == nil {
			continue // what is missing is said where the tensors are compared
		}
		out[p[1]+".qkv."+p[2]] = torch.Cat([]*torch.Tensor{q, out[key], out[value]}, 0)
		delete(out, k)
		delete(out, key)
		delete(out, value)
	}
	for _, kind := range []string{"weight", "bias"} {
		if t := out["attn_pool.qkv."+kind]; t != nil && t.Size(0)%3 == 0 {
			d := t.Size(0) / 3
			out["attn_pool.q."+kind], out["attn_pool.kv."+kind] = t.Narrow(0, 0, d), t.Narrow(0, d, 2*d)
			delete(out, "attn_pool.qkv."+kind)
		}
	}
	if t := out["pos_embed"]; t != nil && t.Dim() == 2 {
		out["pos_embed"] = t.Unsqueeze(0)
	}
	return out
}
