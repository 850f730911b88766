package clip

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/gospml/gospml/clip/tokenizer"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// LoadOptions settle what a file does not say. The zero value is the usual one.
type LoadOptions struct {
	// Config is used instead of any configuration that is found or inferred.
	Config *Config
	// Act is the activation of files without a configuration; QuickGELU by default, which is OpenAI's.
	Act Act
	// ImageSize, height and width, of files without a configuration whose position embeddings form no square.
	ImageSize [2]int

	// Copy reads the weights instead of mapping a safetensors file into memory. A mapped file must not be written to or
	// cut short while the model lives; to replace one, write beside it and rename. A model whose file was changed in place
	// says so at its next call ([ErrChanged]); one that is cut while a call runs ends the process. Only Open maps, only
	// what it uses as it is stored, and only files that nobody but this user and root can change.
	Copy bool

	mapped bool        // use the weights where they lie in the file
	freeze torch.DType // pack each block when it is read, so that the float32 weights are never all in memory
}

// Loaded says what a path was taken for.
type Loaded struct {
	Path       string
	Kind       string   // "a Hugging Face folder", "an OpenAI TorchScript archive", …
	Weights    []string // the files that were read
	Container  string
	ConfigFrom string // the file of the configuration, or how it was inferred
	Stored     string // element types and their number, as stored
	Tensors    int
	Parameters int
	Notes      []string
	Tokenizer  *tokenizer.Tokenizer // of the folder where it has one, else the default

	held []*held // mapped files
}

func (l *Loaded) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: taken for %s\n", l.Path, l.Kind)
	fmt.Fprintf(&b, "  weights        %s (%s; %s)\n", strings.Join(l.Weights, ", "), l.Container, l.Stored)
	fmt.Fprintf(&b, "  configuration  %s\n", l.ConfigFrom)
	for _, n := range l.Notes {
		fmt.Fprintf(&b, "  note           %s\n", n)
	}
	return b.String()
}

// Load reads a CLIP in any of its public forms, told apart by content and never by the name alone: OpenAI's .pt
// (TorchScript archive or state dict), open_clip's .safetensors or .bin with its configuration (also with the prefixes
// module., text. and wrappers), a Hugging Face folder (sharded too), this module's own folder, and bare safetensors
// whose architecture is inferred. path is a folder or one of its files. Weights become float32, the mode is evaluation.
// Missing, unexpected and mis-shaped tensors are an error with a table (a *nn.LoadError).
func Load(path string, o LoadOptions) (*CLIP, *Loaded, error) {
	f, err := find(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.weights.Close()
	m, l, err := f.load(o)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, l, nil
}

// found is what lies at a path.
type found struct {
	path    string
	dir     string // of the configuration
	weights *weights
	configs map[string]string          // kind to path
	parsed  map[string]json.RawMessage // kind to content
	notes   []string
}

// kinds of JSON files.
const (
	ownConfig      = "own"
	openCLIPConfig = "open_clip"
	hfConfig       = "huggingface"
	hfImages       = "preprocessor"
	indexFile      = "index"
)

// maxJSON bounds the JSON files that are looked into.
const maxJSON = 64 << 20

func jsonKind(b []byte) string {
	var top map[string]json.RawMessage
	if json.Unmarshal(b, &top) != nil {
		return ""
	}
	any := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return top[n] != nil })
	}
	var model string
	_ = json.Unmarshal(top["model_type"], &model)
	switch {
	case any("gospml_clip"):
		return ownConfig
	case any("weight_map"):
		return indexFile
	case any("model_cfg"), any("embed_dim") && any("vision_cfg"):
		return openCLIPConfig
	case any("vision_config", "text_config") || strings.HasPrefix(model, "clip"):
		return hfConfig
	case any("image_mean", "image_processor_type", "feature_extractor_type"), any("image_processor") && any("processor_class"): // processor_config.json nests it
		return hfImages
	}
	return ""
}

