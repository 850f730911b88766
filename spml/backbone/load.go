package backbone

import (
	"fmt"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Loaded says what a load did.
type Loaded struct {
	*nn.LoadReport
	// HeadSkipped: the classifier that was loaded from has FileClasses classes, another number than the model's, and was left
	// out; the model's own stays.
	HeadSkipped bool
	FileClasses int
	// Bare: the file has no classifier, as those of DINOv2 and SigLIP; the model's own stays.
	Bare bool
}

// String is the report in a line, for a log.
func (l *Loaded) String() string {
	s := l.LoadReport.String()
	if l.Bare {
		s += "; the file has no classifier"
	} else if l.HeadSkipped && l.FileClasses == 0 {
		s += "; the file's classifier, a convolution, was left out"
	} else if l.HeadSkipped {
		s += fmt.Sprintf("; its classifier for %d classes was left out", l.FileClasses)
	}
	return s
}

// Load copies a state dict of torchvision's or timm's keys into a model. A classifier for another number of classes is left out;
// every other missing, unexpected or mis-shaped key is a *nn.LoadError, and then nothing was copied.
func Load(m Model, sd nn.StateDict) (*Loaded, error) {
	l := &Loaded{}
	if err := torch.Try(func() { sd = adapt(m, sd); Fit(m, sd) }); err != nil {
		return l, err
	}
	weight, bias := m.HeadKey()+".weight", m.HeadKey()+".bias"
	err := torch.Try(func() {
		w, b := sd[weight], sd[bias]
		if _, ok := m.(*SqueezeNet); ok && w == nil && b == nil {
			l.HeadSkipped = true // torchvision's is a convolution
			return
		}
		if v, ok := m.(*ViT); ok && v.bare && w == nil && b == nil {
			l.HeadSkipped, l.Bare = true, true
			return
		}
		if w == nil || b == nil {
			return // a missing key
		}
		ws, bs := w.Shape(), b.Shape()
		if len(ws) != 2 || len(bs) != 1 || ws[0] != bs[0] || ws[1] != m.FeatureDim() {
			return // no classifier for these features: a mis-shaped key
		}
		l.FileClasses, l.HeadSkipped = ws[0], ws[0] != m.Head().OutFeatures
	})
	if err != nil {
		return l, err
	}
	if l.HeadSkipped {
		rest := nn.StateDict{}
		for k, t := range sd {
			rest[k] = t
		}
		rest[weight], rest[bias] = m.Head().Weight, m.Head().Bias // onto themselves
		sd = rest
	}
	l.LoadReport, err = nn.LoadStateDict(m, sd, true)
	if err == nil && l.HeadSkipped {
		l.LoadReport.Loaded -= 2
	}
	return l, err
}

// LoadWeights is Load from a file, safetensors or PyTorch's. The text says what was done, in a sentence.
func LoadWeights(m Model, path string) (string, error) {
	sd, err := nn.LoadFile(path)
	if err != nil {
		return "", err
	}
	defer sd.Free()
	l, err := Load(m, sd)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Sprintf("%s: %v", path, l), nil
}

// NewFromFile makes a model with the weights of a file (safetensors or PyTorch's) without drawing what the file replaces, which takes
// a third of the time of New and LoadWeights. numClasses 0 takes the file's classifier; another number than the file's
// gives a fresh one, drawn as torch.nn.Linear's. Options: nn.DType, nn.Device, nn.Generator.
func NewFromFile(name, path string, numClasses int, opts ...nn.Option) (Model, *Loaded, error) {
	sd, err := nn.LoadFile(path)
	if err != nil {
		return nil, nil, err
	}
	defer sd.Free()
	bare := append([]nn.Option{nn.NoInit()}, opts...)
	m, err := New(name, 1, bare...) // the classifier follows when its size is known
	if err != nil {
		return nil, nil, err
	}
	var l *Loaded
	err = torch.Try(func() {
		classes, o := max(numClasses, 1), opts
		if w := adapt(m, sd)[m.HeadKey()+".weight"]; w != nil && w.Dim() == 2 && (numClasses == 0 || numClasses == w.Size(0)) {
			classes, o = w.Size(0), bare
		}
		m.SetHead(nn.NewLinear(m.FeatureDim(), classes, o...))
	})
	if err == nil {
		l, err = Load(m, sd)
	}
	if err != nil {
		return nil, l, fmt.Errorf("%s as %s: %w", path, name, err)
	}
	return m, l, nil
}
