package golden

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// backbones is golden_backbones.json: models of torchvision and timm in evaluation and for one training step, and names and shapes of the tensors of
// full-size models.
type backbones struct{}

func (backbones) Name() string { return "backbones" }

func (backbones) Detect(top map[string]any) bool {
	_, lists := top["key_lists_of_full_models"].(map[string]any)
	models, ok := top["models"].([]any)
	if ok && len(models) > 0 {
		first, _ := models[0].(map[string]any)
		_, ok = first["input"]
	}
	return lists || ok
}

func (b backbones) Check(f *File, o Options, r *Report) error {
	s, err := b.sections(f, o)
	if err != nil {
		return err
	}
	return s.Check(f, o, r)
}

func (b backbones) Eval(f *File, o Options, emit func(string, any) error) error {
	s, err := b.sections(f, o)
	if err != nil {
		return err
	}
	return s.Eval(f, o, emit)
}

// closeness are the tolerances of a file for the type that is computed in.
type closeness struct{ values, gradients float64 }

var decimalNumber = regexp.MustCompile(`[0-9.]+e-?[0-9]+|[0-9]*\.[0-9]+`)

// readCloseness reads about.tolerances; what it does not say is as in golden_backbones.json.
func readCloseness(top map[string]any, o Options) closeness {
	kind, c := "float64", closeness{1e-8, 1e-6}
	if o.compute() != torch.Float64 {
		kind, c = "float32", closeness{5e-4, 2e-3}
	}
	about, _ := top["about"].(map[string]any)
	said, _ := about["tolerances"].(map[string]any)
	read := func(text any, to *float64) {
		s, _ := text.(string)
		if x, err := strconv.ParseFloat(decimalNumber.FindString(s), 64); err == nil {
			*to = x
		}
	}
	read(said[kind], &c.values)
	if s, _ := said["gradient norms"].(string); s != "" {
		if _, after, ok := strings.Cut(s, kind); ok {
			read(after, &c.gradients)
		}
	}
	return c
}

func (backbones) sections(f *File, o Options) (sectioned, error) {
	fill, err := readFill(f.Top)
	if err != nil {
		return sectioned{}, fmt.Errorf("%s: %w", f.Path, err)
	}
	c := readCloseness(f.Top, o)
	return sectioned{tolerance: usual, table: map[string]section{
		"models": {
			inputs:  []string{"name", "input", "classes", "float32_max_abs_difference"},
			run:     func(n node, o Options) (map[string]any, error) { return backboneCase(n, o, fill) },
			compare: func(_ node, want, got map[string]any, _ Options) error { return c.model(want, got) },
		},
		"key_lists_of_full_models": {inputs: []string{"line_format"}, cases: keyListCases, run: keyListCase, tolerance: func(Options, string) Tolerance { return Tolerance{} }},
	}}, nil
}

// stateDict describes names, shapes and types as the files do.
func stateDict(entries map[string]entry) map[string]any {
	var text strings.Builder
	floats, shapes := 0, map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		e := entries[name]
		dims, n := make([]string, len(e.Shape)), 1
		for i, d := range e.Shape {
			dims[i], n = strconv.Itoa(d), n*d
		}
		if e.DType.IsFloat() {
			floats += n
		}
		shapes[name] = e.Shape
		fmt.Fprintf(&text, "%s %s %v\n", name, strings.Join(dims, "x"), e.DType)
	}
	h := sha256.Sum256([]byte(text.String()))
	return map[string]any{"entries": len(entries), "parameters_and_buffers_float": floats, "sha256_of_sorted_lines": hex.EncodeToString(h[:]), "shapes": shapes}
}

