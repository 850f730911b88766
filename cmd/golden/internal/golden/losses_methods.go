package golden

import (
	"fmt"
	"math"
	"strings"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// lossMethods maps the file's methods to registered losses, and to estimators (see estimators.go).
var lossMethods map[string]func(c *lossCase) error

func init() {
	lossMethods = map[string]func(c *lossCase) error{
		"bce_full": func(c *lossCase) error {
			c.batch.Logits, c.batch.Full = c.leaf("logits"), c.labels("full")
			return c.finish("bce")
		},
		"iun": func(c *lossCase) error {
			c.observed()
			c.batch.Full = c.labels("full")
			return c.finish("iun")
		},
		"an":  func(c *lossCase) error { c.observed(); return c.finish("an") },
		"wan": weighted, "dw": weighted,
		"epr": func(c *lossCase) error {
			c.observed()
			c.take("k")
			return c.finish("epr", "main", "reg")
		},
		"l1r": normed("l1r"), "l2r": normed("l2r"),
		"an_ls": func(c *lossCase) error { return smoothed(c, "an-ls") },
		"n_ls":  func(c *lossCase) error { return smoothed(c, "n-ls") },
		"entmin": func(c *lossCase) error {
			c.observed()
			c.take("strength", "with_an")
			return c.finish("entmin")
		},
		"focal": func(c *lossCase) error {
			c.observed()
			c.take("gamma", "alpha", "detach_weight")
			if !c.hyper.has("alpha") {
				c.set["balanced"] = 0
			}
			return c.finish("focal")
		},
		"asl": func(c *lossCase) error {
			c.observed()
			c.take("gamma_pos", "gamma_neg", "margin", "detach_weight", "clamp")
			return c.finish("asl")
		},
		"role": func(c *lossCase) error {
			c.observed()
			c.batch.Estimate = c.leaf("estimator_logits")
			c.take("k")
			return c.finish("role")
		},
		"em": func(c *lossCase) error { c.observed(); c.take("alpha"); return c.finish("em") },
		"em_apl": func(c *lossCase) error {
			c.batch.Logits, c.batch.Labels = c.leaf("logits"), c.labels("labels")
			c.take("alpha", "beta")
			return c.finish("em-apl")
		},
		"large_loss": largeLoss,
		"en": func(c *lossCase) error {
			c.observed()
			c.batch.Negative = c.labels("neg_mask")
			return c.finish("en")
		},
		"en_cl": func(c *lossCase) error {
			c.observed()
			c.batch.Negative, c.batch.Average = c.labels("neg_mask"), c.labels("ema_target")
			c.take("cons_weight")
			if err := c.choice("en-cl", "cons_kind", "cons_kind"); err != nil {
				return err
			}
			return c.finish("en-cl")
		},
		"scl": func(c *lossCase) error {
			z := c.input("map_logits", c.o.DType).SetRequiresGrad(true)
			c.leaves = append(c.leaves, leaf{"grad_logits", z})
			if d := z.DType(); d == torch.BFloat16 {
				z = z.ToDType(torch.Float32)
			}
			d, err := loss.Distance(c.hyper.text("kind", "l1"), z, c.labels("heat"), c.hyper.num("eps", 0))
			if err != nil {
				return err
			}
			return c.backward(d.Mean())
		},
		"hill": func(c *lossCase) error {
			c.observed()
			c.take("lam", "margin", "gamma")
			if !c.hyper.has("margin") {
				c.set["positive"] = 1
			}
			return c.finish("hill")
		},
		"splc": func(c *lossCase) error {
			c.observed()
			c.take("tau", "margin", "gamma", "lam", "change_epoch", "corrected_margin")
			c.batch.Epoch = int(c.hyper.num("epoch", 0)) + 1
			if err := c.choice("splc", "neg", "neg"); err != nil {
				return err
			}
			return c.finish("splc", "corrected")
		},
		"vlpl": func(c *lossCase) error {
			c.observed()
			c.batch.Pseudo = c.labels("pl")
			c.take("alpha", "beta_pos", "gamma_neg", "rho")
			return c.finish("vlpl")
		},
		"gr": func(c *lossCase) error {
			c.observed()
			c.take("q1", "q2", "q3")
			c.batch.Point = c.point()
			return c.finish("gr")
		},
		"gpr": func(c *lossCase) error {
			c.observed()
			c.batch.Pseudo = c.labels("pl")
			c.take("q2", "q3", "lam_lo", "lam_hi", "rho", "eta", "m_pos")
			c.batch.Point = c.point()
			return c.finish("gpr", "main", "reg")
		},
		"gpr_to_gr": reduction,
		"unified":   unified,
		"plc": func(c *lossCase) error {
			c.batch.Logits, c.batch.Strong, c.batch.Observed = c.leaf("logits_weak"), c.leaf("logits"), c.labels("obs")
			c.take("delta", "lam")
			if strings.HasPrefix(c.variant, "paper") {
				c.set["form"] = 1
				return c.finish("plc", "loss_an", "loss_plc")
			}
			return c.finish("plc", "loss_an", "loss_plc", "mask", "hard")
		},
		"lac": contrast,
		"mime": func(c *lossCase) error {
			c.observed()
			c.batch.Mean, c.batch.Std = c.wideLeaf("mu"), c.wideLeaf("std")
			c.take("beta", "temperature")
			return c.finish("mime", "kl")
		},
		"smile_pred": func(c *lossCase) error {
			c.observed()
			c.batch.Soft = c.labels("d")
			c.take("mu", "p", "bias", "rate")
			c.set["temperature"] = c.hyper.num("T", 1)
			return c.finish("smile-classifier", "target")
		},
		"smile_enc": func(c *lossCase) error {
			c.batch.Logits, c.batch.Observed = c.leaf("encoder_logits"), c.labels("obs")
			c.batch.Reconstruction = &loss.Reconstruction{
				X: c.labels("x"), XRec: c.labels("x_rec"), YRec: c.labels("y_rec"), A: c.labels("A"), ARec: c.labels("A_rec"),
			}
			c.take("gamma", "delta")
			c.set["temperature"] = c.hyper.num("T", 1)
			if err := c.choice("smile-encoder", "kl", "kl"); err != nil {
				return err
			}
			return c.finish("smile-encoder", "loss_align", "rec", "kl")
		},
		"smile_img": func(c *lossCase) error {
			c.observed()
			c.batch.Soft, c.batch.Mean, c.batch.Std = c.wideLeaf("d"), c.wideLeaf("mu"), c.wideLeaf("std")
			c.batch.Alpha, c.batch.Beta = c.wideLeaf("alpha"), c.wideLeaf("beta")
			c.take("theta", "alpha", "beta", "rz", "rd")
			return c.finish("smile")
		},
	}
	for name, run := range estimatorMethods {
		lossMethods[name] = run
	}
	for name, run := range frontierMethods {
		lossMethods[name] = run
	}
}

// choice sets a parameter that is a choice from a hyper-parameter that is its name.
func (c *lossCase) choice(id, name, hyper string) error {
	if !c.hyper.has(hyper) {
		return nil
	}
	e, err := loss.Lookup(id)
	if err != nil {
		return err
	}
	p, err := e.Param(name)
	if err != nil {
		return err
	}
	c.set[name], err = p.Parse(c.hyper.text(hyper, ""))
	return err
}

func (c *lossCase) point() *loss.Point {
	h := c.hyper
	return &loss.Point{W: h.get("w").number(), B: h.get("b").number(), Mu: h.get("mu").number(), Sigma: h.get("sigma").number()}
}

func weighted(c *lossCase) error {
	c.observed()
	if _, formula := c.hyper.get("neg_weight").v.(string); formula { // "1/(C-1)"
		return c.finish("wan")
	}
	c.take("neg_weight")
	return c.finish("dw")
}

func normed(id string) func(c *lossCase) error {
	return func(c *lossCase) error {
		c.observed()
		c.batch.Parameters = []*torch.Tensor{c.wideLeaf("theta")}
		c.take("lam")
		return c.finish(id, "reg")
	}
}

func smoothed(c *lossCase, id string) error {
	c.observed()
	c.take("ls_coef")
	ls := c.hyper.get("ls_coef").number()
	pos, neg := c.hyper.num("pos_target", 1-ls), c.hyper.num("neg_target", ls)
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }
	switch {
	case id == "an-ls" && near(pos, 1-ls) && near(neg, ls), id == "n-ls" && near(pos, 1) && near(neg, ls):
	case id == "an-ls" && near(pos, 1-ls/2) && near(neg, ls/2):
		c.set["half"] = 1
	default:
		return fmt.Errorf("targets %v and %v do not come from ls_coef %v", pos, neg, ls)
	}
	return c.finish(id)
}

