package clip

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gospml/gospml/clip/tokenizer"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Options of Open and NewModel. The zero value is float32 with 32 pictures or prompts at a time.
type Options struct {
	Load LoadOptions
	// DType of weights and arithmetic: Float32 (the zero value stands for it), BFloat16 or Float16. Embeddings come out as
	// float32 always.
	DType torch.DType
	// Plain keeps the towers as they are loaded: parameters stay accessible, and the model is slower. Without it bfloat16
	// weights are packed (see [CLIP.Freeze]) and a ModifiedResNet's norms become part of its convolutions.
	Plain bool
	// Device is where the weights lie and the arithmetic happens; the zero value is the CPU. Inputs may lie anywhere,
	// results come to the CPU.
	Device torch.Device
	// Graphs is how many shapes of input a card keeps as CUDA graphs, which it runs in one launch each: a shape that comes
	// a second time becomes one, the one that was not used for longest goes. 0 means 8, below 0 none.
	Graphs int
	// Batch is how many pictures or texts go through a tower at once; 0 means 32.
	Batch int
	// Workers is how many goroutines decode pictures; 0 means one per core.
	Workers int
	// Preprocess replaces the model's own way of preparing pictures.
	Preprocess *Preprocess
	// ImageSize, height and width, replaces the model's own; position embeddings are resized by the model's rule.
	ImageSize [2]int
	// Pixels are limits and colour rules of decoding.
	Pixels pixel.Options
}

// Model is a CLIP for inference. Safe for many goroutines over one set of weights: a call that is alone uses all
// threads, calls that run at the same time use one thread each, on a fixed number of workers.
type Model struct {
	clip   *CLIP
	loaded *Loaded // nil for NewModel
	o      Options
	tok    *tokenizer.Tokenizer
	pre    *Preprocessor // nil without an image tower or an image library
	sent   *Preprocessor // pre, but of bytes where the model is on another device
	preErr error
	graphs *graphs // nil but on a card

	constants constants

	active atomic.Int32
	wide   chan wideJob
	pool   *torch.Pool
	close  sync.Once
	ended  chan struct{}

	mu      sync.Mutex
	version int64 // of the text tower's parameters when classes were made
	classes map[string]*classEntry
}

type wideJob struct {
	f      func() error
	answer chan error
}

// Open loads a CLIP (see [Load]) and makes a Model of it.
func Open(path string, o Options) (_ *Model, err error) {
	defer caught.Recover(&err)
	if err := o.checkDevice(); err != nil {
		return nil, err
	}
	o.Load.mapped = !o.Load.Copy && (o.DType == 0 || o.DType == torch.Float32)
	if o.packs() {
		o.Load.freeze = o.DType
	}
	c, l, err := Load(path, o.Load)
	if err != nil {
		return nil, err
	}
	return newModel(c, l, o)
}

// NewModel makes a Model of a CLIP, which it takes over: the parameters are converted in place or freed.
func NewModel(c *CLIP, o Options) (_ *Model, err error) {
	defer caught.Recover(&err)
	return newModel(c, nil, o)
}