func find(path string) (*found, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: a model is a folder or file on this machine; nothing is fetched by name", err)
	}
	if err != nil {
		return nil, err
	}
	f := &found{path: path, dir: path, configs: map[string]string{}, parsed: map[string]json.RawMessage{}}
	file := ""
	if !st.IsDir() {
		f.dir, file = filepath.Dir(path), path
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, err
	}
	var candidates []string
	for _, e := range entries {
		p := filepath.Join(f.dir, e.Name())
		info, err := os.Stat(p)
		if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
			continue
		}
		kind, err := container(p)
		if err != nil {
			continue
		}
		if kind == "json" && info.Size() <= maxJSON && strings.EqualFold(filepath.Ext(p), ".json") {
			if err := f.addJSON(p); err != nil {
				return nil, err
			}
		}
		if kind == "safetensors" || kind == "pth" {
			candidates = append(candidates, p)
		}
	}
	if file != "" {
		kind, err := container(file)
		if err != nil {
			return nil, err
		}
		if kind != "json" {
			f.weights, err = openWeights(file)
			return f, err
		}
	}
	if index := f.configs[indexFile]; index != "" {
		if f.weights, err = openIndex(index); err != nil {
			return nil, err
		}
		return f, nil
	}
	return f, f.choose(candidates)
}

func (f *found) addJSON(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	kind := jsonKind(b)
	if kind == "" {
		return nil
	}
	if other := f.configs[kind]; other != "" {
		if kind == indexFile { // safetensors before .bin
			if strings.Contains(filepath.Base(other), "safetensors") {
				return nil
			}
		} else if preferred := map[string]string{hfConfig: "config.json", openCLIPConfig: "open_clip_config.json", hfImages: "preprocessor_config.json"}[kind]; filepath.Base(path) != preferred {
			return nil
		}
	}
	f.configs[kind], f.parsed[kind] = path, b
	return nil
}

// choose opens the one file of a folder that is a CLIP; of several the first of safetensors, TorchScript, other PyTorch
// files.
func (f *found) choose(candidates []string) error {
	type fit struct {
		w    *weights
		rank int
	}
	var fits []fit
	var reasons []error
	for _, p := range candidates {
		w, err := openWeights(p)
		if err == nil {
			if _, _, _, e := plainNames(keysOf(w.tensors)); e != nil {
				err = formatError(p, "%w", e)
				w.Close()
			}
		}
		if err != nil {
			reasons = append(reasons, err)
			continue
		}
		rank := 2
		if w.container == "safetensors" {
			rank = 0
		} else if w.script {
			rank = 1
		}
		fits = append(fits, fit{w, rank})
	}
	if len(fits) == 0 {
		if len(reasons) > 0 {
			return fmt.Errorf("%s holds no CLIP: %w", f.dir, errors.Join(reasons...))
		}
		return formatError(f.dir, "there is no file of weights in it%s", f.below())
	}
	sort.SliceStable(fits, func(i, k int) bool { return fits[i].rank < fits[k].rank })
	f.weights = fits[0].w
	for _, x := range fits[1:] {
		f.notes = append(f.notes, fmt.Sprintf("%s lies beside it and was not read", filepath.Base(x.w.paths[0])))
		x.w.Close()
	}
	return nil
}

