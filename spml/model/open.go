package model

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Model is a network with its configuration.
type Model struct {
	Config Config
	Net    backbone.Model
}

// Open reads the model of a run directory (or a model folder itself) on the CPU, in evaluation mode. A folder of an
// int8 model, whose weights as floats are not what predicts, is an error; OpenTagger reads it.
func Open(dir string) (*Model, error) {
	dir = Dir(dir)
	mc, err := readConfig(dir)
	if err == nil {
		err = mc.floats(dir)
	}
	if err != nil {
		return nil, err
	}
	return open(dir, mc)
}

// open is Open of a folder with this configuration.
func open(dir string, mc Config) (_ *Model, err error) {
	if mc.FeaturesOnly {
		return nil, fmt.Errorf("%w: %s was trained on stored features without a backbone, so it cannot read photos; train with --weights FILE", ErrData, dir)
	}
	path := filepath.Join(dir, WeightsFile)
	var m backbone.Model
	e := torch.Try(func() {
		if mc.Architecture == BackboneClip {
			if m, err = openClipModel(mc); err == nil {
				err = loadInto(m, path)
			}
			return
		}
		if mc.Head == "" || mc.Head == HeadLinear {
			m, _, err = backbone.NewFromFile(backbone.OfTimm(mc.Architecture), path, mc.NumClasses)
			return
		}
		var body backbone.Model
		if body, err = backbone.New(mc.Architecture, mc.NumClasses, nn.NoInit()); err != nil {
			return
		}
		if m, err = WithHead(body, mc.HeadSpec, mc.NumClasses, nil); err != nil {
			return
		}
		err = loadInto(m, path)
	})
	if err = errors.Join(err, e); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	nn.SetTraining(m, false)
	return &Model{mc, m}, nil
}

// Blank makes the network that a configuration of a CLIP model describes, without its weights.
func Blank(mc Config) (backbone.Model, error) { return openClipModel(mc) }

// loadInto reads a model's tensors.
func loadInto(m backbone.Model, path string) error {
	sd, _, err := nn.LoadSafetensors(path)
	if err != nil {
		return err
	}
	defer sd.Free()
	Fit(m, sd)
	_, err = nn.LoadStateDict(m, sd, true)
	return err
}

// bodyOf are the tensors of a network's backbone under its own names.
func bodyOf(m backbone.Model, sd nn.StateDict) nn.StateDict {
	body := nn.StateDict{}
	for k, t := range sd {
		if rest, ok := strings.CutPrefix(k, "body."); ok && Base(m) != m {
			body[rest] = t
		}
	}
	if len(body) == 0 {
		return sd
	}
	return body
}

// Fit makes a network ready for tensors of its own that were saved: a ViT's position table gets their size.
func Fit(m backbone.Model, sd nn.StateDict) { backbone.Fit(Base(m), bodyOf(m, sd)) }

// StartFrom copies what fits of a saved model into m, and says what did not.
func StartFrom(m backbone.Model, dir string) (string, error) {
	dir = Dir(dir)
	sd, _, err := nn.LoadSafetensors(filepath.Join(dir, WeightsFile))
	if err != nil {
		return "", err
	}
	defer sd.Free()
	if w := sd["weight"]; w != nil && m.HeadKey() != "" { // a head on features
		sd = nn.StateDict{m.HeadKey() + ".weight": w, m.HeadKey() + ".bias": sd["bias"]}
	}
	var fresh, unused []string
	Fit(m, sd)
	own := nn.StateDictOf(m)
	err = torch.Try(func() {
		torch.NoGrad(func() {
			for _, k := range own.Keys() {
				from := sd[k]
				if from == nil || !slices.Equal(from.Shape(), own[k].Shape()) {
					fresh = append(fresh, k)
					continue
				}
				own[k].Detach().Copy_(from)
			}
		})
	})
	for _, k := range sd.Keys() {
		if own[k] == nil {
			unused = append(unused, k)
		}
	}
	if err == nil && len(fresh) == len(own) {
		err = errors.New("none of its tensors fits this model")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", dir, err)
	}
	taken := len(own) - len(fresh)
	return fmt.Sprintf("%s: %d tensors taken, %d fresh, %d not used", dir, taken, len(fresh), len(unused)), nil
}
