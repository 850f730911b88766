package backbone_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// TestRealWeightsClassify loads ImageNet weights without renaming and compares the sample photos' labels with what
// reference_runs.md found for the same file.
func TestRealWeightsClassify(t *testing.T) {
	weights := testroot.Shared(t, "data", "weights", "mobilenet_v2.safetensors")
	m, err := backbone.New("mobilenet_v2", 1000, nn.NoInit())
	require.NoError(t, err)
	note, err := backbone.LoadWeights(m, weights)
	require.NoError(t, err)
	require.Equal(t, weights+": 314 loaded", note)
	nn.SetTraining(m, false)

	text, err := os.ReadFile(testroot.Shared(t, "data", "weights", "imagenet_labels.txt"))
	require.NoError(t, err)
	labels := strings.Split(strings.TrimSpace(string(text)), "\n")
	labels = labels[len(labels)-1000:] // the first line of 1,001 is "background"
	d, err := pixel.NewDecoder(pixel.Options{})
	require.NoError(t, err)
	defer d.Close()
	for file, want := range map[string]struct {
		label string
		p     float64
	}{"hot_dog.jpg": {"hotdog", 0.73}, "parrot.jpg": {"macaw", 1.00}, "cat.bmp": {"Egyptian cat", 0.74}} {
		b, err := os.ReadFile(testroot.Shared(t, "data", "weights", "samples", file))
		require.NoError(t, err)
		x := make([]float32, 3*224*224)
		require.NoError(t, d.Normalized(b, 224, 224, pixel.Bilinear, pixel.ImageNetMean, pixel.ImageNetStd, false, x))
		torch.Inference(func() {
			torch.Scope(func(*torch.Arena) {
				p, i := m.Forward(torch.FromSlice(x, 1, 3, 224, 224)).Softmax(1).MaxDim(1, false)
				require.Contains(t, labels[i.ItemInt()], want.label, file)
				require.InDelta(t, want.p, p.Item(), 0.005, file)
			})
		})
	}
}

func TestNewFromFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.safetensors")
	torch.ManualSeed(1)
	whole, err := backbone.New("small_cnn", 7)
	require.NoError(t, err)
	require.NoError(t, nn.SaveSafetensors(path, nn.StateDictOf(whole), nil))

	state := func() []uint8 { return torch.ToSlice[uint8](torch.RNGState()) }
	before := state()
	for _, classes := range []int{0, 7} {
		m, l, err := backbone.NewFromFile("small_cnn", path, classes)
		require.NoError(t, err)
		require.False(t, l.HeadSkipped)
		require.Equal(t, 7, l.FileClasses)
		for k, x := range nn.StateDictOf(m) {
			require.True(t, x.Equal(nn.StateDictOf(whole)[k]), k)
		}
	}
	require.Equal(t, before, state(), "nothing is drawn")

	torch.ManualSeed(5)
	m, l, err := backbone.NewFromFile("small_cnn", path, 3, nn.DType(torch.Float64))
	require.NoError(t, err)
	require.True(t, l.HeadSkipped)
	require.Equal(t, "30 loaded, 25 converted from float32 to float64; its classifier for 7 classes was left out", l.String())
	require.Equal(t, []int{3, 128}, m.Head().Weight.Shape())
	require.Equal(t, torch.Float64, m.Head().Weight.DType())
	torch.ManualSeed(5)
	require.True(t, m.Head().Weight.Equal(nn.NewLinear(128, 3, nn.DType(torch.Float64)).Weight))
}

// The head is left out knowingly; every other difference is an error that names keys, and changes nothing.
func TestLoadErrors(t *testing.T) {
	m, err := backbone.New("resnet18", 4)
	require.NoError(t, err)
	fresh := func() nn.StateDict { return nn.StateDictOf(m).Clone() }
	before := fresh()
	for want, change := range map[string]func(sd nn.StateDict){
		"missing  fc.weight":         func(sd nn.StateDict) { delete(sd, "fc.weight") },
		"missing  layer1.0.bn1.bias": func(sd nn.StateDict) { delete(sd, "layer1.0.bn1.bias") },
		"unexpected  layer5.weight":  func(sd nn.StateDict) { sd["layer5.weight"] = sd["fc.bias"] },
		"fc.weight  module [4 512]":  func(sd nn.StateDict) { sd["fc.weight"] = torch.Zeros(torch.S(9, 100)) },
		"fc.weight  module [4 512]  state dict [9 100]": func(sd nn.StateDict) {
			sd["fc.weight"], sd["fc.bias"] = torch.Zeros(torch.S(9, 100)), torch.Zeros(torch.S(9))
		},
		"fc.bias  module [4]":           func(sd nn.StateDict) { sd["fc.bias"] = torch.Zeros(torch.S(9)) },
		"layer4.1.conv2.weight  module": func(sd nn.StateDict) { sd["layer4.1.conv2.weight"] = sd["fc.bias"] },
	} {
		sd := fresh()
		for _, x := range sd {
			if x.DType().IsFloat() {
				x.AddScalar_(1)
			}
		}
		change(sd)
		_, err := backbone.Load(m, sd)
		var le *nn.LoadError
		require.ErrorAs(t, err, &le, want)
		require.Contains(t, err.Error(), want)
		for k, x := range nn.StateDictOf(m) {
			require.True(t, x.Equal(before[k]), "%s was changed", k)
		}
	}

	sd := fresh()
	sd["fc.weight"], sd["fc.bias"] = torch.Zeros(torch.S(9, 512)), torch.Zeros(torch.S(9))
	sd["conv1.weight"].AddScalar_(1)
	delete(sd, "bn1.num_batches_tracked")
	l, err := backbone.Load(m, sd)
	require.NoError(t, err)
	require.True(t, l.HeadSkipped)
	require.Equal(t, "119 loaded, 1 counters absent and kept; its classifier for 9 classes was left out", l.String())
	require.True(t, m.Head().Weight.Equal(before["fc.weight"]))
	require.False(t, m.(*backbone.ResNet).Conv1.Weight.Equal(before["conv1.weight"]))

	dir := t.TempDir()
	_, err = backbone.LoadWeights(m, filepath.Join(dir, "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, _, err = backbone.NewFromFile("resnet18", filepath.Join(dir, "absent"), 0)
	require.ErrorIs(t, err, os.ErrNotExist)
	path := filepath.Join(dir, "small.safetensors")
	small, err := backbone.New("small_cnn", 2)
	require.NoError(t, err)
	require.NoError(t, nn.SaveSafetensors(path, nn.StateDictOf(small), nil))
	_, _, err = backbone.NewFromFile("resnet18", path, 0)
	require.ErrorContains(t, err, path+" as resnet18: nn: the state dict does not fit the module: 100 missing")
	_, _, err = backbone.NewFromFile("resnet19", path, 0)
	require.ErrorContains(t, err, `no model is called "resnet19"; there are convnext_base, `)
}