// sizes are a case's classes and the side of the images for which a position table is.
func sizes(n node, full string, x *torch.Tensor) (classes, image int) {
	classes, image = 10, x.Size(2)
	if n.has("state_dict") && n.get("state_dict").has("shapes") {
		s := n.get("state_dict").get("shapes")
		for _, head := range []string{"fc.weight", "head.weight", "head.fc.weight", "heads.head.weight", "classifier.1.weight", "classifier.2.weight"} {
			if s.has(head) {
				classes = s.get(head).wholes()[0]
			}
		}
		for _, table := range []string{"pos_embed", "encoder.pos_embedding"} {
			if v, ok := vits[full]; ok && s.has(table) {
				image = v.PatchSize * int(math.Round(math.Sqrt(float64(s.get(table).wholes()[1]-1))))
			}
		}
	} else if n.has("eval_logits") && n.get("eval_logits").has("summary") && n.get("eval_logits").get("summary").has("shape") {
		classes = n.get("eval_logits").get("summary").get("shape").wholes()[1]
	}
	if n.has("classes") {
		classes = n.get("classes").whole()
	}
	return classes, image
}

func backboneCase(n node, o Options, fill fillRule) (map[string]any, error) {
	full := n.text("name", "")
	x, err := described(n.get("input"), torch.Float32)
	if err != nil {
		return nil, err
	}
	if x.Dim() != 4 {
		return nil, fmt.Errorf("%s: want images [B, 3, H, W], got %v", n.at, x.Shape())
	}
	x = x.ToDType(o.compute())
	named := 0 // the side that a transformer's name ends in: timm/vit_small_patch16_96
	if p := lastNumber.FindStringSubmatch(full); p != nil && !known(full) {
		if side, err := strconv.Atoi(p[2]); err == nil && known(p[1]) {
			full, named = p[1], side
		}
	}
	classes, image := sizes(n, full, x)
	if v, ok := vits[full]; ok && named > 0 && named%v.PatchSize == 0 {
		image = named
	}
	m, err := newNetwork(full, classes, image)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"state_dict": stateDict(m.entries())}
	if err := m.load(fill); err != nil {
		return nil, err
	}
	nn.ToDType(m.Model, o.compute())
	nn.SetTraining(m.Model, false)
	torch.NoGrad(func() {
		y := m.logits(x)
		_, top := y.Select(0, 0).Topk(min(5, classes), 0, true, true)
		out["eval_logits"] = map[string]any{"summary": summary(y), "row0_argsort_top5": top, "per_row_sum": y.SumDim([]int{1}, false)}
		out["output_abs_max"] = y.Abs().Max().Item()
		out["eval_features"] = m.features(x)
	})
	if n.has("train") {
		out["train"], err = m.trainStep(n.get("train"), full, x, o)
	}
	return out, err
}

// features are what the files name: the map, its mean over positions, the normalised mean, a transformer's tokens.
func (m *network) features(x *torch.Tensor) map[string]any {
	if v, ok := m.Model.(*backbone.ViT); ok {
		tokens := v.Tokens(x)
		class := summary(tokens.Select(1, 0))
		return map[string]any{"map": summary(m.FeatureMap(x)), "tokens": summary(tokens), "pooled": class, "pooled_norm": class}
	}
	fm := m.FeatureMap(x)
	out := map[string]any{"map": summary(fm), "layer4_map": summary(fm)}
	if _, ok := m.Model.(*backbone.ConvNeXt); ok {
		out["pooled"], out["pooled_norm"] = summary(fm.MeanDim([]int{2, 3}, false)), summary(m.Features(x))
	} else {
		out["pooled"] = summary(m.Features(x))
	}
	return out
}

var gradientCall = regexp.MustCompile(`g=det\('([^']+)',\s*scale ([0-9.]+)\)`)

// slope is the loss of the files: mean(logits·g).
type slope struct{ g *torch.Tensor }

func (s slope) Value(b loss.Batch) (*torch.Tensor, error) { return b.Logits.Mul(s.g).Mean(), nil }