// below names the folders in a folder without weights: people name the one above.
func (f *found) below() string {
	entries, _ := os.ReadDir(f.dir)
	var names []string
	for _, e := range entries {
		if e.IsDir() && len(names) < 5 {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; there are folders in it (" + strings.Join(names, ", ") + "), of which one may be meant"
}

func (f *found) load(o LoadOptions) (*CLIP, *Loaded, error) {
	w := f.weights
	names, whose, notes, err := plainNames(keysOf(w.tensors))
	if err != nil {
		return nil, nil, formatError(w.paths[0], "%w", err)
	}
	l := &Loaded{Path: f.path, Container: w.container, Notes: append(f.notes, notes...)}
	for _, p := range w.paths {
		l.Weights = append(l.Weights, filepath.Base(p))
	}
	c, err := f.config(o, names, whose, l)
	if err != nil {
		return nil, nil, err
	}
	if err := c.Check(); err != nil {
		return nil, nil, err
	}
	m, err := build(c, false)
	if err != nil {
		return nil, nil, err
	}
	if o.mapped {
		w.maps = map[string]*torch.Tensor{}
	}
	l.Parameters = nn.CountParameters(m)
	err = assign(m, w, names, whose, l, o.freeze)
	l.held = w.held
	if err != nil {
		l.letGo()
		return nil, nil, err
	}
	if whose == huggingFaceNames {
		t, err := tokenizer.OpenFolder(f.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.letGo()
			return nil, nil, err
		}
		l.Tokenizer = t
	}
	if l.Tokenizer == nil {
		l.Tokenizer = tokenizer.Default()
	}
	nn.SetTraining(m, false)
	return m, l, nil
}

// letGo closes the mapped files.
func (l *Loaded) letGo() {
	for _, h := range l.held {
		h.f.Close()
	}
}

// config chooses the configuration and says in l where it is from.
func (f *found) config(o LoadOptions, names map[string]string, whose naming, l *Loaded) (c Config, err error) {
	shape := func(key string) []int {
		p := part{from: []string{key}}
		if whose == huggingFaceNames {
			var ok bool
			if p, ok = toHuggingFace(key); !ok {
				return nil
			}
		}
		file, ok := names[p.from[0]]
		if !ok {
			return nil
		}
		s := append([]int{}, f.weights.tensors[file].shape...) // not nil for a scalar
		if p.transpose {
			slices.Reverse(s)
		}
		return s
	}
	l.Kind = fmt.Sprintf("%s with %s names", f.weights.container, whose)
	switch {
	case o.Config != nil:
		l.ConfigFrom = "given by the caller"
		return *o.Config, nil
	case f.weights.metadata[ownKey] != "":
		l.Kind, l.ConfigFrom = "this module's own form", "the file's metadata"
		return parseOwn([]byte(f.weights.metadata[ownKey]))
	case f.configs[ownConfig] != "" && whose == openAINames:
		l.Kind, l.ConfigFrom = "this module's own form", filepath.Base(f.configs[ownConfig])
		return parseOwn(f.parsed[ownConfig])
	case f.configs[hfConfig] != "" && whose == huggingFaceNames:
		l.Kind, l.ConfigFrom = "a Hugging Face checkpoint", filepath.Base(f.configs[hfConfig])
		c, err = parseHuggingFace(f.parsed[hfConfig], f.parsed[hfImages], shape)
		if f.configs[hfImages] == "" {
			l.Notes = append(l.Notes, "no preprocessor_config.json: OpenAI's preprocessing is assumed")
		}
		return c, err
	case f.configs[openCLIPConfig] != "" && whose == openAINames:
		l.Kind, l.ConfigFrom = "an open_clip checkpoint", filepath.Base(f.configs[openCLIPConfig])
		c, err = parseOpenCLIP(f.parsed[openCLIPConfig])
		c.LogitBias = shape("logit_bias") != nil
		return c, err
	}
	act := o.Act
	if act == "" {
		act = QuickGELU
		l.Notes = append(l.Notes, "the activation is taken for QuickGELU, which is OpenAI's; weights trained with GELU need a configuration or the option")
	}
	if f.weights.script {
		l.Kind = "an OpenAI TorchScript archive"
	}
	l.ConfigFrom = "inferred from the tensors' shapes"
	c, inferred, err := infer(names, whose, shape, act, o.ImageSize)
	l.Notes = append(l.Notes, inferred...)
	if whose == huggingFaceNames && c.Vision != nil {
		c.Vision.Positions = PositionsHuggingFace
	}
	return c, err
}

// assign gives the parameters of m the file's values, one tensor at a time. freeze, where it is not 0, packs the blocks
// on the way.
func assign(m *CLIP, w *weights, names map[string]string, whose naming, l *Loaded, freeze torch.DType) error {
	report := &nn.LoadReport{}
	used := map[string]bool{}
	type job struct {
		to    *torch.Tensor
		p     part
		block string // the block's name, "" outside the blocks
	}
	var jobs []job
	nn.Walk(m, func(e nn.Entry) {
		p := part{from: []string{e.Key}}
		if whose == huggingFaceNames {
			var ok bool
			if p, ok = toHuggingFace(e.Key); !ok {
				report.Missing = append(report.Missing, e.Key)
				return
			}
		}
		complete := true
		for _, n := range p.from {
			if _, ok := names[n]; !ok {
				if e.Buffer && strings.HasSuffix(e.Key, ".num_batches_tracked") {
					report.Kept = append(report.Kept, n)
				} else if n != "logit_scale" || m.Config.Vision != nil && m.Config.Text != nil {
					report.Missing = append(report.Missing, n)
				}
				complete = false
			}
			used[n] = true
		}
		if !complete {
			return
		}
		want := e.Tensor.Shape()
		if p.transpose {
			slices.Reverse(want)
		}
		for _, n := range p.from {
			have := slices.Clone(w.tensors[names[n]].shape)
			each := slices.Clone(want)
			if len(p.from) > 1 {
				each[0] /= len(p.from)
			}
			if (e.Key == "logit_scale" || e.Key == "logit_bias") && len(have) == 1 && have[0] == 1 { // open_clip's nonscalar_logit_scale and some converters save one element
				have = nil
			}
			if !slices.Equal(have, each) {
				report.MisShaped = append(report.MisShaped, nn.MisShaped{Key: n, Module: each, Got: have})
				return
			}
			if d := w.tensors[names[n]].dtype; d.IsFloat() != e.Tensor.DType().IsFloat() {
				report.MisTyped = append(report.MisTyped, nn.Converted{Key: n, From: d, To: e.Tensor.DType()})
				return
			}
		}
		j := job{to: e.Tensor, p: p}
		if k := blockKey.FindStringSubmatch(e.Key); k != nil {
			j.block = k[1] + k[2]
		}
		jobs = append(jobs, j)
	})
	for _, n := range keysOf(names) {
		if !used[n] {
			report.Unexpected = append(report.Unexpected, n)
		}
	}
	if !report.Complete() || len(report.MisShaped)+len(report.MisTyped) > 0 {
		return &nn.LoadError{Report: report}
	}
	types := map[string]int{}
	var freezers map[string]func()
	if freeze != 0 {
		freezers = m.freezers(freeze)
	}
	for i, j := range jobs {
		for _, n := range j.p.from {
			types[w.tensors[names[n]].dtype.String()]++
		}
		t, err := w.load(j.p, names, j.to.DType())
		if err != nil {
			return err
		}
		if err := torch.Try(func() {
			if t.Dim() != j.to.Dim() {
				t = t.View(j.to.Shape()...)
			}
			if freeze != 0 && j.to == m.tokens() { // the largest one outside the blocks: not beside them in float32
				wide := t
				t = t.ToDType(freeze)
				wide.Free()
			}
			j.to.SetData(t)
			t.Free()
			if f := freezers[j.block]; f != nil && (i == len(jobs)-1 || jobs[i+1].block != j.block) {
				f()
				torch.TrimHeap() // the next block's temporaries would not fit into the holes
			}
		}); err != nil {
			return err
		}
	}
	l.Tensors = len(used)
	var stored []string
	for _, k := range keysOf(types) {
		stored = append(stored, fmt.Sprintf("%d in %s", types[k], k))
	}
	l.Stored = strings.Join(stored, ", ")
	return nil
}

// tokens is the table of token embeddings, nil without a text tower.
func (m *CLIP) tokens() *torch.Tensor {
	if m.TokenEmbedding == nil {
		return nil
	}
	return m.TokenEmbedding.Weight
}
