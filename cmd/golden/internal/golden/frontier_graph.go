package golden

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// Cases of SCPNet and HSPNet, whose parts are library code without a method, and of Scob, of which there is nothing
// beside these formulas.

// relation is the label graph that a case's similarities and numbers make.
func (c *lossCase) relation() (similarity *torch.Tensor, g *label.Graph, err error) {
	h := c.hyper
	similarity = c.inputs.get("similarity").cosines(c.wide())
	g, err = label.NewGraph(similarity, label.GraphConfig{
		TopU: int(h.num("sparse_topk", h.num("kept_per_row", 0))), Weight: h.num("reweight_p", 0.2), Tau: h.num("T", 1),
	})
	return similarity, g, err
}

func scpRelation(c *lossCase) error {
	s, g, err := c.relation()
	if err != nil {
		return err
	}
	c.out["similarity"], c.out["gcn_relation"], c.out["prior_relation"], c.out["adjacency"] = s, g.Bar, g.Star, g.Bar
	return nil
}

var mixing = regexp.MustCompile(`gamma ([0-9.]+)`)

func graphLogits(c *lossCase) error {
	_, g, err := c.relation()
	if err != nil {
		return err
	}
	text := c.wideLeaf("text")
	var weights []*torch.Tensor
	for _, w := range c.inputs.get("weights").list() {
		weights = append(weights, w.filled(c.wide()).SetRequiresGrad(true))
	}
	x := label.ConvolveGraph(g.Bar, text, weights...)
	switch m := mixing.FindStringSubmatch(c.hyper.text("mix", "")); {
	case m != nil:
		gamma, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return err
		}
		x = x.MulScalar(gamma).Add(text.MulScalar(1 - gamma))
	case c.hyper.text("mix", "") == "x + text":
		x = x.Add(text)
	default:
		return fmt.Errorf("mix %q is not known", c.hyper.text("mix", ""))
	}
	unit := func(t *torch.Tensor) *torch.Tensor { return t.Div(t.Square().SumDim([]int{1}, true).Sqrt()) }
	z := unit(c.input("image", c.wide())).Matmul(unit(x).T()).MulScalar(c.hyper.get("scale").number())
	z.Square().Sum().Backward()
	c.out["adjacency"], c.out["logits"], c.out["grad_text_of_sum_logits_squared"] = g.Bar, z.Detach(), text.Grad()
	c.out["grad_weight2_sumsq"] = weights[2].Grad().ToDType(torch.Float64).Square().Sum().Item()
	return nil
}

// splc is SCPNet's: the registry's with the code's margins, a sum.
func (c *lossCase) splc(z, obs *torch.Tensor, epoch int, report func(string, *torch.Tensor)) (*torch.Tensor, error) {
	o := c.o.form("splc", loss.Options{Form: "code"})
	set := loss.Values{}
	for _, name := range []string{"tau", "margin", "gamma", "change_epoch"} {
		if c.hyper.has(name) {
			set[name] = c.hyper.get(name).number()
		}
	}
	l, err := loss.New("splc", "", set, o)
	if err != nil {
		return nil, err
	}
	return l.Value(loss.Batch{Logits: z, Observed: obs, Epoch: epoch, Report: report})
}

func scpCorrection(c *lossCase) error {
	z, obs := c.leaf("logits"), c.labels("obs")
	v, err := c.splc(z, obs, int(c.hyper.get("epoch_from_0").number())+1, func(part string, t *torch.Tensor) {
		if part == "corrected" {
			c.out["targets"] = t.ToDType(obs.DType()).Add(obs)
		}
	})
	if err != nil {
		return err
	}
	return c.backward(v)
}

// propagated is the consistency of a strong with a weak view; soft and the rest are put out.
func (c *lossCase) propagated(star, strong, weak, obs, shares *torch.Tensor) (v, labels *torch.Tensor) {
	h := c.hyper
	p := weak.Detach().Sigmoid()
	soft, at := p.Matmul(star.T()), label.ShareThresholds(shares, h.get("p_cutoff").number())
	labels, rows := label.TopLabels(p, obs, at, h.get("hard_k").whole())
	c.out["propagated"], c.out["thresholds"], c.out["row_mask"], c.out["labels"] = soft, at, rows, labels
	return loss.Propagated(strong, labels, soft, rows, h.get("kl_lambda").number()), labels
}

func scpConsistency(c *lossCase) error {
	_, g, err := c.relation()
	if err != nil {
		return err
	}
	c.out["prior_relation"] = g.Star
	v, _ := c.propagated(g.Star, c.wideLeaf("logits_strong"), c.input("logits_weak", c.wide()), c.labels("obs"),
		c.input("class_state", c.wide()))
	return c.backward(v)
}