func largeLoss(c *lossCase) error {
	if c.inputs.has("B") {
		return largeLossCounts(c)
	}
	c.observed()
	c.batch.Epoch = 2
	c.set["k"] = c.hyper.get("k").number()
	if err := c.choice("ll-r", "semantics", "semantics"); err != nil {
		return err
	}
	c.out["threshold"] = nil
	return c.finish(c.hyper.text("scheme", ""), "modified", "permanent_flips", "threshold")
}

func largeLossCounts(c *lossCase) error {
	n := c.inputs.get("B").whole() * c.inputs.get("C").whole()
	delta := c.hyper.get("delta_rel_percent").number() / 100
	epochs := int(c.hyper.num("epochs", 10))
	for name, of := range map[string]struct {
		permanent bool
		semantics int
	}{
		"k_R_Ct_recommended":   {false, loss.Recommended},
		"k_R_Ct_released_code": {false, loss.Reference},
		"k_Cp_recommended":     {true, loss.Recommended},
	} {
		var k []int
		for e := 1; e <= epochs; e++ {
			k = append(k, loss.LargeLossCount(e, n, delta, of.permanent, of.semantics))
		}
		c.out[name] = k
	}
	return nil
}

// gradient computes a registered loss on logits of its own.
func (c *lossCase) gradient(id string, set loss.Values, b loss.Batch) (v, grad *torch.Tensor, err error) {
	b.Logits = c.input("logits", c.o.DType).SetRequiresGrad(true)
	l, err := loss.New(id, "", set, c.o.form(id, loss.Options{}))
	if err != nil {
		return nil, nil, err
	}
	if v, err = l.Value(b); err != nil {
		return nil, nil, err
	}
	v.Backward()
	return v.Detach(), b.Logits.Grad(), nil
}

