package golden

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gospml/gospml/internal/goldenfill"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// network is a backbone with the names that its library has for the tensors.
type network struct {
	backbone.Model
	origin string // torchvision or timm
}

// vits are the transformers by the names of timm and torchvision.
var vits = map[string]backbone.ViTConfig{}

func init() {
	for size, v := range map[string]backbone.ViTConfig{
		"tiny": {Dim: 192, Depth: 12, NumHeads: 3}, "small": {Dim: 384, Depth: 12, NumHeads: 6}, "base": {Dim: 768, Depth: 12, NumHeads: 12},
		"large": {Dim: 1024, Depth: 24, NumHeads: 16}, "huge": {Dim: 1280, Depth: 32, NumHeads: 16},
	} {
		for _, patch := range []int{8, 14, 16, 32} {
			v.PatchSize = patch
			vits[fmt.Sprintf("timm/vit_%s_patch%d", size, patch)] = v
			vits[fmt.Sprintf("torchvision/vit_%c_%d", size[0], patch)] = v
		}
	}
}

// moreResNets are those of torchvision that package backbone makes but does not name.
var moreResNets = map[string][4]int{"resnet152": {3, 8, 36, 3}}

// known says whether a model can be made.
func known(full string) bool {
	library, name, _ := strings.Cut(full, "/")
	if library != "torchvision" && library != "timm" {
		return false
	}
	_, vit := vits[full]
	_, more := moreResNets[name]
	return vit || more || name != "small_cnn" && !strings.HasPrefix(name, "vit_") && slices.Contains(backbone.Names(), name)
}

// newNetwork makes library/name without drawing weights; image is the side for a position table.
func newNetwork(full string, classes, image int) (*network, error) {
	library, name, _ := strings.Cut(full, "/")
	if !known(full) {
		return nil, fmt.Errorf("no model is called %q here; there are torchvision's and timm's %s, resnet152, timm/vit_<tiny to huge>_patch<n> and torchvision/vit_<t to h>_<n>",
			full, strings.Join(slices.DeleteFunc(backbone.Names(), func(n string) bool { return n == "small_cnn" || strings.HasPrefix(n, "vit_") }), ", "))
	}
	if classes < 1 {
		return nil, fmt.Errorf("%s: %d classes", full, classes)
	}
	if c, ok := vits[full]; ok {
		c.ImageSize = image
		if image < c.PatchSize {
			return nil, fmt.Errorf("%s: images of %d pixels are smaller than a patch", full, image)
		}
		return &network{backbone.NewViT(c, classes, nn.NoInit()), library}, nil
	}
	if depths, ok := moreResNets[name]; ok {
		return &network{backbone.NewResNet(backbone.Bottlenecks, depths, classes, nn.NoInit()), library}, nil
	}
	m, err := backbone.New(name, classes, nn.NoInit())
	return &network{m, library}, err
}

var torchvisionNames = map[string][][2]string{
	"convnext": {
		{`^stem\.`, "features.0."}, {`^head\.norm\.`, "classifier.0."}, {`^head\.fc\.`, "classifier.2."}, {`^stages\.(\d+)\.downsample\.`, "features.<2*$1>."},
		{`^stages\.(\d+)\.blocks\.(\d+)\.gamma$`, "features.<2*$1+1>.$2.layer_scale"}, {`^stages\.(\d+)\.blocks\.(\d+)\.conv_dw\.`, "features.<2*$1+1>.$2.block.0."},
		{`^stages\.(\d+)\.blocks\.(\d+)\.norm\.`, "features.<2*$1+1>.$2.block.2."}, {`^stages\.(\d+)\.blocks\.(\d+)\.mlp\.fc1\.`, "features.<2*$1+1>.$2.block.3."},
		{`^stages\.(\d+)\.blocks\.(\d+)\.mlp\.fc2\.`, "features.<2*$1+1>.$2.block.5."},
	},
	"vit": {
		{`^cls_token$`, "class_token"}, {`^patch_embed\.proj\.`, "conv_proj."}, {`^pos_embed$`, "encoder.pos_embedding"}, {`^norm\.`, "encoder.ln."}, {`^head\.`, "heads.head."},
		{`^blocks\.(\d+)\.norm([12])\.`, "encoder.layers.encoder_layer_$1.ln_$2."}, {`^blocks\.(\d+)\.attn\.qkv\.`, "encoder.layers.encoder_layer_$1.self_attention.in_proj_"},
		{`^blocks\.(\d+)\.attn\.proj\.`, "encoder.layers.encoder_layer_$1.self_attention.out_proj."}, {`^blocks\.(\d+)\.mlp\.fc1\.`, "encoder.layers.encoder_layer_$1.mlp.0."},
		{`^blocks\.(\d+)\.mlp\.fc2\.`, "encoder.layers.encoder_layer_$1.mlp.3."},
	},
}

