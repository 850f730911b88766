package backbone

import (
	"regexp"
	"strings"

	"github.com/gospml/gospml/torch/nn"
)

// rewrite is a rule for keys.
type rewrite struct {
	from *regexp.Regexp
	to   string
}

func rules(pairs ...string) []rewrite {
	var r []rewrite
	for i := 0; i < len(pairs); i += 2 {
		r = append(r, rewrite{regexp.MustCompile("^" + pairs[i] + "$"), pairs[i+1]})
	}
	return r
}

// Keys of torchvision and of the original release as timm has them.
var (
	convNeXtOfTorchvision = rules(
		`features\.0\.([01])\.(.*)`, `stem.$1.$2`,
		`features\.(\d)\.(\d+)\.layer_scale`, `stages.<$1>.blocks.$2.gamma`,
		`features\.(\d)\.(\d+)\.block\.0\.(.*)`, `stages.<$1>.blocks.$2.conv_dw.$3`,
		`features\.(\d)\.(\d+)\.block\.2\.(.*)`, `stages.<$1>.blocks.$2.norm.$3`,
		`features\.(\d)\.(\d+)\.block\.3\.(.*)`, `stages.<$1>.blocks.$2.mlp.fc1.$3`,
		`features\.(\d)\.(\d+)\.block\.5\.(.*)`, `stages.<$1>.blocks.$2.mlp.fc2.$3`,
		`features\.(\d)\.([01])\.(weight|bias)`, `stages.<$1>.downsample.$2.$3`,
		`classifier\.0\.(.*)`, `head.norm.$1`,
		`classifier\.2\.(.*)`, `head.fc.$1`,
	)
	convNeXtOfRelease = rules(
		`downsample_layers\.0\.(.*)`, `stem.$1`,
		`downsample_layers\.(\d)\.(.*)`, `stages.$1.downsample.$2`,
		`stages\.(\d)\.(\d+)\.dwconv\.(.*)`, `stages.$1.blocks.$2.conv_dw.$3`,
		`stages\.(\d)\.(\d+)\.pwconv1\.(.*)`, `stages.$1.blocks.$2.mlp.fc1.$3`,
		`stages\.(\d)\.(\d+)\.pwconv2\.(.*)`, `stages.$1.blocks.$2.mlp.fc2.$3`,
		`stages\.(\d)\.(\d+)\.(norm\..*|gamma)`, `stages.$1.blocks.$2.$3`,
		`norm\.(.*)`, `head.norm.$1`,
		`head\.(weight|bias)`, `head.fc.$1`,
	)
	viTOfTorchvision = rules(
		`class_token`, `cls_token`,
		`conv_proj\.(.*)`, `patch_embed.proj.$1`,
		`encoder\.pos_embedding`, `pos_embed`,
		`encoder\.layers\.encoder_layer_(\d+)\.ln_([12])\.(.*)`, `blocks.$1.norm$2.$3`,
		`encoder\.layers\.encoder_layer_(\d+)\.self_attention\.in_proj_(weight|bias)`, `blocks.$1.attn.qkv.$2`,
		`encoder\.layers\.encoder_layer_(\d+)\.self_attention\.out_proj\.(.*)`, `blocks.$1.attn.proj.$2`,
		`encoder\.layers\.encoder_layer_(\d+)\.mlp\.(?:0|linear_1)\.(.*)`, `blocks.$1.mlp.fc1.$2`,
		`encoder\.layers\.encoder_layer_(\d+)\.mlp\.(?:3|linear_2)\.(.*)`, `blocks.$1.mlp.fc2.$2`,
		`encoder\.ln\.(.*)`, `norm.$1`,
		`heads\.head\.(.*)`, `head.$1`,
	)
)

// torchvision counts stages and the steps between them in one list: 1, 3, 5, 7 are stages, 2, 4, 6 the steps before the next.
var stageNumber = strings.NewReplacer("<1>", "0", "<2>", "1", "<3>", "1", "<4>", "2", "<5>", "2", "<6>", "3", "<7>", "3")

// adapt gives a file's keys, and shapes where they differ, the form of the model's.
func adapt(m Model, sd nn.StateDict) nn.StateDict {
	var all [][]rewrite
	switch m := m.(type) {
	case *ConvNeXt:
		all = [][]rewrite{convNeXtOfTorchvision, convNeXtOfRelease}
	case *ViT:
		if m.bare {
			return bareViT(m, sd)
		}
		all = [][]rewrite{viTOfTorchvision}
	case *MobileNetV2:
		return mobileNetOfTimm(sd)
	case *SqueezeNet:
		if w := sd["classifier.1.weight"]; w != nil && w.Dim() == 4 { // torchvision's convolution; see SqueezeNet
			out := nn.StateDict{}
			for k, t := range sd {
				if !strings.HasPrefix(k, "classifier.") {
					out[k] = t
				}
			}
			return out
		}
		return sd
	default:
		return sd
	}
	own := nn.StateDictOf(m)
	for _, set := range all {
		out := nn.StateDict{}
		changed := false
		for k, t := range sd {
			name := k
			for _, r := range set {
				if r.from.MatchString(k) {
					name = stageNumber.Replace(r.from.ReplaceAllString(k, r.to))
					break
				}
			}
			if x := own[name]; x != nil && t.Dim() != x.Dim() && t.Numel() == x.Numel() { // layer_scale [c, 1, 1]
				t = t.Reshape(x.Shape()...)
			}
			changed = changed || name != k
			out[name] = t
		}
		if _, ok := out[m.HeadKey()+".weight"]; ok && changed {
			return out
		}
	}
	return sd
}