// trainStep is a step of the trainer's in training mode without dropout, whose loss is mean(logits·g): gradients,
// running statistics, and the logits in evaluation mode after those have moved. The optimiser's rate is 0.
func (m *network) trainStep(n node, full string, x *torch.Tensor, o Options) (map[string]any, error) {
	name, scale := "input:"+full+":grad", 2.0
	if what := n.text("what", ""); what != "" {
		p := gradientCall.FindStringSubmatch(what)
		if p == nil {
			n.fail("what: want a text with g=det('name', scale s), got %q", what)
		}
		name = p[1]
		scale, _ = strconv.ParseFloat(p[2], 64)
	}
	nn.SetTraining(m.Model, true)
	nn.SetDropout(m.Model, 0)
	params := nn.Parameters(m.Model)
	out := map[string]any{}
	s := &train.Stepper{Estimator: label.None{}}
	s.Train(optim.NewSGD(params, optim.LR(0)), params, 0)
	s.Forward = func(st *label.Step) error {
		y := m.logits(x)
		out["logits"] = summary(y)
		s.Loss = slope{det(name, torch.Float32, scale, y.Shape()...).ToDType(o.compute())}
		st.Batch.Logits = y
		return nil
	}
	places := make([]int, x.Size(0))
	for i := range places {
		places[i] = i
	}
	value, err := s.Step(1, places)
	if err != nil {
		return nil, err
	}
	out["loss"] = value

	names := m.names()
	squares, total := map[string]float64{}, 0.0
	for k, p := range nn.NamedParameters(m.Model) {
		g := p.Grad()
		if g == nil {
			n.fail("%s has no gradient", k)
		}
		s := g.ToDType(torch.Float64).Square().Sum().Item()
		total += s
		key := names[k]
		for i := range key { // every group that the name may belong to: features, features.0, …
			if key[i] == '.' {
				squares[key[:i]] += s
			}
		}
		squares[key] += s
	}
	norms := map[string]any{}
	for k, s := range squares {
		norms[k] = math.Sqrt(s)
	}
	statistics := map[string]any{}
	for k, t := range nn.NamedBuffers(m.Model) {
		if t.Dim() == 0 {
			statistics[names[k]] = t.ToDType(torch.Float64).Item()
			continue
		}
		statistics[names[k]] = summary(t)
	}
	out["gradient_norm_per_group"], out["gradient_norm_total"] = norms, math.Sqrt(total)
	out["running_statistics"] = statistics
	nn.SetTraining(m.Model, false)
	torch.NoGrad(func() { out["eval_logits_after_statistics_update"] = summary(m.logits(x)) })
	return out, nil
}

// model compares a case. Values are as close as the file asks relative to the largest logit, or the largest of their own tensor; a sum may be off by that
// for each of its terms.
func (c closeness) model(want, got map[string]any) error {
	within := func(path string, w, g any, abs, rel float64) error {
		return compare(path, w, g, func(string) Tolerance { return Tolerance{abs, rel} })
	}
	number := func(v any) float64 { x, _ := toFloat(v); return x }
	largest := number(got["output_abs_max"])
	var errs []error
	var walk func(path string, w, g any)
	walk = func(path string, w, g any) {
		wm, ok := w.(map[string]any)
		gm, gok := g.(map[string]any)
		leaf := path[strings.LastIndexByte(path, '/')+1:]
		if ok != gok {
			errs = append(errs, fmt.Errorf("%s: want %v, got another kind of value", path, w))
			return
		}
		if _, summarised := wm["sumsq"]; summarised {
			scale, n := number(gm["abs_max"]), 1.0
			if strings.HasPrefix(path, "/eval_logits/") {
				scale = largest
			}
			if l, ok := gm["shape"].([]any); ok {
				for _, d := range l {
					n *= number(d)
				}
			}
			for _, k := range keys(wm) {
				abs, rel := c.values*scale, 0.0
				switch k {
				case "shape":
					abs = 0
				case "sum":
					abs *= n
				case "sumsq":
					abs, rel = 0, 4*c.values+1e-9
				}
				v, ok := gm[k]
				if !ok {
					errs = append(errs, fmt.Errorf("%s/%s: not computed", path, k))
				} else if err := within(path+"/"+k, wm[k], v, abs, rel); err != nil {
					errs = append(errs, err)
				}
			}
			return
		}
		if ok && leaf != "state_dict" {
			for _, k := range keys(wm) {
				v, computed := gm[k]
				switch {
				case k == "what":
				case !computed:
					errs = append(errs, fmt.Errorf("%s/%s: not computed", path, k))
				default:
					walk(path+"/"+k, wm[k], v)
				}
			}
			return
		}
		abs, rel := 0.0, 0.0
		switch {
		case leaf == "state_dict":
			wm = maps.Clone(wm)
			delete(wm, "line_format")
			w = wm
			if shapes, ok := wm["shapes"].(map[string]any); ok {
				mine, _ := gm["shapes"].(map[string]any)
				for _, k := range keys(mine) {
					if _, ok := shapes[k]; !ok {
						errs = append(errs, fmt.Errorf("%s/shapes: %s is not in the file", path, k))
					}
				}
			}
		case leaf == "per_row_sum":
			abs = c.values * largest * classesOf(got)
		case leaf == "output_abs_max":
			rel = c.values
		case leaf == "loss":
			train, _ := got["train"].(map[string]any)
			logits, _ := train["logits"].(map[string]any)
			abs = c.values * number(logits["abs_max"])
		case strings.Contains(path, "gradient_norm"):
			abs, rel = 1e-12, c.gradients
		}
		if err := within(path, w, g, abs, rel); err != nil {
			errs = append(errs, err)
		}
	}
	walk("", want, got)
	return errors.Join(errs[:min(len(errs), 3)]...)
}