var stageOfTorchvision = regexp.MustCompile(`<2\*(\d+)(\+1)?>`)

// names maps the model's keys to the library's.
func (m *network) names() map[string]string {
	var rules [][2]string
	if m.origin == "torchvision" {
		switch m.Model.(type) {
		case *backbone.ConvNeXt:
			rules = torchvisionNames["convnext"]
		case *backbone.ViT:
			rules = torchvisionNames["vit"]
		}
	}
	compiled := make([]*regexp.Regexp, len(rules))
	for i, r := range rules {
		compiled[i] = regexp.MustCompile(r[0])
	}
	out := map[string]string{}
	for k := range nn.StateDictOf(m.Model) {
		out[k] = k
		for i, r := range rules {
			if !compiled[i].MatchString(k) {
				continue
			}
			out[k] = stageOfTorchvision.ReplaceAllStringFunc(compiled[i].ReplaceAllString(k, strings.NewReplacer("$1", "${1}", "$2", "${2}").Replace(r[1])), func(s string) string {
				p := stageOfTorchvision.FindStringSubmatch(s)
				stage, _ := strconv.Atoi(p[1])
				return strconv.Itoa(2*stage + len(p[2])/2)
			})
			break
		}
	}
	return out
}

// entry is a tensor of a library's state dict.
type entry struct {
	Shape []int
	DType torch.DType
}

// entries are the library's state dict without values.
func (m *network) entries() map[string]entry {
	sd, out := nn.StateDictOf(m.Model), map[string]entry{}
	for k, name := range m.names() {
		e := entry{sd[k].Shape(), sd[k].DType()}
		switch {
		case strings.HasSuffix(name, ".layer_scale"):
			e.Shape = append(e.Shape, 1, 1)
		case name == "classifier.1.weight" && m.squeezed(): // torchvision's is a convolution
			e.Shape = append(e.Shape, 1, 1)
		}
		out[name] = e
	}
	return out
}

func (m *network) squeezed() bool { _, ok := m.Model.(*backbone.SqueezeNet); return ok }

// fillRule are the ranges of a file's deterministic weights.
type fillRule struct{ gainOffset, gainScale, rest, numerator float64 }

var fillText = regexp.MustCompile(`(?s)^offset ([0-9.]+), scale ([0-9.]+) for one-dimensional norm gains and running_var; .* scale ([0-9.]+);\s+every weight with two or more dimensions scale sqrt\(([0-9.]+)/fan_in\)`)

// readFill reads the rule from a file's words; without any it is that of golden_backbones.json.
func readFill(top map[string]any) (fillRule, error) {
	r := fillRule{1, 1, 0.5, 24}
	v, ok := top["fill"]
	if !ok {
		return r, nil
	}
	text, _ := v.(string)
	p := fillText.FindStringSubmatch(text)
	if p == nil {
		return r, fmt.Errorf("fill: want a text like %q, got %q", "offset 1, scale 1 for one-dimensional norm gains and running_var; biases … scale 0.5; every weight with two or more dimensions scale sqrt(24/fan_in)", text)
	}
	for i, to := range []*float64{&r.gainOffset, &r.gainScale, &r.rest, &r.numerator} {
		x, err := strconv.ParseFloat(p[i+1], 64)
		if err != nil {
			return r, fmt.Errorf("fill: %w", err)
		}
		*to = x
	}
	return r, nil
}

func (r fillRule) of(name string, shape []int) (offset, scale float64) {
	switch {
	case strings.HasSuffix(name, "running_var"), len(shape) == 1 && strings.HasSuffix(name, ".weight"):
		return r.gainOffset, r.gainScale
	case len(shape) > 1 && strings.HasSuffix(name, "weight"):
		fan := 1
		for _, n := range shape[1:] {
			fan *= n
		}
		return 0, math.Sqrt(r.numerator / float64(fan))
	}
	return 0, r.rest
}