func newModel(c *CLIP, l *Loaded, o Options) (*Model, error) {
	if o.DType == 0 {
		o.DType = torch.Float32
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Batch < 1 {
		o.Batch = 32
	}
	m := &Model{clip: c, loaded: l, o: o, tok: tokenizer.Default(), wide: make(chan wideJob), ended: make(chan struct{}), classes: map[string]*classEntry{}}
	if l != nil {
		m.tok = l.Tokenizer
	}
	switch o.DType {
	case torch.Float32, torch.Float16, torch.BFloat16:
	default:
		return nil, fmt.Errorf("clip: a model computes in float32, bfloat16 or float16, not %v", o.DType)
	}
	if err := o.checkDevice(); err != nil {
		return nil, err
	}
	nn.SetTraining(c, false)
	if err := torch.Try(func() { nn.RequiresGrad(c, false) }); err != nil {
		return nil, err
	}
	var err error
	if o.packs() {
		err = c.Freeze(o.DType)
	} else {
		err = torch.Try(func() {
			if r, ok := c.Visual.(*ModifiedResNet); ok && !o.Plain && !r.folded {
				r.fold()
			}
			if o.remote() {
				c.move(o.Device, o.DType, o.Plain)
			} else {
				convert(c, o.DType)
			}
		})
	}
	if err != nil {
		return nil, err
	}
	if v := c.Config.Vision; v != nil {
		size, p := v.ImageSize, c.Config.Preprocess
		if o.ImageSize != [2]int{} {
			size = o.ImageSize
			p.ResizeTo = 0
		}
		if size[0] < v.Stride() || size[1] < v.Stride() {
			return nil, fmt.Errorf("clip: an image of %d×%d is smaller than a patch of %d", size[0], size[1], v.Stride())
		}
		if o.Preprocess != nil {
			p = *o.Preprocess
		}
		if m.pre, m.preErr = NewPreprocessor(p, size[0], size[1], o.Workers, o.Pixels); m.pre != nil {
			m.pre.pinned = o.Device.Type == torch.DeviceCUDA
			m.sent, _ = NewPreprocessor(p, size[0], size[1], o.Workers, o.Pixels)
			m.sent.SendBytes(m)
		}
	}
	if m.constants, err = m.newConstants(); err != nil {
		return nil, err
	}
	m.graphs = newGraphs(&m.o)
	torch.TrimHeap()
	if m.pool, err = torch.NewPool(0); err != nil {
		return nil, err
	}
	go m.runWide()
	return m, nil
}

// Largest numbers of Options.
const (
	maxSide    = 1 << 13
	maxBatch   = 1 << 20
	maxWorkers = 1 << 14
)

// check refuses numbers that cannot be meant.
func (o *Options) check() error {
	for _, x := range []struct {
		what    string
		v, most int
	}{{"Batch", o.Batch, maxBatch}, {"Workers", o.Workers, maxWorkers}, {"Graphs", o.Graphs, maxBatch}, {"ImageSize", o.ImageSize[0], maxSide}, {"ImageSize", o.ImageSize[1], maxSide}} {
		if x.v > x.most {
			return fmt.Errorf("clip: Options.%s is %d, want at most %d", x.what, x.v, x.most)
		}
	}
	return nil
}

// packs says whether the weights are packed.
func (o *Options) packs() bool {
	return o.DType == torch.BFloat16 && !o.Plain && !o.remote() && torch.Available() == nil && canPack()
}

// canPack says whether oneDNN computes in bfloat16 on this processor.
func canPack() bool {
	const op = "mkldnn::_is_mkldnn_bf16_supported"
	return torch.Has(op) && torch.Call(op)[0].(bool)
}

// Close ends the workers and frees the weights. Calls that run are waited for; later ones fail.
func (m *Model) Close() {
	m.close.Do(func() {
		close(m.ended)
		m.pool.Close()
		m.graphs.close()
		nn.Walk(m.clip, func(e nn.Entry) { e.Tensor.Free() })
		if m.loaded != nil {
			m.loaded.letGo()
		}
	})
}

// Config is the model's configuration.
func (m *Model) Config() Config { return m.clip.Config }

// Loaded says what the path was taken for; nil for NewModel.
func (m *Model) Loaded() *Loaded { return m.loaded }

// Tokenizer is the model's tokenizer.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.tok }

// ImageSize is the height and width of the pictures that the model takes.
func (m *Model) ImageSize() (h, w int) {
	if m.pre == nil {
		return 0, 0
	}
	return m.pre.H, m.pre.W
}

// Device is where the model computes.
func (m *Model) Device() torch.Device { return m.o.Device }

// DType is the type of the arithmetic.
func (m *Model) DType() torch.DType { return m.o.DType }

// Frozen says whether the weights are packed.
func (m *Model) Frozen() bool {
	for _, l := range nn.Modules(m.clip) {
		if b, ok := l.(*Block); ok {
			return b.frozen != nil
		}
	}
	return false
}

// runWide serves calls that are alone, with all threads of libtorch.
func (m *Model) runWide() {
	_ = torch.Do(func() error {
		for {
			select {
			case <-m.ended:
				return nil
			case j := <-m.wide:
				err := errEnded
				func() {
					defer func() { j.answer <- err }() // also when f panics
					err = caught.Do(func() (err error) {
						if e := torch.Try(func() { err = j.f() }); e != nil {
							return e
						}
						return err
					})
				}()
			}
		}
	})
}

var errEnded = fmt.Errorf("clip: the model is closed")

// run computes f, without gradients, on one of the model's threads.
func (m *Model) run(ctx context.Context, f func(s *torch.Arena) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	job := func() (err error) {
		torch.Scope(func(s *torch.Arena) { torch.NoGrad(func() { err = f(s) }) })
		return err
	}
	select {
	case <-m.ended:
		return errEnded
	default:
	}
	if m.loaded != nil {
		for _, h := range m.loaded.held {
			if err := h.check(); err != nil {
				return fmt.Errorf("clip: %w", err)
			}
		}
	}
	defer m.active.Add(-1)
	if m.active.Add(1) > 1 {
		return m.pool.Run(ctx, job)
	}
	j := wideJob{job, make(chan error, 1)}
	select {
	case m.wide <- j:
		return <-j.answer
	case <-m.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// chunks calls f for parts of n rows and joins the results on the CPU, [n, E]. Each part is a job of its own.
func (m *Model) chunks(ctx context.Context, n int, f func(from, to int) *torch.Tensor) (*torch.Tensor, error) {
	return m.parts(ctx, n, func(from, to int) *torch.Tensor { return m.download(f(from, to)) })
}

// parts is chunks with the results where they are.
func (m *Model) parts(ctx context.Context, n int, f func(from, to int) *torch.Tensor) (*torch.Tensor, error) {
	var parts []*torch.Tensor
	defer func() {
		for _, p := range parts {
			p.Free()
		}
	}()
	for from := 0; from < n; from += m.o.Batch {
		to := min(n, from+m.o.Batch)
		err := m.run(ctx, func(s *torch.Arena) error {
			parts = append(parts, s.Keep(f(from, to)))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return join(parts, m.clip.Config.EmbedDim)
}

// join concatenates parts outside any scope of the caller.
func join(parts []*torch.Tensor, width int) (out *torch.Tensor, err error) {
	err = torch.Try(func() {
		if len(parts) == 0 {
			out = torch.Empty(torch.S(0, width))
			return
		}
		out = torch.Cat(parts, 0)
	})
	return out, err
}

// EncodeImage maps prepared pictures [n, 3, H, W] (any floating type; see [Preprocess]), or bytes [n, H, W, 3] (see
// [Preprocessor.SendBytes]), to embeddings [n, E], float32 and not normalised. H and W may differ from the model's. The
// caller frees the result, or leaves it to the collector.
func (m *Model) EncodeImage(ctx context.Context, x *torch.Tensor) (*torch.Tensor, error) {
	return m.encodeImage(ctx, x, m.chunks)
}

// EncodeImageThere is EncodeImage with the result on the model's device, for which nothing waits.
func (m *Model) EncodeImageThere(ctx context.Context, x *torch.Tensor) (*torch.Tensor, error) {
	return m.encodeImage(ctx, x, func(ctx context.Context, n int, f func(from, to int) *torch.Tensor) (*torch.Tensor,
		error) {
		return m.parts(ctx, n, func(from, to int) *torch.Tensor { return f(from, to).ToDType(torch.Float32) })
	})
}

func (m *Model) encodeImage(ctx context.Context, x *torch.Tensor,
	in func(context.Context, int, func(from, to int) *torch.Tensor) (*torch.Tensor, error)) (*torch.Tensor, error) {
	if m.clip.Visual == nil {
		return nil, errNoImages
	}
	var n int
	if err := torch.Try(func() { n = x.Size(0) }); err != nil {
		return nil, err
	}
	return in(ctx, n, func(from, to int) *torch.Tensor {
		return m.forward("image", m.pictures(x.Slice(0, from, to, 1)), m.clip.Visual.Forward)
	})
}

// Details is EncodeImage with tokens and attention maps as float32, all rows at once; see [Details]. The caller frees
// the tensors.
func (m *Model) Details(ctx context.Context, x *torch.Tensor, want Want) (d Details, err error) {
	if m.clip.Visual == nil {
		return d, errNoImages
	}
	err = m.run(ctx, func(s *torch.Arena) error {
		d = m.clip.Visual.Details(m.pictures(x), want)
		wide := func(t *torch.Tensor) *torch.Tensor {
			if t == nil {
				return nil
			}
			return s.Keep(m.download(t))
		}
		d.Embeddings, d.Tokens = wide(d.Embeddings), wide(d.Tokens)
		for i := range d.Attention {
			d.Attention[i] = wide(d.Attention[i])
		}
		return nil
	})
	return d, err
}

// Prepare decodes files (their bytes) into a batch of pictures [n, 3, H, W]. A picture that cannot be read is a
// *PictureError.
func (m *Model) Prepare(ctx context.Context, files [][]byte) (*torch.Tensor, error) {
	return m.prepare(ctx, m.pre, len(files), func(i int) ([]byte, error) { return files[i], nil })
}

func (m *Model) prepare(ctx context.Context, p *Preprocessor, n int,
	fetch func(i int) ([]byte, error)) (*torch.Tensor, error) {
	if m.clip.Visual == nil {
		return nil, errNoImages
	}
	if m.preErr != nil {
		return nil, m.preErr
	}
	return p.batch(ctx, n, fetch)
}

// EncodeFiles maps image files (their bytes) to embeddings [n, E]. While one batch is encoded the next is decoded.
func (m *Model) EncodeFiles(ctx context.Context, files [][]byte) (*torch.Tensor, error) {
	return m.encodeFiles(ctx, len(files), func(i int) ([]byte, error) { return files[i], nil })
}

// EncodePaths is EncodeFiles of files by name.
func (m *Model) EncodePaths(ctx context.Context, paths []string) (*torch.Tensor, error) {
	return m.encodeFiles(ctx, len(paths), func(i int) ([]byte, error) { return pixel.ReadFile(paths[i]) })
}

func (m *Model) encodeFiles(ctx context.Context, n int, fetch func(int) ([]byte, error)) (*torch.Tensor, error) {
	type batch struct {
		x   *torch.Tensor
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := make(chan batch, 1)
	go func() {
		defer close(next)
		for from := 0; from < n; from += m.o.Batch {
			var x *torch.Tensor
			err := caught.Do(func() (err error) {
				x, err = m.prepare(ctx, m.sent, min(n-from, m.o.Batch), func(i int) ([]byte, error) { return fetch(from + i) })
				return err
			})
			if p, ok := err.(*PictureError); ok {
				p.Index += from
			}
			select {
			case next <- batch{x, err}:
			case <-ctx.Done():
				if x != nil {
					x.Free()
				}
				return
			}
			if err != nil {
				return
			}
		}
	}()
	var parts []*torch.Tensor
	defer func() {
		for _, p := range parts {
			p.Free()
		}
	}()
	for b := range next {
		if b.err != nil {
			return nil, b.err
		}
		y, err := m.EncodeImage(ctx, b.x)
		b.x.Free()
		if err != nil {
			return nil, err
		}
		parts = append(parts, y)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return join(parts, m.clip.Config.EmbedDim)
}

// Tokenize encodes texts for the model: int64 [n, context length]. Truncated lists the texts that were cut.
func (m *Model) Tokenize(texts []string) (ids *torch.Tensor, truncated []int, err error) {
	b, err := m.tokens(texts)
	if err != nil {
		return nil, nil, err
	}
	err = torch.Try(func() {
		short := torch.FromSlice(b.IDs, len(texts), b.Len)
		ids = short.ToDType(torch.Int64)
		short.Free()
	})
	return ids, b.Truncated, err
}

func (m *Model) tokens(texts []string) (*tokenizer.Batch, error) {
	c := m.clip.Config.Text
	if c == nil {
		return nil, errNoText
	}
	if n := m.tok.VocabSize(); n > c.VocabSize {
		return nil, fmt.Errorf("clip: the model's vocabulary has %d tokens and the tokenizer %d: texts have to be given as token ids", c.VocabSize, n)
	}
	return m.tok.Batch(texts, c.ContextLength), nil
}

// EncodeText maps texts to embeddings [n, E], float32 and not normalised. Texts longer than the context are cut, with
// the end token kept. Texts of similar length share a batch, and what follows the longest one's end is not computed,
// because nothing reads it.
func (m *Model) EncodeText(ctx context.Context, texts []string) (*torch.Tensor, error) {
	ids, _, err := m.Tokenize(texts)
	if err != nil {
		return nil, err
	}
	defer ids.Free()
	return m.EncodeIDs(ctx, ids)
}

// EncodeIDs is EncodeText of token ids [n, L], L at most the context length.
func (m *Model) EncodeIDs(ctx context.Context, ids *torch.Tensor) (*torch.Tensor, error) {
	c := m.clip.Config.Text
	if c == nil {
		return nil, errNoText
	}
	var rows [][]int64
	if err := torch.Try(func() {
		here := ids
		if ids.Device().Type != torch.DeviceCPU {
			here = ids.ToDevice(torch.CPU)
			defer here.Free()
		}
		flat, s := torch.ToSlice[int64](here), ids.Shape()
		if len(s) != 2 || s[1] < 1 || s[1] > c.ContextLength {
			panic(&torch.Error{Kind: torch.KindValue, Op: "clip.EncodeIDs", Shapes: [][]int{s}, Msg: fmt.Sprintf("want token ids [n, L] with L from 1 to %d", c.ContextLength)})
		}
		for i := range s[0] {
			rows = append(rows, flat[i*s[1]:(i+1)*s[1]])
		}
	}); err != nil {
		return nil, err
	}
	for i, r := range rows {
		for _, id := range r {
			if id < 0 || id >= int64(c.VocabSize) {
				return nil, fmt.Errorf("clip: row %d has the token id %d, the vocabulary has %d", i, id, c.VocabSize)
			}
		}
	}
	order, ends := byLength(rows, c)
	out := make([]int, len(rows)) // where each row lies in the sorted result
	for k, i := range order {
		out[i] = k
	}
	sorted, err := m.chunks(ctx, len(rows), func(from, to int) *torch.Tensor {
		l := ends[order[to-1]] + 1
		if m.graphs != nil { // few lengths, so that graphs come again
			l = min((l+7)/8*8, len(rows[0]))
		}
		flat := make([]int64, 0, (to-from)*l)
		for _, i := range order[from:to] {
			flat = append(flat, rows[i][:l]...)
		}
		return m.forward("text", m.upload(torch.FromSlice(flat, to-from, l), torch.Int64), m.clip.ForwardText)
	})
	if err != nil {
		return nil, err
	}
	var y *torch.Tensor
	err = torch.Try(func() {
		at := make([]int64, len(out))
		for i, k := range out {
			at[i] = int64(k)
		}
		index := torch.FromSlice(at, len(at))
		y = sorted.IndexSelect(0, index)
		free(index, sorted)
	})
	return y, err
}

// classEntry is computed once; callers at the same time wait for it.
type classEntry struct {
	once sync.Once
	x    *torch.Tensor
	err  error
}

// DefaultTemplate is used where no templates are given. {} stands for the class.
const DefaultTemplate = "a photo of a {}."

// ClassFeatures are the normalised embeddings of classes, [C, E]: of each class the mean over its prompts' normalised
// embeddings, normalised (Radford et al. 2021, section 3.1.4). No templates means DefaultTemplate. The result is kept
// for the next call with the same prompts and belongs to the model: do not change or free it.
func (m *Model) ClassFeatures(ctx context.Context, classes, templates []string) (*torch.Tensor, error) {
	if len(classes) == 0 {
		return nil, fmt.Errorf("clip: there are no classes")
	}
	if len(templates) == 0 {
		templates = []string{DefaultTemplate}
	}
	var prompts []string
	for _, c := range classes {
		for _, t := range templates {
			if !strings.Contains(t, "{}") {
				return nil, fmt.Errorf("clip: the template %q has no {} for the class", t)
			}
			prompts = append(prompts, strings.ReplaceAll(t, "{}", c))
		}
	}
	version, err := m.textVersion()
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%d %q", len(templates), prompts)
	m.mu.Lock()
	if version != m.version {
		m.version = version
		m.classes = map[string]*classEntry{}
	}
	e := m.classes[key]
	if e == nil {
		e = &classEntry{}
		m.classes[key] = e
	}
	m.mu.Unlock()
	e.once.Do(func() {
		if e.x, e.err = m.classFeatures(ctx, prompts, len(classes), len(templates)); e.err != nil {
			m.mu.Lock()
			delete(m.classes, key) // the next call tries again
			m.mu.Unlock()
		}
	})
	return e.x, e.err
}

// textVersion changes when the text tower's parameters, which a Plain model leaves to its owner, are written in place.
func (m *Model) textVersion() (n int64, err error) {
	if m.clip.Config.Text == nil {
		return 0, errNoText
	}
	err = torch.Try(func() {
		nn.Walk(&m.clip.TextTower, func(e nn.Entry) { n += int64(e.Tensor.Version()) })
	})
	return n, err
}

func (m *Model) classFeatures(ctx context.Context, prompts []string, classes, templates int) (y *torch.Tensor, err error) {
	x, err := m.EncodeText(ctx, prompts)
	if err != nil {
		return nil, err
	}
	defer x.Free()
	err = m.run(ctx, func(s *torch.Arena) error {
		n := Normalize(x)
		if templates > 1 {
			n = Normalize(n.View(classes, templates, -1).MeanDim([]int{1}, false))
		}
		y = s.Keep(n)
		return nil
	})
	return y, err
}

// Classifier scores pictures against classes.
type Classifier struct {
	Classes []string
	m       *Model
	text    *torch.Tensor // [C, E]
}

// ZeroShot makes a classifier of class names; see [Model.ClassFeatures] for the templates.
func (m *Model) ZeroShot(ctx context.Context, classes, templates []string) (*Classifier, error) {
	text, err := m.ClassFeatures(ctx, classes, templates)
	if err != nil {
		return nil, err
	}
	return &Classifier{Classes: append([]string(nil), classes...), m: m, text: text}, nil
}

// Scores are a classifier's results, a row a picture.
type Scores struct {
	Classes       int
	Cosines       []float32 // [n, C], from -1 to 1
	Probabilities []float32 // [n, C], softmax of the cosines times the model's scale; each row sums to 1
}

// Row gives picture i's cosines and probabilities.
func (s *Scores) Row(i int) (cosines, probabilities []float32) {
	return s.Cosines[i*s.Classes : (i+1)*s.Classes], s.Probabilities[i*s.Classes : (i+1)*s.Classes]
}

// Files scores image files by their bytes.
func (c *Classifier) Files(ctx context.Context, files [][]byte) (*Scores, error) {
	x, err := c.m.EncodeFiles(ctx, files)
	if err != nil {
		return nil, err
	}
	defer x.Free()
	return c.Embeddings(ctx, x)
}

// Embeddings scores image embeddings [n, E]. Cosines and softmax are float32 whatever the model's type.
func (c *Classifier) Embeddings(ctx context.Context, x *torch.Tensor) (s *Scores, err error) {
	err = c.m.run(ctx, func(*torch.Arena) error {
		n := Normalize(x.ToDevice(torch.CPU).ToDType(torch.Float32))
		cos := n.Matmul(c.text.T())
		scale := c.m.clip.LogitScale.ToDType(torch.Float32).Exp()
		p := cos.Mul(scale).Softmax(-1)
		s = &Scores{Classes: len(c.Classes), Cosines: torch.ToSlice[float32](cos), Probabilities: torch.ToSlice[float32](p)}
		return nil
	})
	return s, err
}

// Logits are the scaled cosines of normalised embeddings, [n, N]; see [CLIP.Logits].
func (m *Model) Logits(image, text *torch.Tensor) *torch.Tensor { return m.clip.Logits(image, text) }

// byLength sorts rows by the last place that matters to what is read out, and gives those places.
func byLength(rows [][]int64, c *Text) (order, ends []int) {
	ends = make([]int, len(rows))
	order = make([]int, len(rows))
	for i, r := range rows {
		order[i] = i
		if c.whole() {
			ends[i] = len(r) - 1
			continue
		}
		for k, id := range r {
			if c.Pool == PoolFirst {
				break
			}
			if c.EOT == 0 && id > r[ends[i]] {
				ends[i] = k
			}
			if c.EOT != 0 && id == int64(c.EOT) {
				ends[i] = k
				break
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return ends[a] - ends[b] })
	return order, ends
}

// Memory is what the model's packed or plain weights take, in bytes.
func (m *Model) Memory() int {
	n := 0
	nn.Walk(m.clip, func(e nn.Entry) { n += e.Tensor.Numel() * e.Tensor.DType().Size() })
	for _, l := range nn.Modules(m.clip) {
		if b, ok := l.(*Block); ok && b.frozen != nil {
			for _, p := range []*packedLinear{b.frozen.q, b.frozen.kv, b.frozen.qkv, b.frozen.outProj, b.frozen.fc, b.frozen.cProj} {
				if p != nil {
					n += p.weight.Numel() * p.weight.DType().Size()
				}
			}
		}
	}
	return n
}
