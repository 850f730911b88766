package loss

import (
	"math"

	"github.com/gospml/gospml/torch"
)

// Losses that known negatives are added to, the choices of l48's base.
const (
	baseAN = iota
	baseWAN
	baseEM
	baseLS
	baseLLR
	baseLLCt
	L48LLCp // corrects labels for good
)

var l48Bases = []string{"an", "wan", "em", "an-ls", "ll-r", "ll-ct", "ll-cp"}

// Known negatives, and labels that the photos of a group share.
func init() {
	const code = "code, cvl-umass/l48-benchmarking @ 58252e9, "
	mustRegister(Entry{
		ID:         "l48",
		WholeBatch: true,
		Aliases:    []string{"known-negatives", "group-regulariser", "group-regularizer"},
		Title:      "known negatives and groups",
		Formula: "base(z, y) with a·sp + b·sp for known negatives, plus α·BCE(z, Q_g) with the running scores Q of " +
			"the photo's group; no term where it has none",
		Source: "the L48 benchmark, 2025, arXiv 2511.00252, and its code",
		Notes: "Known negatives (-1 in the observed labels) have the full negative loss in every loss of this page, in " +
			"no loss a share in what is ranked, raised or counted; asl, focal and splc have their own negative, an-ls " +
			"smooths it. Here they have a weight too, and the base's treatment of unknown labels, rank and k among them, " +
			"is the " +
			"benchmark's. Rejection and correction fall below AN on the benchmark's fine-grained data: try an first. Groups " +
			"are photos that share labels (a recording, a video, a burst): data option groups; setting group_weight adds " +
			"their " +
			"term to any loss. EM's positives and known negatives are exact whatever log_eps. Parts: flipped, " +
			"permanent_flips, and per_entry of the composed form.",
		Params: []Param{
			{Name: "base", Doc: "the loss", Source: "ours, what does best on the benchmark with groups", Choices: l48Bases},
			{Name: "ent_weight", Doc: "α of em, weight of the entropy of unknown labels",
				Source: code + "train.py: eml-alpha", Default: 0.1, Max: inf},
			{Name: "ls_coef", Doc: "ε of an-ls, half on each side", Source: code + "train.py: lsl-eps", Default: 0.1, Max: 1},
			{Name: "delta_rel", Doc: "Δ of ll-*, share of the batch added each epoch; for ll-cp in each step",
				Source: "ours, the benchmark's parser has 0.2, which is 20 % an epoch", Default: 0.002, Max: 1},
			{Name: "neg_a", Doc: "a, factor of known negatives", Source: code + "train.py: neg-prior-a", Default: 1, Max: inf},
			{Name: "neg_b", Doc: "b, weight of a further cross-entropy of known negatives",
				Source: code + "train.py: neg-prior-b", Max: inf},
			{Name: "group_weight", Doc: "α of the groups' term; 0 = none", Source: code + "train.py: asset-reg-alpha",
				Max: inf},
			{Name: "group_rate", Doc: "η, share of the new scores in Q (read by the estimator)",
				Source: code + "train.py: asset-reg-eps", Default: 0.001, Max: 1},
			{Name: "group_start", Doc: "Q of labels that no photo of the group shows; -1: drawn between 0.4 and 0.6 (read by " +
				"the estimator)", Source: "ours, a constant; the code draws", Default: 0.5, Min: -1, Max: 1},
			{Name: "group_rows", Doc: "what several photos of a group in one batch give (read by the estimator)",
				Source: "ours, a mean does not depend on their order", Choices: []string{"mean", "last"}},
		},
		Forms: map[string]Form{"code": {
			Doc: "log epsilon 1e-5; Q begins with drawn numbers, and the last photo of a group in a batch moves it",
			Set: Values{"group_rows": 1, "group_start": -1}, LogEps: 1e-5,
		}},
		Needs:     Observed | Epoch | GroupScores,
		Estimator: "groups", EstimatorNeeds: SampleIDs,
		New: func(v Values, o Options) (Func, error) {
			return func(b Batch) *torch.Tensor {
				z := b.Z()
				terms := b.l48Terms(v, o.LogEps)
				if a, more := v["neg_a"], v["neg_b"]; a != 1 || more != 0 {
					terms = torch.Where(b.Observed.EqScalar(-1), terms.MulScalar(a).Add(Negative(z, 0).MulScalar(more)), terms)
				}
				b.report("per_entry", terms)
				if w := v["group_weight"]; w != 0 {
					q := like(b.Group, z)
					terms = terms.Add(groupTerm(z, q).MulScalar(w))
				}
				return o.Reduce(terms)
			}, nil
		},
		Fused: fusedL48(),
	})
}