// reduction computes GR and GPR without pseudo-labels, at m = 1.5 and at m = m̂.
func reduction(c *lossCase) error {
	z, obs := c.input("logits", c.wide()), c.labels("obs")
	if c.o.DType == torch.BFloat16 {
		z = z.ToDType(torch.BFloat16).ToDType(torch.Float32)
	}
	b := loss.Batch{Observed: obs, Pseudo: obs.ZerosLike(), Point: c.point()}
	c.take("q2", "q3")
	mhat := z.Sigmoid().Sum().Item() / float64(z.Size(0))
	v, g, err := c.gradient("gr", c.set, b)
	if err != nil {
		return err
	}
	c.out["gr_loss"], c.out["gr_grad"] = v, g
	c.set["eta"] = c.hyper.get("eta").number()
	c.set["m_pos"] = 1.5
	b.Report = func(name string, r *torch.Tensor) {
		if name == "reg" {
			c.out["reg_m1_5"] = r
		}
	}
	if v, _, err = c.gradient("gpr", c.set, b); err != nil {
		return err
	}
	c.out["gpr_loss_m1_5"] = v
	c.set["m_pos"], b.Report = mhat, nil
	if v, g, err = c.gradient("gpr", c.set, b); err != nil {
		return err
	}
	c.out["m_hat"], c.out["gpr_loss_m_eq_mhat"], c.out["gpr_grad_m_eq_mhat"] = mhat, v, g
	return nil
}

func contrast(c *lossCase) error {
	tau := c.hyper.get("temperature").number()
	float := func(t *torch.Tensor) *torch.Tensor {
		if t.DType() == torch.BFloat16 {
			return t.ToDType(torch.Float32)
		}
		return t
	}
	if c.inputs.has("feats") {
		return c.backward(loss.SupervisedContrast(float(c.leaf("feats")), c.labels("labels"), tau))
	}
	return c.backward(loss.InterClassContrast(float(c.leaf("anchor")), float(c.leaf("contrast")), c.labels("anchor_labels"), c.labels("contrast_labels"), tau, c.hyper.get("B_total").number()))
}