// classesOf is the number of classes of a computed case.
func classesOf(got map[string]any) float64 {
	logits, _ := got["eval_logits"].(map[string]any)
	s, _ := logits["summary"].(map[string]any)
	if shape, ok := s["shape"].([]any); ok && len(shape) == 2 {
		n, _ := toFloat(shape[1])
		return n
	}
	return 1
}

// keyListCases are the models of the lists, by name.
func keyListCases(n node) []node {
	var cases []node
	for _, name := range keys(n.object()) {
		cases = append(cases, n.get(name))
	}
	return cases
}

var lastNumber = regexp.MustCompile(`^(.+)_(\d+)$`)

// keyListCase makes the model that a list is named after: library/model, with the classes or a transformer's image size behind it.
func keyListCase(n node, _ Options) (map[string]any, error) {
	full := strings.TrimPrefix(n.at, "key_lists_of_full_models/")
	library, name, _ := strings.Cut(full, "/")
	if library == "open_clip" || library == "transformers" {
		return clipKeyList(library, name)
	}
	classes, image := 1000, 224
	if base, ok := strings.CutSuffix(full, "_22k_head"); ok { // ImageNet-22k as timm has it
		full, classes = base, 21841
	}
	if p := lastNumber.FindStringSubmatch(full); p != nil && !known(full) {
		full = p[1]
		x, err := strconv.Atoi(p[2])
		if err != nil {
			return nil, err
		}
		if v, ok := vits[full]; ok && library == "timm" && x%v.PatchSize == 0 {
			image = x
		} else {
			classes = x
		}
	}
	m, err := newNetwork(full, classes, image)
	if err != nil {
		return nil, err
	}
	return stateDict(m.entries()), nil
}

// clipKeyList takes open_clip's and Hugging Face's names of OpenAI's shapes.
func clipKeyList(library, name string) (map[string]any, error) {
	form := clip.OpenCLIP
	if library == "transformers" {
		form = clip.HuggingFace
		if base, ok := strings.CutPrefix(name, "CLIPModel_"); ok {
			name = strings.TrimPrefix(base, "default_")
		}
	}
	name = strings.TrimSuffix(name, "-quickgelu")
	if p := regexp.MustCompile(`^(ViT-[A-Za-z]+)-(\d+)(?:-(\d+))?$`).FindStringSubmatch(name); p != nil {
		name = p[1] + "/" + p[2]
		if p[3] != "" {
			name += "@" + p[3] + "px"
		}
	}
	c, err := clip.Named(name)
	if err != nil {
		return nil, err
	}
	shapes, err := clip.Shapes(c, form)
	if err != nil {
		return nil, err
	}
	entries := map[string]entry{}
	for k, shape := range shapes {
		e := entry{shape, torch.Float32}
		if strings.HasSuffix(k, ".num_batches_tracked") {
			e.DType = torch.Int64
		}
		entries[k] = e
	}
	return stateDict(entries), nil
}
