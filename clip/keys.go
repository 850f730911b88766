package clip

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// naming is whose names a file's tensors have.
type naming string

const (
	openAINames      naming = "OpenAI"
	huggingFaceNames naming = "Hugging Face"
)

// part says how one of our tensors is made of a file's.
type part struct {
	from      []string // joined along the first dimension
	transpose bool
}

// top maps OpenAI's names to Hugging Face's outside the blocks; true: transposed.
var top = map[string]struct {
	name      string
	transpose bool
}{
	"visual.conv1.weight":         {"vision_model.embeddings.patch_embedding.weight", false},
	"visual.class_embedding":      {"vision_model.embeddings.class_embedding", false},
	"visual.positional_embedding": {"vision_model.embeddings.position_embedding.weight", false},
	"visual.ln_pre.weight":        {"vision_model.pre_layrnorm.weight", false},
	"visual.ln_pre.bias":          {"vision_model.pre_layrnorm.bias", false},
	"visual.ln_post.weight":       {"vision_model.post_layernorm.weight", false},
	"visual.ln_post.bias":         {"vision_model.post_layernorm.bias", false},
	"visual.proj":                 {"visual_projection.weight", true},
	"token_embedding.weight":      {"text_model.embeddings.token_embedding.weight", false},
	"positional_embedding":        {"text_model.embeddings.position_embedding.weight", false},
	"ln_final.weight":             {"text_model.final_layer_norm.weight", false},
	"ln_final.bias":               {"text_model.final_layer_norm.bias", false},
	"text_projection":             {"text_projection.weight", true},
	"logit_scale":                 {"logit_scale", false},
}

var inBlock = map[string]string{
	"ln_1.weight": "layer_norm1.weight", "ln_1.bias": "layer_norm1.bias", "ln_2.weight": "layer_norm2.weight", "ln_2.bias": "layer_norm2.bias",
	"attn.out_proj.weight": "self_attn.out_proj.weight", "attn.out_proj.bias": "self_attn.out_proj.bias",
	"mlp.c_fc.weight": "mlp.fc1.weight", "mlp.c_fc.bias": "mlp.fc1.bias", "mlp.c_proj.weight": "mlp.fc2.weight", "mlp.c_proj.bias": "mlp.fc2.bias",
}

var blockKey = regexp.MustCompile(`^(visual\.)?transformer\.resblocks\.(\d+)\.(.+)$`)

// toHuggingFace gives the Hugging Face tensors that one of OpenAI's consists of.
func toHuggingFace(key string) (part, bool) {
	if t, ok := top[key]; ok {
		return part{[]string{t.name}, t.transpose}, true
	}
	m := blockKey.FindStringSubmatch(key)
	if m == nil {
		return part{}, false
	}
	prefix := "text_model.encoder.layers." + m[2] + "."
	if m[1] != "" {
		prefix = "vision_model.encoder.layers." + m[2] + "."
	}
	switch m[3] {
	case "attn.in_proj_weight":
		return part{from: []string{prefix + "self_attn.q_proj.weight", prefix + "self_attn.k_proj.weight", prefix + "self_attn.v_proj.weight"}}, true
	case "attn.in_proj_bias":
		return part{from: []string{prefix + "self_attn.q_proj.bias", prefix + "self_attn.k_proj.bias", prefix + "self_attn.v_proj.bias"}}, true
	}
	name, ok := inBlock[m[3]]
	return part{from: []string{prefix + name}}, ok
}

// ignored are entries that hold no weights: sizes of OpenAI's archives, the causal mask, Hugging Face's counting buffers.
func ignored(key string) bool {
	switch key {
	case "input_resolution", "context_length", "vocab_size", "attn_mask", "text_model.embeddings.position_ids", "vision_model.embeddings.position_ids":
		return true
	}
	return false
}

// plainNames strips what wrappers put before names, and says what it stripped. The names of a file that is no CLIP come back as they are.
func plainNames(names []string) (plain map[string]string, found naming, notes []string, err error) {
	plain = make(map[string]string, len(names)) // plain name to the file's
	for _, n := range names {
		plain[n] = n
	}
	prefixes := []string{"module.", "_orig_mod.", "model.", "clip.", "clip_model."}
	for i := 0; i < len(prefixes); i++ {
		prefix, n := prefixes[i], 0
		for k := range plain {
			if strings.HasPrefix(k, prefix) {
				n++
			}
		}
		if n == 0 || n < len(plain)-2 { // a counter or two may stand beside the wrapped names
			continue
		}
		plain, err = rename(plain, func(k string) string { return strings.TrimPrefix(k, prefix) })
		if err != nil {
			return nil, "", nil, err
		}
		notes = append(notes, fmt.Sprintf("prefix %q removed", prefix))
		i = -1 // wrappers are wrapped in any order
	}
	text := false
	for k := range plain {
		text = text || k == "text.token_embedding.weight"
	}
	if text {
		plain, err = rename(plain, func(k string) string {
			if k == "text.attn_mask" {
				return "attn_mask"
			}
			return strings.TrimPrefix(k, "text.")
		})
		if err != nil {
			return nil, "", nil, err
		}
		notes = append(notes, `prefix "text." of the text tower removed`)
	}
	for k := range plain {
		if ignored(k) {
			delete(plain, k)
		}
	}
	switch {
	case has(plain, "visual.conv1.weight", "token_embedding.weight"):
		return plain, openAINames, notes, nil
	case has(plain, "vision_model.embeddings.patch_embedding.weight", "text_model.embeddings.token_embedding.weight"):
		return plain, huggingFaceNames, notes, nil
	}
	some := keysOf(plain)
	return nil, "", nil, fmt.Errorf("none of its %d tensors has a name of CLIP's (visual.conv1.weight, vision_model.embeddings.patch_embedding.weight, …); the first are %s",
		len(some), strings.Join(some[:min(4, len(some))], ", "))
}

func has(m map[string]string, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { _, ok := m[n]; return ok })
}

func rename(m map[string]string, f func(string) string) (map[string]string, error) {
	out := make(map[string]string, len(m))
	for k, v := range m {
		n := f(k)
		if other, twice := out[n]; twice {
			return nil, fmt.Errorf("the tensors %s and %s are the same one (%s) without their prefixes", min(v, other), max(v, other), n)
		}
		out[n] = v
	}
	return out, nil
}

func keysOf[V any](m map[string]V) []string {
	ks := make([]string, 0, len(m))
	for k := range m {
		ks = append(ks, k)
	}
	sort.Strings(ks)
	return ks
}

// blocks counts the distinct numbers behind a prefix.
func blocks(names map[string]string, prefix string) int {
	seen := map[int]bool{}
	for k := range names {
		if rest, ok := strings.CutPrefix(k, prefix); ok {
			number, _, _ := strings.Cut(rest, ".")
			if n, err := strconv.Atoi(number); err == nil && n >= 0 {
				seen[n] = true
			}
		}
	}
	return len(seen)
}