// load fills the library's state dict and loads it, as its file would be.
func (m *network) load(r fillRule) error {
	sd := nn.StateDict{}
	for name, e := range m.entries() {
		if !e.DType.IsFloat() {
			sd[name] = torch.Zeros(e.Shape, e.DType)
			continue
		}
		offset, scale := r.of(name, e.Shape)
		n := 1
		for _, d := range e.Shape {
			n *= d
		}
		sd[name] = torch.FromSlice(goldenfill.Values(name, n, offset, scale), e.Shape...).ToDType(torch.Float32)
	}
	l, err := backbone.Load(m.Model, sd)
	if err != nil {
		return err
	}
	if l.HeadSkipped != m.squeezed() {
		return fmt.Errorf("the classifier was left out: %v", l)
	}
	if m.squeezed() { // the convolution's weights are those of a linear layer at each position
		torch.NoGrad(func() {
			h := m.Head()
			h.Weight.Copy_(sd["classifier.1.weight"].Flatten(1, -1))
			h.Bias.Copy_(sd["classifier.1.bias"])
		})
	}
	return nil
}

// logits are the library's: SqueezeNet's are rectified before the mean in torchvision, where ours are linear.
func (m *network) logits(x *torch.Tensor) *torch.Tensor {
	if m.squeezed() {
		return m.Head().Forward(m.FeatureMap(x).Permute(0, 2, 3, 1)).Relu().MeanDim([]int{1, 2}, false)
	}
	return m.Forward(x)
}

func init() {
	modelSections["backbones.convnext"] = section{inputs: []string{"input", "depths", "dims", "classes"}, run: modelConvNeXt}
	modelSections["backbones.resnet_*"] = section{inputs: []string{"input", "classes"}, run: modelResNet, tolerance: func(o Options, path string) Tolerance {
		if o.DType != torch.Float64 && strings.HasPrefix(path, "/pooled") {
			return Tolerance{1, 1e-4} // features are of the order of 10⁴
		}
		return modelNumbers.tolerance(o)
	}}
}

func modelConvNeXt(n node, o Options) (map[string]any, error) {
	four := func(name string) [4]int {
		l := n.get(name).wholes()
		if len(l) != 4 {
			n.fail("%s: want four stages, got %d", name, len(l))
		}
		return [4]int(l)
	}
	classes := 0
	if n.has("classes") {
		classes = n.get("classes").whole()
	} else {
		classes = n.get("params").get("head.fc.weight").wholes()[0]
	}
	x, err := described(n.get("input"), o.compute())
	if err != nil {
		return nil, err
	}
	m := backbone.NewConvNeXt(four("depths"), four("dims"), classes, nn.NoInit())
	nn.ToDType(m, o.compute())
	fillModule(m, gains(0.5))
	nn.SetTraining(m, false)
	return map[string]any{"logits": m.Forward(x), "params": parameters(m, func(string) bool { return true })}, nil
}

var resNetName = regexp.MustCompile(`resnet_(basic|bottleneck)_(\d)(\d)(\d)(\d)$`)

// modelResNet has kind of block and depths in its name.
func modelResNet(n node, o Options) (map[string]any, error) {
	p := resNetName.FindStringSubmatch(n.at)
	if p == nil {
		return nil, fmt.Errorf("%s: want a name like resnet_bottleneck_1111 or resnet_basic_2222", n.at)
	}
	kind := backbone.Bottlenecks
	if p[1] == "basic" {
		kind = backbone.BasicBlocks
	}
	var depths [4]int
	for i := range depths {
		depths[i], _ = strconv.Atoi(p[2+i])
	}
	x, err := described(n.get("input"), o.compute())
	if err != nil {
		return nil, err
	}
	m := backbone.NewResNet(kind, depths, n.get("classes").whole(), nn.NoInit())
	nn.ToDType(m, o.compute())
	fillModule(m, func(key string, shape []int) (float64, float64) {
		if strings.HasSuffix(key, "running_var") {
			return 1, 1
		}
		return gains(0.5)(key, shape)
	})
	nn.SetTraining(m, false)
	f := m.Features(x)
	return map[string]any{
		"feature_map_shape": m.FeatureMap(x).Shape(), "pooled_first8": f.Flatten(0, -1).Slice(0, 0, 8, 1), "pooled_l2": f.Square().Sum().Sqrt().Item(), "logits": m.Forward(x),
	}, nil
}
