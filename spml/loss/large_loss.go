package loss

import (
	"math"

	"github.com/gospml/gospml/torch"
)

// Semantics of the large-loss selection.
const (
	Recommended = iota // exactly min(k, unknown) entries, only unknown ones, ties by position; LL-Cp flips all of them
	Reference          // the released code with its string comparison repaired
	Released           // the released code as it runs: LL-Cp behaves as LL-Ct
	BoostLU            // BoostLU's copy of it: as Reference, and LL-Cp keeps every label that it modifies
)

// Large loss: rejection, temporary and permanent correction.
func init() {
	for _, s := range []struct{ id, title, formula string }{
		{"ll-r", "large loss rejection", "l = y·sn + (1-y)·sp, 0 on the k unknown entries of the batch with the largest l"},
		{"ll-ct", "large loss correction, temporary", "l = y·sn + (1-y)·sp, on the k unknown entries of the batch with the largest l the loss of the flipped label, sn"},
		{"ll-cp", "large loss correction, permanent", "as ll-ct, and the k labels become 1 for all later epochs"},
	} {
		permanent := s.id == "ll-cp"
		delta, estimator, wants := 0.002, "", Needs(0)
		if permanent {
			delta, estimator, wants = 0.001, "large-loss", SampleIDs
		}
		code := Form{
			Doc: "ties with the k-th value are modified too; k from accumulated rates",
			Set: Values{"semantics": Reference},
		}
		if permanent {
			code = Form{
				Doc: "as released: a string comparison by identity is never true, so LL-Cp runs as LL-Ct",
				Set: Values{"semantics": Released},
			}
		}
		mustRegister(Entry{
			ID:         s.id,
			WholeBatch: true,
			Title:      s.title,
			Formula:    s.formula,
			Source:     "Kim et al. 2022",
			Notes: "k = ceil(B·C·(e-1)·Δ), for ll-cp ceil(B·C·Δ), and 0 in epoch 1. LL-Cp never runs as LL-Cp in " +
				"the released code, so that published numbers may be LL-Ct's: form code keeps this, form paper has the " +
				"repaired comparison. In the released selection a k-th largest loss of 0 also modifies observed positives, " +
				"entries that tie with it are all modified, only larger ones become permanent, and ceil of accumulated rates " +
				"can be one too many. BoostLU's repository compares the string and keeps ties for good too (semantics " +
				"boostlu). Parts: modified, permanent_flips, corrections (what a permanent correction would flip), threshold.",
			Params: []Param{
				{Name: "delta_rel", Doc: "Δ, share of the batch added each epoch", Source: "ours, of the range 0.1 to 0.5 % in the released README", Default: delta, Max: 1},
				{Name: "k", Doc: "number of entries; -1: from the epoch", Source: "ours, the method's own count unless a number is given", Default: -1, Min: -1, Max: inf},
				{Name: "semantics", Doc: "selection", Source: "ours, ties and the k-th value as the text describes them",
					Choices: []string{"recommended", "reference", "released", "boostlu"}},
			},
			Forms: map[string]Form{
				"paper": {Doc: "the released selection with its comparison repaired", Set: Values{"semantics": Reference}},
				"code":  code,
			},
			Needs:     Observed | Epoch,
			Estimator: estimator, EstimatorNeeds: wants,
			Tables: []string{"LL", "VLPL", "GR"},
			New: func(v Values, o Options) (Func, error) {
				semantics := v.whole("semantics")
				flips := permanent && semantics != Released
				return func(b Batch) *torch.Tensor {
					z := b.Z()
					y := b.Observed
					k := v.whole("k")
					if k < 0 {
						k = LargeLossCount(b.Epoch, z.Numel(), v["delta_rel"], flips, semantics)
					}
					pos, neg := Positive(z, o.LogEps), Negative(z, o.LogEps)
					l := torch.Where(y.EqScalar(1), pos, neg)
					by := l.Detach()
					if b.Frozen != nil {
						zc := b.constants()
						by = torch.Where(y.EqScalar(1), Positive(zc, o.LogEps), Negative(zc, o.LogEps))
					}
					modified, flipped := b.selectLarge(by, y, k, semantics)
					if k > 0 {
						b.report("corrections", flipped)
					}
					if !flips {
						flipped = flipped.ZerosLike()
					}
					b.report("modified", modified)
					b.report("permanent_flips", flipped)
					if s.id == "ll-r" {
						return o.Reduce(mask(modified.LogicalNot(), z).Mul(l))
					}
					return o.Reduce(torch.Where(modified, torch.Where(y.EqScalar(1), neg, pos), l))
				}, nil
			},
			Fused: fusedLargeLoss(s.id != "ll-r", permanent),
		})
	}
}

// LargeLossCount is k for a batch of entries = B·C labels in an epoch counted from 1.
func LargeLossCount(epoch, entries int, deltaRel float64, permanent bool, semantics int) int {
	if epoch < 2 {
		return 0
	}
	share := deltaRel
	if semantics == Recommended {
		if !permanent {
			share *= float64(epoch - 1)
		}
		return max(int(math.Ceil(float64(entries)*share-1e-9)), 0)
	}
	if !permanent {
		clean := 1.0 // the released code takes Δ off once an epoch, with its rounding
		for range epoch - 1 {
			clean -= deltaRel
		}
		share = 1 - clean
	}
	return int(math.Ceil(float64(entries) * share))
}

// selectLarge finds the entries whose loss counts as that of a false negative, and those that a permanent correction
// flips.
func (b *Batch) selectLarge(l, y *torch.Tensor, k, semantics int) (modified, flipped *torch.Tensor) {
	unknown := y.EqScalar(0)
	if k = min(k, l.Numel()); k == 0 {
		none := torch.Zeros(l.Shape(), torch.Bool, l.Device())
		return none, none
	}
	if semantics == Recommended {
		u := l.MaskedFill(unknown.LogicalNot(), math.Inf(-1)).Flatten(0, -1)
		_, order := u.SortStable(true, 0, true)
		picked := torch.Zeros(u.Shape(), torch.Bool, l.Device()).IndexFill(0, order.Slice(0, 0, k, 1), true)
		modified = picked.Reshape(l.Shape()...).LogicalAnd(unknown)
		return modified, modified
	}
	u := l.Mul(mask(unknown, l))
	top, _ := u.Flatten(0, -1).Topk(k, 0, true, true)
	threshold := top.Select(0, k-1)
	b.report("threshold", threshold)
	if modified = u.Ge(threshold); semantics == BoostLU {
		return modified, modified
	}
	return modified, u.Gt(threshold)
}
