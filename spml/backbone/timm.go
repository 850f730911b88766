package backbone

import (
	"fmt"
	"strings"

	"github.com/gospml/gospml/torch/nn"
)

// timmNames are timm's names of the models where they differ from ours.
var timmNames = map[string]string{
	"mobilenet_v2":      "mobilenetv2_100",
	"vit_small_patch16": "vit_small_patch16_224",
	"vit_base_patch16":  "vit_base_patch16_224",
	"vit_base_patch32":  "vit_base_patch32_224",
	"vit_large_patch16": "vit_large_patch16_224",

	"vit_small_patch14_dinov2": "vit_small_patch14_dinov2", "vit_base_patch14_dinov2": "vit_base_patch14_dinov2",
	"vit_large_patch14_dinov2": "vit_large_patch14_dinov2", "vit_base_patch16_siglip": "vit_base_patch16_siglip_224",
	"vit_large_patch16_siglip":  "vit_large_patch16_siglip_256",
	"vit_so400m_patch14_siglip": "vit_so400m_patch14_siglip_224",
}

// TimmName is timm's name of a model; ok is false where timm has no model with the same layers.
func TimmName(name string) (timm string, ok bool) {
	if t, ok := timmNames[name]; ok {
		return t, true
	}
	registering.RLock()
	_, known := makers[name]
	registering.RUnlock()
	return name, known && (strings.HasPrefix(name, "resnet") || strings.HasPrefix(name, "convnext_"))
}

// OfTimm is our name of a model of timm's; other names are given back as they are.
func OfTimm(timm string) string {
	for name, t := range timmNames {
		if t == timm {
			return name
		}
	}
	return timm
}

// TimmState gives the tensors of a model the keys that timm has for them. The tensors are shared.
func TimmState(name string, sd nn.StateDict) (nn.StateDict, error) {
	if _, ok := TimmName(name); !ok {
		return nil, fmt.Errorf("backbone: timm has no model with the layers of %s", name)
	}
	if name != "mobilenet_v2" {
		return sd, nil
	}
	return renamed(sd, mobileNetModules)
}

// mobileNetModules are pairs of torchvision's and timm's names of MobileNetV2's modules.
var mobileNetModules = func() map[string]string {
	m := map[string]string{
		"features.0.0": "conv_stem", "features.0.1": "bn1",
		"features.1.conv.0.0": "blocks.0.0.conv_dw", "features.1.conv.0.1": "blocks.0.0.bn1",
		"features.1.conv.1": "blocks.0.0.conv_pw", "features.1.conv.2": "blocks.0.0.bn2",
		"features.18.0": "conv_head", "features.18.1": "bn2",
		"classifier.1": "classifier",
	}
	at := 2
	for stage, blocks := range []int{2, 3, 4, 3, 3, 1} {
		for b := range blocks {
			for ours, timm := range map[string]string{"0.0": "conv_pw", "0.1": "bn1", "1.0": "conv_dw", "1.1": "bn2", "2": "conv_pwl", "3": "bn3"} {
				m[fmt.Sprintf("features.%d.conv.%s", at, ours)] = fmt.Sprintf("blocks.%d.%d.%s", stage+1, b, timm)
			}
			at++
		}
	}
	return m
}()

// renamed renames modules; each tensor must belong to one of them.
func renamed(sd nn.StateDict, modules map[string]string) (nn.StateDict, error) {
	out := nn.StateDict{}
	for k, t := range sd {
		i := strings.LastIndexByte(k, '.')
		to, ok := modules[k[:max(i, 0)]]
		if !ok {
			return nil, fmt.Errorf("backbone: no other name is known for the tensor %s", k)
		}
		out[to+k[i:]] = t
	}
	return out, nil
}

// mobileNetOfTimm gives timm's keys torchvision's names; other keys stay.
func mobileNetOfTimm(sd nn.StateDict) nn.StateDict {
	if sd["conv_stem.weight"] == nil {
		return sd
	}
	back := map[string]string{}
	for ours, timm := range mobileNetModules {
		back[timm] = ours
	}
	if out, err := renamed(sd, back); err == nil {
		return out
	}
	return sd // some key is not timm's: what does not fit is said where the tensors are compared
}
