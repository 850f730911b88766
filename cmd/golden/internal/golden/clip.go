package golden

import (
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/clip/tokenizer"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// CLIP's parts of golden_models.json: tokenizer, towers filled by rule, position embeddings, zero-shot softmax.
func init() {
	maps.Copy(modelSections, map[string]section{
		"tokenizer": {tolerance: func(Options, string) Tolerance { return Tolerance{} }, cases: tokenizerCases, run: clipTokenizer, inputs: []string{
			"text", "ids_without_any_text_fixing", "ids_with_documented_subset", "ftfy_version", "checked_against_original"}},
		"clip.vit":             {inputs: []string{"config", "input"}, run: clipViT},
		"clip.text":            {inputs: []string{"config", "tokens"}, run: clipText},
		"clip.modified_resnet": {inputs: []string{"config", "input"}, run: clipResNet},
		"clip.zero_shot":       {inputs: []string{"cosine"}, run: clipZeroShot},
		"clip.pos_interp":      {inputs: []string{"input"}, run: clipPositions, tolerance: positionsTolerance},
	})
}

// tokenizerCases are the texts, and one case of facts about the vocabulary.
func tokenizerCases(n node) []node {
	cases := n.get("cases").list()
	facts := maps.Clone(n.object())
	delete(facts, "cases")
	return append(cases, node{n.at + "/vocabulary", facts})
}

func clipTokenizer(n node, _ Options) (map[string]any, error) {
	t := tokenizer.Default()
	if !n.has("text") {
		return vocabularyFacts(n, t), nil
	}
	whole := t.Encode(n.text("text", ""))
	b := t.Batch([]string{n.text("text", "")}, 77)
	return map[string]any{"ids": numbers(b.Row(0)[:b.Longest]), "untruncated_length": len(whole)}, nil
}

func numbers(ids []int32) []any {
	l := make([]any, len(ids))
	for i, id := range ids {
		l[i] = float64(id)
	}
	return l
}

func vocabularyFacts(n node, t *tokenizer.Tokenizer) map[string]any {
	merge := func(rank int) []any {
		a, b := t.Merge(rank)
		return []any{a, b}
	}
	merges := t.VocabSize() - 514
	out := map[string]any{"vocab_size": t.VocabSize(), "sot": int(t.SOT()), "eot": int(t.EOT()), "pad": 0, "context_length": 77, "merges_used": merges}
	var first, last, order, points []any
	if n.has("first_merges") {
		for i := range n.get("first_merges").list() {
			first = append(first, merge(i))
		}
	}
	if n.has("last_merges") {
		k := len(n.get("last_merges").list())
		for i := range k {
			last = append(last, merge(merges-k+i))
		}
	}
	points = make([]any, 256)
	for id := range int32(256) { // the byte of each of the first ids, and the character that stands for it
		b := t.Decode([]int32{id})
		order = append(order, float64(b[0]))
		points[b[0]] = float64([]rune(t.Token(id))[0])
	}
	sample := map[string]any{}
	if n.has("sample_vocab") {
		for k := range n.get("sample_vocab").object() {
			var id int32
			fmt.Sscan(k, &id)
			sample[k] = t.Token(id)
		}
	}
	out["first_merges"], out["last_merges"], out["byte_order_of_first_256_ids"], out["byte_to_codepoint"], out["sample_vocab"] = first, last, order, points, sample
	return out
}

// fillClip is the goldens' rule: gains of norms and variances around 1, the rest around 0.
func fillClip(m any, dtype torch.DType) {
	nn.SetTraining(m, false)
	nn.ToDType(m, dtype)
	fillModule(m, func(key string, shape []int) (offset, scale float64) {
		parts := strings.Split(key, ".")
		leaf, owner := parts[len(parts)-1], ""
		if len(parts) > 1 {
			owner = parts[len(parts)-2]
		}
		norm := strings.HasPrefix(owner, "ln_") || strings.HasPrefix(owner, "norm") || strings.HasPrefix(owner, "bn") || owner == "1" && strings.Contains(key, "downsample.")
		if leaf == "running_var" || leaf == "weight" && norm {
			return 1, 1
		}
		return 0, 0.5
	})
}

// parameters are names and shapes of the tensors that keep says.
func parameters(m any, keep func(key string) bool) map[string]any {
	out := map[string]any{}
	for k, t := range nn.StateDictOf(m) {
		if keep(k) {
			out[k] = t.Shape()
		}
	}
	return out
}

func filled(c clip.Config, o Options) (*clip.CLIP, error) {
	m, err := clip.New(c)
	if err == nil {
		fillClip(m, o.compute())
	}
	return m, err
}

func clipViT(n node, o Options) (map[string]any, error) {
	c := n.get("config")
	num := func(name string) int { return c.get(name).whole() }
	x, err := described(n.get("input"), o.compute())
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, act := range []clip.Act{clip.QuickGELU, clip.GELU} {
		m, err := filled(clip.Config{EmbedDim: num("embed"), Preprocess: clip.OpenAIPreprocess, Vision: &clip.Vision{
			ImageSize: [2]int{num("image"), num("image")}, PatchSize: num("patch"), Width: num("width"), Layers: num("layers"), Heads: num("heads"),
			MLP: 4 * num("width"), Act: act, Eps: 1e-5, Positions: clip.PositionsAuto,
		}}, o)
		if err != nil {
			return nil, err
		}
		y := m.Visual.Forward(x)
		name := strings.ReplaceAll(string(act), "_", "")
		out["embedding_"+name], out["normalised_"+name] = y, clip.Normalize(y)
		out["params"] = parameters(m, func(k string) bool { return strings.HasPrefix(k, "visual.") })
	}
	return out, nil
}

func clipText(n node, o Options) (map[string]any, error) {
	c := n.get("config")
	num := func(name string) int { return c.get(name).whole() }
	act := clip.QuickGELU
	if c.has("act") {
		act = clip.Act(c.text("act", ""))
	}
	m, err := filled(clip.Config{EmbedDim: num("embed"), Text: &clip.Text{
		ContextLength: num("context"), VocabSize: num("vocab"), Width: num("width"), Layers: num("layers"), Heads: num("heads"), MLP: 4 * num("width"), Act: act, Eps: 1e-5,
	}}, o)
	if err != nil {
		return nil, err
	}
	return map[string]any{"embedding": m.ForwardText(n.get("tokens").tensor(torch.Int64)),
		"params": parameters(m, func(k string) bool { return k != "logit_scale" })}, nil
}

func clipResNet(n node, o Options) (map[string]any, error) {
	c := n.get("config")
	num := func(name string) int { return c.get(name).whole() }
	x, err := described(n.get("input"), o.compute())
	if err != nil {
		return nil, err
	}
	m, err := filled(clip.Config{EmbedDim: num("embed"), Preprocess: clip.OpenAIPreprocess, Vision: &clip.Vision{
		ImageSize: [2]int{num("image"), num("image")}, Width: num("width"), Heads: num("heads"), Stages: c.get("layers").wholes(), Positions: clip.PositionsAuto,
	}}, o)
	if err != nil {
		return nil, err
	}
	d := m.Visual.Details(x, clip.Want{Tokens: true})
	flat := d.Tokens.Flatten(0, -1)
	return map[string]any{"embedding": d.Embeddings, "feature_map_shape": d.Tokens.Shape(), "feature_map_first8": flat.Slice(0, 0, 8, 1),
		"params": parameters(m, func(k string) bool { return strings.HasPrefix(k, "visual.") })}, nil
}

// clipZeroShot is softmax(cosine/τ), τ in the name of each result.
func clipZeroShot(n node, o Options) (map[string]any, error) {
	out := map[string]any{"logit_scale_init": math.Log(1 / 0.07), "logit_scale_init_exp": 1 / 0.07}
	cos := n.get("cosine").tensor(o.compute())
	for name := range n.object() {
		var tau float64
		if _, err := fmt.Sscanf(name, "softmax_tau_%g", &tau); err == nil {
			out[name] = cos.DivScalar(tau).Softmax(-1)
		}
	}
	return out, nil
}

// positionsTolerance: the antialiased numbers are printed with six digits.
func positionsTolerance(o Options, path string) Tolerance {
	if strings.Contains(path, "_antialias") && !strings.Contains(path, "no_antialias") {
		return Tolerance{1e-5, 1e-5}
	}
	return modelNumbers.tolerance(o)
}

// clipPositions resizes a square grid of one channel; rule and size are in the name of each result.
func clipPositions(n node, o Options) (map[string]any, error) {
	grid := n.get("input").tensor(o.compute())
	side := int(math.Round(math.Sqrt(float64(grid.Numel()))))
	table := torch.Cat([]*torch.Tensor{torch.Zeros(torch.S(1, 1), o.compute()), grid.View(-1, 1)}, 0)
	out := map[string]any{}
	for name := range n.object() {
		v := clip.Vision{ImageSize: [2]int{side, side}, PatchSize: 1, Positions: clip.PositionsHuggingFace}
		if !strings.Contains(name, "no_antialias") && strings.Contains(name, "antialias") {
			v.Positions = clip.PositionsOpenCLIP
		}
		var rows, columns int
		if _, err := fmt.Sscanf(name[strings.LastIndexByte(name, '_')+1:], "%dx%d", &rows, &columns); err != nil {
			continue
		}
		out[name] = clip.ResizePositions(table, v, rows, columns).Slice(0, 1, 1+rows*columns, 1).Flatten(0, 1)
	}
	return out, nil
}