func scpSteps(c *lossCase) error {
	_, g, err := c.relation()
	if err != nil {
		return err
	}
	obs := c.host("obs")
	h := c.hyper
	shares, err := label.NewClassShares(obs.Size(0), obs.Size(1), h.get("hard_k").whole(), c.wide(), torch.CPU)
	if err != nil {
		return err
	}
	var steps []any
	for _, s := range c.inputs.get("steps").list() {
		rows := s.get("index").wholes()
		read := func(name string) *torch.Tensor {
			n := s.get(name)
			n.object()["round"] = s.num("round", 17)
			return n.filled(c.wide())
		}
		ids := make([]int64, len(rows))
		for i, r := range rows {
			ids[i] = int64(r)
		}
		y := obs.IndexSelect(0, torch.FromSlice(ids))
		a := shares.Shares()
		main, err := c.splc(read("logits_labelled"), y, s.get("epoch_from_0").whole()+1, nil)
		if err != nil {
			return err
		}
		more, labels := c.propagated(g.Star, read("logits_strong"), read("logits_weak"), y, a)
		if err := shares.Store(rows, labels); err != nil {
			return err
		}
		steps = append(steps, plain(map[string]any{
			"loss": main.Item() + h.get("lambda_u").number()*more.Item(), "class_state": a,
			"pseudo_counts_after": shares.Labels.SumDim([]int{0}, false),
		}))
	}
	c.out = map[string]any{"steps": steps}
	return nil
}

func scobLoss(c *lossCase) error {
	z, u, obs := c.wideLeaf("logits"), c.wideLeaf("estimator_logits"), c.labels("obs")
	eps, k := c.hyper.num("eps", 1e-5), c.hyper.get("k").number()
	n, classes := float64(z.Size(0)), float64(z.Size(1))
	log := func(p *torch.Tensor) *torch.Tensor { return p.AddScalar(eps).Log().Neg() }
	half := func(z, other *torch.Tensor) *torch.Tensor {
		p, t := z.Sigmoid(), other.Detach().Sigmoid()
		cross := t.Mul(log(p)).Add(t.RsubScalar(1).AddScalar(eps).Mul(log(p.RsubScalar(1)))).Sum()
		shown := obs.Mul(log(p)).Sum()
		excess := p.Sum().DivScalar(n).SubScalar(k).DivScalar(classes).Square()
		return cross.Add(shown).DivScalar(n * classes).Add(excess)
	}
	return c.backward(half(z, u).Add(half(u, z)).MulScalar(0.5))
}

func scobContrast(c *lossCase) error {
	q, key, queue := c.wideLeaf("query"), c.input("key", c.wide()), c.input("queue", c.wide())
	r := c.input("correlation", c.wide())
	if c.hyper.num("hard", 0) != 0 {
		r = r.EqScalar(1).ToDType(r.DType())
	}
	classes, each := queue.Size(0), queue.Size(1)
	if c.inputs.num("queue_last_class_empty", 0) != 0 {
		queue.Select(0, classes-1).Fill_(0)
	}
	unit := func(t *torch.Tensor) *torch.Tensor {
		return t.Div(t.Square().SumDim([]int{-1}, true).Sqrt().ClampMin(1e-12))
	}
	target := c.inputs.get("target").tensor(torch.Int64)
	positive := unit(q).Mul(unit(key)).SumDim([]int{1}, true).AddScalar(1) // [B, 1]
	cos := unit(q).Matmul(unit(queue).Flatten(0, 1).T()).AddScalar(1)      // [B, C·K]
	weights := r.IndexSelect(0, target).Square().RsubScalar(1).Unsqueeze(2).Expand(-1, classes, each).Reshape(-1,
		classes*each)
	all := torch.Cat([]*torch.Tensor{positive, cos.Mul(weights)}, 1).DivScalar(c.hyper.get("tau").number())
	return c.backward(all.LogSoftmax(1).Select(1, 0).Mean().Neg())
}

func scobCorrelation(c *lossCase) error {
	p := c.input("estimator_logits", c.wide()).Sigmoid()
	m := p.T().Matmul(p).DivScalar(float64(p.Size(0))).Div(p.MeanDim([]int{0}, false).Unsqueeze(1))
	c.out["matrix"] = m.MaskedFill(torch.Eye(m.Size(0), torch.Bool), 1)
	return nil
}

func scobMask(c *lossCase) error {
	cam := c.input("cam", c.wide())
	n := c.hyper.get("cells").whole()
	by := cam.Size(1) / n
	pooled := cam.Reshape(-1, n, by, n, by).MeanDim([]int{2, 4}, false)
	for _, y := range []int{0, n - 1} {
		for _, x := range []int{0, n - 1} {
			pooled.Select(1, y).Select(1, x).Fill_(0)
		}
	}
	c.out["pooled"] = pooled
	c.out["active"] = bits(pooled.GeScalar(c.hyper.get("threshold").number()))
	return nil
}
