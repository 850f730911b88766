package method

import "github.com/gospml/gospml/spml/loss"

// HeadPrompts is the head that learns prompts of an image-text model (model.HeadDualCoOp).
const HeadPrompts = "dualcoop"

// dualCoOp is the method of prompts learned in pairs: the asymmetric loss on the margin of a positive and a negative
// prompt.
//
// Source: Sun et al. 2022 (DualCoOp), section 4.1; sunxm2357/DualCoOp @ 49e71d7.
const dualCoOp = "dualcoop"

func init() {
	mustRegister(Method{
		ID: dualCoOp, Of: "asl", Head: HeadPrompts, Form: "code",
		Params: loss.Values{"gamma_neg": 2, "gamma_pos": 1, "margin": 0.05},
	})
}

// Recorded is the method of a run's recorded settings: a run of DualCoOp before it was a method has its loss, its head
// and all its parameters.
func Recorded(id, head string, params map[string]float64) string {
	m, err := Lookup(dualCoOp)
	if err != nil || id != m.Loss.ID || head != m.Head {
		return id
	}
	for name := range m.Params {
		if _, there := params[name]; !there {
			return id
		}
	}
	return m.ID
}