// l48Terms are the terms of the base loss.
func (b *Batch) l48Terms(v Values, eps float64) *torch.Tensor {
	z := b.Z()
	y := b.Observed
	switch base := v.whole("base"); base {
	case baseWAN:
		return weightedNegatives(b, 1/float64(max(z.Size(1)-1, 1)), eps)
	case baseEM:
		return ByLabel(y, Positive(z, 0), Negative(z, 0), Entropy(z, eps).MulScalar(-v["ent_weight"]))
	case baseLS:
		t := v["ls_coef"] / 2
		return torch.Where(y.EqScalar(1), CrossEntropy(z, 1-t, eps), CrossEntropy(z, t, eps))
	case baseLLR, baseLLCt, L48LLCp:
		return b.l48Large(v, base, eps)
	}
	return weightedNegatives(b, 1, eps)
}

// l48Large leaves the k unknown labels with the largest loss out, or gives them the positive's.
func (b *Batch) l48Large(v Values, base int, eps float64) *torch.Tensor {
	z, zc := b.Z(), b.constants()
	y := b.Observed
	k := b.l48Count(v, base)
	by := torch.Where(y.EqScalar(1), Positive(zc, eps), Negative(zc, eps))
	modified, flipped := b.selectLarge(by, y, k, Recommended)
	b.reportFlipped(base, flipped)
	pos, neg := Positive(z, eps), Negative(z, eps)
	l := torch.Where(y.EqScalar(1), pos, neg)
	if base == baseLLR {
		return mask(modified.LogicalNot(), z).Mul(l)
	}
	return torch.Where(modified, pos, l)
}

// l48Count is how many unknown labels of a batch the ll-* bases change.
func (b *Batch) l48Count(v Values, base int) int {
	share := v["delta_rel"]
	if base != L48LLCp {
		share *= float64(b.Epoch - 1)
	}
	return max(int(math.Ceil(float64(b.Logits.Numel())*share-1e-9)), 0)
}

func (b *Batch) reportFlipped(base int, flipped *torch.Tensor) {
	b.report("flipped", flipped)
	if base == L48LLCp {
		b.report("permanent_flips", flipped)
	}
}

// Bases of the operator l48.
const (
	opWeighted = iota
	opEntropy
	opSmoothed
	opAdded // what known negatives and groups add to another loss
)

// fusedL48 is one operator; ll-* are large loss's selection beside it.
func fusedL48() *FusedForm {
	return &FusedForm{Op: "spml::l48", New: func(v Values, o Options) Pass {
		op, base := opWeighted, v.whole("base")
		switch base {
		case baseEM:
			op = opEntropy
		case baseLS:
			op = opSmoothed
		case baseLLR, baseLLCt, L48LLCp:
			op = opAdded
		}
		numbers := func(b *Batch) []float64 {
			unknown := 1.0
			switch base {
			case baseWAN:
				unknown = 1 / float64(max(b.Logits.Size(1)-1, 1))
			case baseEM:
				unknown = -v["ent_weight"]
			}
			return []float64{float64(op), unknown, v["ls_coef"] / 2, v["neg_a"], v["neg_b"], v["group_weight"]}
		}
		labels := func(b *Batch) (first, second *torch.Tensor) {
			if v["group_weight"] == 0 {
				return b.Observed, b.Observed // the second is not read
			}
			return b.Observed, b.Group
		}
		p := pointwise("l48", labels, func(Values) func(b *Batch) []float64 { return numbers }).New(v, o)
		if op != opAdded {
			return p
		}
		count := func(b *Batch) int { return b.l48Count(v, base) }
		large := largeLossPass(base != baseLLR, Recommended, count, o, func(b *Batch, marks *torch.Tensor) {
			b.reportFlipped(base, marks.EqScalar(2))
		})
		if v["neg_a"] == 1 && v["neg_b"] == 0 && v["group_weight"] == 0 {
			return large
		}
		return large.plus(p)
	}}
}

// plus is the pass of the sum of two losses.
func (p Pass) plus(q Pass) Pass {
	return Pass{
		Value: func(b *Batch) *torch.Tensor { return p.Value(b).Add(q.Value(b)) },
		ValueGrad: func(b *Batch) (value, grad *torch.Tensor) {
			value, grad = p.ValueGrad(b)
			more, slope := q.ValueGrad(b)
			return value.Add(more), grad.Add(slope)
		},
		Refuses: p.Refuses,
	}
}
