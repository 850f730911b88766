package backbone

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Model is an image classifier whose last layer is linear.
type Model interface {
	// Forward maps images [B, 3, H, W] to logits [B, classes].
	Forward(x *torch.Tensor) *torch.Tensor
	// FeatureMap is what the global average pool sees, [B, FeatureDim, h, w].
	FeatureMap(x *torch.Tensor) *torch.Tensor
	// Features are the pooled features, [B, FeatureDim].
	Features(x *torch.Tensor) *torch.Tensor
	// FeatureDim is the length of a feature vector.
	FeatureDim() int
	// Head is the classifier.
	Head() *nn.Linear
}

// makers are the models by name; classes is the width of the classifier.
var makers = map[string]func(classes int) Model{
	"mobilenet_v2": func(c int) Model { return newMobileNetV2(c) },
	"resnet18":     func(c int) Model { return newResNet(basicBlock, [4]int{2, 2, 2, 2}, c) },
	"resnet34":     func(c int) Model { return newResNet(basicBlock, [4]int{3, 4, 6, 3}, c) },
	"resnet50":     func(c int) Model { return newResNet(bottleneck, [4]int{3, 4, 6, 3}, c) },
	"resnet101":    func(c int) Model { return newResNet(bottleneck, [4]int{3, 4, 23, 3}, c) },
	"small_cnn":    func(c int) Model { return newSmallCNN(c) },
}

// Names lists the models.
func Names() []string { return slices.Sorted(maps.Keys(makers)) }

// New makes a model in training mode with fresh weights from torch's default generator.
func New(name string, classes int) (m Model, err error) {
	make, ok := makers[name]
	if !ok {
		return nil, fmt.Errorf("backbone: no model is called %q; there are %s", name, strings.Join(Names(), ", "))
	}
	if classes < 1 {
		return nil, fmt.Errorf("backbone: %d classes, want at least 1", classes)
	}
	err = torch.Try(func() { m = make(classes) })
	return m, err
}

// pool is the mean over positions, [B, D, h, w] -> [B, D].
func pool(x *torch.Tensor) *torch.Tensor { return x.MeanDim([]int{2, 3}, false) }

// logits pools and classifies.
func logits(m Model, x *torch.Tensor) *torch.Tensor {
	f := m.Features(x)
	return m.Head().Forward(f)
}

// LoadWeights copies a safetensors file into a model. A classifier for another number of classes is left as it was drawn;
// every other difference is an error with a table. The text says what was done, in a sentence.
func LoadWeights(m Model, path string) (string, error) {
	sd, _, err := nn.LoadSafetensors(path)
	if err != nil {
		return "", err
	}
	defer sd.Free()
	kept := ""
	for key, t := range nn.StateDictOf(m) {
		if t.Same(m.Head().Weight) || t.Same(m.Head().Bias) {
			if from := sd[key]; from != nil && !slices.Equal(from.Shape(), t.Shape()) {
				kept = fmt.Sprintf("; its classifier for %d classes was left out", from.Size(0))
				from.Free()
				sd[key] = t.Retain()
			}
		}
	}
	r, err := nn.LoadStateDict(m, sd, true)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Sprintf("%s: %d tensors loaded%s", path, r.Loaded, kept), nil
}
