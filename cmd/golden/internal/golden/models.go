package golden

import (
	"fmt"
	"maps"

	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/torch"
)

// modelNumbers is golden_models.json: tokenizer, resampling, CLIP, pseudo-labels, decoder, augmentation, metrics, random numbers. Each
// file of this package that knows a section adds it to modelSections.
var modelNumbers = sectioned{
	name:  "models",
	table: modelSections,
	detect: func(top map[string]any) bool {
		for _, name := range []string{"vlpl", "gcn", "damp", "apl"} { // lists in files of pseudo-labels
			if _, ok := top[name].(map[string]any); ok {
				return true
			}
		}
		for _, name := range []string{
			"tokenizer", "resize", "clip", "lac", "randaugment", "metrics", "random", "backbones", "jpeg", "confidence",
			"ap", "matrix", "pseudo_label_quality", "wasserstein",
		} {
			if _, ok := top[name]; ok {
				return true
			}
		}
		return false
	},
	tolerance: func(o Options) Tolerance { // printed with nine digits
		if o.DType == torch.Float64 {
			return Tolerance{2e-9, 2e-8}
		}
		return Tolerance{1e-5, 1e-4}
	},
}

var modelSections = map[string]section{
	"vlpl": {inputs: []string{"tau", "theta", "delta", "cosine", "observed"}, cases: inherit("cases", "cosine", "observed"), run: modelVLPL},
	"apl":  {inputs: []string{"preds", "observed", "theta", "epochs", "warmup"}, run: modelAPL},
	// Names of classes, not numbers; key names of weight files, which the loaders' tests read.
	"class_names": {ignore: true}, "clip_weight_map": {ignore: true},
}

// inherit makes the cases under a name, each with the named values of the object around them.
func inherit(list string, names ...string) func(node) []node {
	return func(n node) []node {
		cases := n.get(list).list()
		for i, c := range cases {
			m := maps.Clone(c.object())
			for _, name := range names {
				if _, own := m[name]; !own {
					m[name] = n.get(name).v
				}
			}
			cases[i].v = m
		}
		return cases
	}
}

func modelVLPL(n node, o Options) (map[string]any, error) {
	cos, observed := n.get("cosine").tensor(o.compute()), n.get("observed").tensor(o.compute())
	pseudo, p, err := label.VLPL(cos, n.get("tau").number(), n.get("theta").number(), n.num("delta", 0))
	if err != nil {
		return nil, err
	}
	final := torch.Where(observed.NeScalar(0), observed, pseudo.ToDType(observed.DType()))
	return map[string]any{"prob": p, "pseudo": pseudo, "final": final}, nil
}

func modelAPL(n node, o Options) (map[string]any, error) {
	observed := n.get("observed").tensor(o.compute())
	a, err := label.NewAPL(observed, o.compute(), label.APLConfig{
		Theta: n.get("theta").number(), Epochs: n.get("epochs").whole(), Warmup: n.get("warmup").whole(),
	})
	if err != nil {
		return nil, err
	}
	var rounds []any
	p := n.get("preds").tensor(o.compute())
	for range 2 {
		if _, err := a.Update(p); err != nil {
			return nil, fmt.Errorf("round %d: %w", len(rounds), err)
		}
		rounds = append(rounds, plain(a.Labels))
	}
	return map[string]any{"rounds": rounds}, nil
}
