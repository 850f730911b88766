package backbone

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Model is an image classifier: feature map, mean over positions (normalised in ConvNeXt; the class token in a ViT),
// linear head.
type Model interface {
	// Forward maps images [B, 3, H, W] to logits [B, C].
	Forward(x *torch.Tensor) *torch.Tensor
	// FeatureMap is what the global average pool sees, [B, FeatureDim, h, w].
	FeatureMap(x *torch.Tensor) *torch.Tensor
	// Features are the pooled features, [B, FeatureDim].
	Features(x *torch.Tensor) *torch.Tensor
	// FeatureDim is the length of a feature vector.
	FeatureDim() int
	// Head is the classifier, Weight [C, FeatureDim] and Bias [C].
	Head() *nn.Linear
	// HeadKey is the head's prefix in the state dict without its dot, for instance "fc".
	HeadKey() string
	// SetHead puts another classifier in place.
	SetHead(l *nn.Linear)
}

// makers are the models by name.
var makers = map[string]func(numClasses int, opts ...nn.Option) Model{
	"mobilenet_v2": func(c int, opts ...nn.Option) Model { return NewMobileNetV2(c, opts...) },
	"resnet18":     resnet(BasicBlocks, 2, 2, 2, 2),
	"resnet34":     resnet(BasicBlocks, 3, 4, 6, 3),
	"resnet50":     resnet(Bottlenecks, 3, 4, 6, 3),
	"resnet101":    resnet(Bottlenecks, 3, 4, 23, 3),
	"small_cnn":    func(c int, opts ...nn.Option) Model { return NewSmallCNN(c, opts...) },
}

func init() {
	for name, v := range convNeXts {
		makers[name] = func(c int, opts ...nn.Option) Model { return NewConvNeXt(v[0], v[1], c, opts...) }
	}
	for name, v := range viTs {
		makers[name] = func(c int, opts ...nn.Option) Model { return NewViT(v, c, opts...) }
	}
	for name := range squeezeNets {
		makers[name] = func(c int, opts ...nn.Option) Model { return NewSqueezeNet(name, c, opts...) }
	}
}

func resnet(kind BlockKind, depths ...int) func(int, ...nn.Option) Model {
	return func(c int, opts ...nn.Option) Model { return NewResNet(kind, [4]int(depths), c, opts...) }
}

// registering guards makers, which Register changes.
var registering sync.RWMutex

// Register adds a model, which New, runs and saved models then know by name. numClasses is that of its head. A name
// that is taken is an error.
func Register(name string, f func(numClasses int, opts ...nn.Option) Model) error {
	registering.Lock()
	defer registering.Unlock()
	if _, taken := makers[name]; taken || name == "" || f == nil {
		return fmt.Errorf("backbone: the name %q is taken, or there is no name or function", name)
	}
	makers[name] = f
	return nil
}

// Names lists the models that New knows.
func Names() []string {
	registering.RLock()
	defer registering.RUnlock()
	return slices.Sorted(maps.Keys(makers))
}

// New makes a model in training mode with fresh weights: those of torchvision under the same seed, where torchvision
// has the model. Options: nn.DType, nn.Device, nn.Generator, nn.NoInit.
func New(name string, numClasses int, opts ...nn.Option) (m Model, err error) {
	registering.RLock()
	make, ok := makers[name]
	registering.RUnlock()
	if !ok {
		return nil, fmt.Errorf("backbone: no model is called %q; there are %s", name, strings.Join(Names(), ", "))
	}
	if numClasses < 1 {
		return nil, fmt.Errorf("backbone: %d classes, want at least 1", numClasses)
	}
	err = torch.Try(func() { m = make(numClasses, opts...) })
	return m, err
}

// ReplaceHead gives a model a fresh classifier of numClasses outputs, drawn as torch.nn.Linear's, of the type and on
// the device of the old one.
func ReplaceHead(m Model, numClasses int) error {
	if numClasses < 1 {
		return fmt.Errorf("backbone: %d classes, want at least 1", numClasses)
	}
	return torch.Try(func() {
		w := m.Head().Weight
		m.SetHead(nn.NewLinear(m.FeatureDim(), numClasses, nn.DType(w.DType()), nn.Device(w.Device())))
	})
}

// Split lists the parameters of the head and those of everything else, for groups with learning rates of their own.
func Split(m Model) (body, head []*torch.Tensor) {
	head = nn.Parameters(m.Head())
	for _, p := range nn.Parameters(m) {
		if !slices.Contains(head, p) {
			body = append(body, p)
		}
	}
	return body, head
}

// pool is the mean over positions, [B, D, h, w] -> [B, D]; it frees the map.
func pool(x *torch.Tensor) *torch.Tensor {
	f := x.MeanDim([]int{2, 3}, false)
	x.Free()
	return f
}

// classify applies a classifier to features and frees them.
func classify(head nn.Layer, f *torch.Tensor) *torch.Tensor {
	y := head.Forward(f)
	if y != f {
		f.Free()
	}
	return y
}

// stages are the parts of a ResNet from the input on: the stem, layer1 … layer4.
func (m *ResNet) stages() [][]nn.Layer {
	return [][]nn.Layer{{m.Conv1, m.BN1}, {m.Layer1}, {m.Layer2}, {m.Layer3}, {m.Layer4}}
}

// FreezeAt takes the first n stages of a ResNet out of training: 1 the stem, 2 the stem and layer1, … (Detectron's
// FREEZE_AT). Their statistics of normalisation are frozen too. Other models have no such stages.
func FreezeAt(m Model, n int) error {
	r, ok := m.(*ResNet)
	if !ok {
		return fmt.Errorf("backbone: only the stages of a ResNet can be frozen one by one, not those of %T", m)
	}
	s := r.stages()
	if n < 0 || n > len(s) {
		return fmt.Errorf("backbone: %d stages to freeze; a ResNet has %d", n, len(s))
	}
	for _, stage := range s[:n] {
		for _, l := range stage {
			nn.RequiresGrad(l, false)
			nn.FreezeBatchNorm(l, true)
		}
	}
	return nil
}
