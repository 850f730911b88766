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
		Notes: "Known negatives (-1 in the observed labels) have the full negative loss in every loss of this page; " +
			"here they have a weight too, and the base's treatment of unknown labels, rank and k among them, is the " +
			"benchmark's. Rejection and correction fall below AN on the benchmark's fine-grained data: try an first. Groups " +
			"are photos that share labels (a recording, a video, a burst): data option groups. EM's positives and known " +
			"negatives are exact whatever log_eps. Parts: per_entry, flipped, permanent_flips.",
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
	})
}

// groupTerm is BCE(z, q), 0 where q is below 0: the photo has no group.
func groupTerm(z, q *torch.Tensor) *torch.Tensor {
	in := q.GeScalar(0)
	return mask(in, z).Mul(SoftCrossEntropy(z, q.ClampMin(0), 0))
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
	share := v["delta_rel"]
	if base != L48LLCp {
		share *= float64(b.Epoch - 1)
	}
	k := max(int(math.Ceil(float64(z.Numel())*share-1e-9)), 0)
	by := torch.Where(y.EqScalar(1), Positive(zc, eps), Negative(zc, eps))
	modified, flipped := b.selectLarge(by, y, k, Recommended)
	b.report("flipped", flipped)
	if base == L48LLCp {
		b.report("permanent_flips", flipped)
	}
	pos, neg := Positive(z, eps), Negative(z, eps)
	l := torch.Where(y.EqScalar(1), pos, neg)
	if base == baseLLR {
		return mask(modified.LogicalNot(), z).Mul(l)
	}
	return torch.Where(modified, pos, l)
}
