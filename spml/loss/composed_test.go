package loss_test

import (
	"testing"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/losstest"
)

// settings are forms beside the default and the published ones.
var settings = map[string][]losstest.Setting{
	"entmin": {{Name: "with AN", Set: loss.Values{"with_an": 1}}},
	"focal":  {{Name: "detached", Set: loss.Values{"detach_weight": 1}}, {Name: "γ 0.5", Set: loss.Values{"gamma": 0.5}}, {Name: "γ 0", Set: loss.Values{"gamma": 0}}},
	"asl": {
		{Name: "differentiated", Set: loss.Values{"detach_weight": 0}},
		{Name: "fractional", Set: loss.Values{"detach_weight": 0, "gamma_neg": 0.5, "gamma_pos": 0.3}},
		{Name: "no margin", Set: loss.Values{"detach_weight": 0, "margin": 0, "gamma_neg": 1}},
		{Name: "no focusing", Set: loss.Values{"gamma_neg": 0}},
	},
	"en-cl":  {{Name: "mse", Set: loss.Values{"cons_kind": 1}}, {Name: "bce", Set: loss.Values{"cons_kind": 2}}},
	"en-scl": {{Name: "mse", Set: loss.Values{"cons_kind": 1}}, {Name: "bce", Set: loss.Values{"cons_kind": 2}}},
	"hill":   {{Name: "ce", Set: loss.Values{"positive": 1}}},
	"splc":   {{Name: "hill", Set: loss.Values{"neg": 1}}},
	"ll-r":   {{Name: "many", Set: loss.Values{"k": 5}}, {Name: "reference", Set: loss.Values{"k": 3, "semantics": loss.Reference}}},
	"ll-ct":  {{Name: "many", Set: loss.Values{"k": 5}}, {Name: "reference", Set: loss.Values{"k": 3, "semantics": loss.Reference}}},
	"ll-cp":  {{Name: "many", Set: loss.Values{"k": 5}}, {Name: "reference", Set: loss.Values{"k": 3, "semantics": loss.Reference}}},
	"vlpl":   {{Name: "negatives", Set: loss.Values{"gamma_neg": 0.7}}, {Name: "unsmoothed", Set: loss.Values{"rho": 1}}},
	"gr":     {{Name: "q3 < 1", Set: loss.Values{"q2": 0.5, "q3": 0.5}}, {Name: "q 0", Set: loss.Values{"q2": 0, "q3": 0}}},
	"gpr":    {{Name: "q3 < 1", Set: loss.Values{"q2": 0.5, "q3": 0.5}}},
	"lac":    {{Name: "small τ", Set: loss.Values{"temperature": 0.02}}},
	"l48": {
		{Name: "wan", Set: loss.Values{"base": 1, "neg_a": 0.5, "neg_b": 0.25}}, {Name: "em", Set: loss.Values{"base": 2,
			"group_weight": 0.7}},
		{Name: "ls", Set: loss.Values{"base": 3, "neg_a": 2, "group_weight": 0.2}}, {Name: "ll-r",
			Set: loss.Values{"base": 4, "delta_rel": 0.1, "neg_b": 2}},
		{Name: "ll-cp", Set: loss.Values{"base": 6, "delta_rel": 0.1}},
	},
	"ignore": {{Name: "weak view", Set: loss.Values{"strong": 0, "spbc_weight": 0.5}}},
	"crisp":  {{Name: "warm-up", Set: loss.Values{"warmup": 5}}},
	"mime":   {{Name: "tempered", Set: loss.Values{"temperature": 2}}},
}

// TestComposed runs every registered loss through gradient checks and edge cases.
func TestComposed(t *testing.T) {
	for _, e := range loss.Entries() {
		t.Run(e.ID, func(t *testing.T) {
			losstest.Run(t, e.ID, settings[e.ID]...)
		})
	}
}
