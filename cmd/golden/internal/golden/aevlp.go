package golden

import (
	"image"
	"maps"
	"math"

	"github.com/gospml/gospml/spml/dualcoop"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/torch"
)

func init() {
	modelSections["gcn"] = section{
		inputs: []string{"similarity", "u", "e", "tau_prime", "H0", "weights"},
		cases: func(n node) []node {
			cases := inherit("cases", "similarity")(n)
			if n.has("forward") { // over the first case's graph
				forward := maps.Clone(n.get("forward").object())
				first := cases[0]
				for _, name := range []string{"similarity", "u", "e", "tau_prime"} {
					forward[name] = first.get(name).v
				}
				cases = append(cases, node{n.at + "/forward", forward})
			}
			return cases
		},
		run: modelGraph,
	}
	damp := inherit("cases", "global", "local")
	modelSections["damp"] = section{
		inputs: []string{"global", "local", "positive", "nu", "zeta_global", "k", "delta_neg", "wh", "grid", "u_w", "u_h"},
		cases: func(n node) (cases []node) {
			if n.has("cases") {
				cases = damp(n)
			}
			if n.has("tiles") {
				for _, t := range n.get("tiles").list() {
					cases = append(cases, inherit("variants", "wh", "grid")(t)...)
				}
			}
			return cases
		},
		run: modelDAMP,
	}
	modelSections["backbones.dualcoop_aggregation"] = section{inputs: []string{"image", "text"}, run: func(n node, o Options) (map[string]any, error) {
		x, err := described(n.get("image"), o.compute())
		if err != nil {
			return nil, err
		}
		w, err := described(n.get("text"), o.compute())
		if err != nil {
			return nil, err
		}
		logits, p, err := dualcoop.Aggregate(x, w)
		return map[string]any{"logits_neg_pos": logits, "prob_positive": p}, err
	}}
	pseudoSections["gcn"] = pseudoGraph
	pseudoSinglePrecision = append(pseudoSinglePrecision, "/A_bar", "/A_star")
	pseudoInputs = append(pseudoInputs, "config", "similarity", "H0", "weights", "float16_as_released")
}

func graphOf(n, numbers node, dtype torch.DType) (*label.Graph, error) {
	return label.NewGraph(n.get("similarity").tensor(dtype), label.GraphConfig{
		TopU: numbers.get("u").whole(), Weight: numbers.get("e").number(), Tau: numbers.get("tau_prime").number(),
	})
}

// graphNoise is the network with the files' weights.
func graphNoise(name func(layer string) string, dtype torch.DType, k, hidden int, paper bool) *label.GraphNoise {
	g := &label.GraphNoise{Paper: paper}
	for i, d := range [3][2]int{{k, hidden}, {hidden, hidden}, {hidden, k}} {
		layer := []string{"gc1", "gc2", "gc3"}[i]
		g.Weights[i] = det(name(layer), dtype, 2, d[0], d[1]).DivScalar(math.Sqrt(float64(d[1])))
	}
	return g
}

func modelGraph(n node, o Options) (map[string]any, error) {
	g, err := graphOf(n, n, o.compute())
	if err != nil {
		return nil, err
	}
	if !n.has("H0") {
		return map[string]any{"A_prime": g.Sparse, "A_bar_used_by_code": g.Bar, "A_star_of_paper": g.Star}, nil
	}
	weight := func(layer string) string { return layer + ".weight" }
	h := det("input:gcn", o.compute(), 8, 5, 4)
	code, _, err := graphNoise(weight, o.compute(), 4, 8, false).Noise(g.Bar, h)
	if err != nil {
		return nil, err
	}
	paper, _, err := graphNoise(weight, o.compute(), 4, 8, true).Noise(g.Star, h)
	return map[string]any{"code_variant_noise": code, "paper_variant_noise": paper, "code_variant_text": h.Add(code)}, err
}

// pseudoGraph computes the graph in float32, as the released code does, and the noise in float64 over it.
func pseudoGraph(n node, _ torch.DType) (map[string]any, error) {
	c := n.get("config")
	g, err := graphOf(n, c, torch.Float32)
	if err != nil {
		return nil, err
	}
	prefix := "gcn:" + n.text("name", "") + ":"
	h := det("input:"+prefix+"H0", torch.Float64, 8, c.get("C").whole(), c.get("K").whole())
	noise, text, err := graphNoise(func(layer string) string { return prefix + layer }, torch.Float64, c.get("K").whole(), c.get("H").whole(), false).Noise(g.Bar.ToDType(torch.Float64), h)
	return map[string]any{
		"A_bar": g.Bar, "A_star": g.Star, "float64": map[string]any{"noise": noise, "text_features": text},
	}, err
}

func modelDAMP(n node, o Options) (map[string]any, error) {
	if n.has("wh") {
		wh := n.get("wh").wholes()
		g := n.get("grid").whole()
		return map[string]any{"tile_wh": []int{wh[0] / g, wh[1] / g}, "boxes_ltrb": boxes(label.Tiles(wh[0], wh[1], g, func(int) (float64, float64) {
			return n.get("u_w").number(), n.get("u_h").number()
		}))}, nil
	}
	global, local := n.get("global").tensor(o.compute()).Unsqueeze(0), n.get("local").tensor(o.compute()).Unsqueeze(1)
	class := n.get("positive")
	positive := observedRows(node{class.at, []any{class.v}}, global.Size(1))
	out := map[string]any{}
	for name, form := range map[string]label.DAMPForm{"paper": label.DAMPPaper, "code": label.DAMPCode, "recommended": label.DAMPDefault} {
		// The files hold probabilities: the softmax of their logarithms gives them back.
		r, err := label.DAMP(global.Log(), local.Log(), positive, label.DAMPConfig{
			Tau: 1, Nu: n.get("nu").number(), TopK: n.get("k").whole(), Zeta: n.get("zeta_global").number(), Negative: n.get("delta_neg").number(), Form: form,
		})
		if err != nil {
			return nil, err
		}
		out[name] = map[string]any{
			"zeta_local": r.Local.Item(), "agg": r.Agg.Select(0, 0), "final": r.Final.Select(0, 0), "avg": r.Average.Select(0, 0), "labels": r.Pseudo.Select(0, 0),
		}
	}
	return out, nil
}

func boxes(r []image.Rectangle) (ltrb []any) {
	for _, b := range r {
		ltrb = append(ltrb, plain([]int{b.Min.X, b.Min.Y, b.Max.X, b.Max.Y}))
	}
	return ltrb
}
