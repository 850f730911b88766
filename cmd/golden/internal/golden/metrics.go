package golden

import (
	"sort"
	"strconv"
	"strings"

	"github.com/gospml/gospml/spml/metric"
)

func init() {
	for name, s := range map[string]section{
		"ap":                   {inputs: []string{"name", "y", "score"}, run: metricAP},
		"matrix":               {inputs: []string{"name", "y", "score"}, run: metricMatrix},
		"pseudo_label_quality": {inputs: []string{"name", "y", "pseudo", "observed"}, run: metricPseudo},
		"wasserstein": {inputs: []string{"name", "a", "b"}, run: func(n node, _ Options) (map[string]any, error) {
			w, err := metric.Wasserstein(n.get("a").numbers(), n.get("b").numbers())
			return map[string]any{"w1": w}, err
		}},
	} {
		modelSections["metrics."+name], modelSections[name] = s, s // within a larger file, or a file of metrics alone
	}
	modelSections["confidence"] = section{inputs: []string{"p", "y", "observed", "bins"}, run: metricConfidence}
}

// numbers reads a list.
func (n node) numbers() (out []float64) {
	for _, e := range n.list() {
		out = append(out, e.number())
	}
	return out
}

// matrix reads a list of rows and says how long they are.
func (n node) matrix() (flat []float64, width int) {
	for i, row := range n.list() {
		r := row.numbers()
		if i > 0 && len(r) != width {
			n.fail("rows of unequal length")
		}
		width = len(r)
		flat = append(flat, r...)
	}
	return flat, width
}

func toLabels(values []float64) []int8 {
	out := make([]int8, len(values))
	for i, v := range values {
		out[i] = int8(v)
	}
	return out
}

func metricAP(n node, _ Options) (map[string]any, error) {
	s, y := n.get("score").numbers(), toLabels(n.get("y").numbers())
	step, err := metric.AveragePrecision(s, y, 1, metric.Step)
	if err != nil {
		return nil, err
	}
	rank, err := metric.AveragePrecision(s, y, 1, metric.Rank)
	if err != nil {
		return nil, err
	}
	return map[string]any{"ap": step[0], "ap_rank_variant": rank[0]}, nil
}

func metricMatrix(n node, _ Options) (map[string]any, error) {
	s, c := n.get("score").matrix()
	flat, _ := n.get("y").matrix()
	y := toLabels(flat)
	ap, err := metric.AveragePrecision(s, y, c, metric.Step)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"ap_per_class": ap, "map_percent": 100 * metric.Mean(ap)}
	var f1 []any
	if n.has("f1") {
		for _, f := range n.get("f1").list() {
			at := f.get("threshold").number()
			counts, err := metric.CountAt(s, y, c, at)
			if err != nil {
				return nil, err
			}
			micro, macro := metric.Micro(counts), metric.Macro(counts)
			f1 = append(f1, map[string]any{"threshold": at, "micro_f1": micro.F1, "macro_f1": macro.F1, "cp": macro.Precision, "cr": macro.Recall,
				"cf1": macro.F1, "op": micro.Precision, "or": micro.Recall, "of1": micro.F1})
		}
		out["f1"] = f1
	}
	for name := range n.object() {
		digits, ok := strings.CutPrefix(name, "at_")
		if !ok {
			continue
		}
		k, err := strconv.Atoi(digits)
		if err != nil {
			return nil, err
		}
		r, err := metric.Rankings(s, y, c, k)
		if err != nil {
			return nil, err
		}
		out[name] = map[string]any{"precision": r.At[0].Precision, "recall": r.At[0].Recall, "top": r.At[0].Top}
	}
	return out, nil
}

func metricPseudo(n node, _ Options) (map[string]any, error) {
	read := func(name string) []int8 { flat, _ := n.get(name).matrix(); return toLabels(flat) }
	var q metric.PseudoQuality
	if err := q.Add(read("y"), read("pseudo"), read("observed")); err != nil {
		return nil, err
	}
	return map[string]any{"precision": 100 * q.Precision(), "recall": 100 * q.Recall(), "f1_correct": 100 * q.F1(), "f1_as_printed_by_reference": 50 * q.F1()}, nil
}

func metricConfidence(n node, _ Options) (map[string]any, error) {
	s, err := metric.Separate(n.get("p").numbers(), toLabels(n.get("y").numbers()), toLabels(n.get("observed").numbers()), n.get("bins").whole())
	if err != nil {
		return nil, err
	}
	return map[string]any{"positive_counts": s.Positives, "negative_counts": s.Negatives, "false_negative_ratio": s.FalseNegativeRatio(), "w1": s.W1}, nil
}

// parts makes a case of each entry of an object that known accepts.
func parts(known func(name string, v node) (node, bool)) func(node) []node {
	return func(n node) (cases []node) {
		m := n.object()
		names := keys(m)
		sort.Strings(names)
		for _, name := range names {
			if c, ok := known(name, node{n.at + "/" + name, m[name]}); ok {
				cases = append(cases, c)
			}
		}
		return cases
	}
}

// wrapped is a value as an object, with what it is computed from.
func wrapped(v node, as map[string]any) node { return node{v.at, as} }
