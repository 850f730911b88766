package golden

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/gospml/gospml/internal/goldenfill"
	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/spml/dualcoop"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// frontierMethods are the cases of newer methods. Inputs may be described by a fill.
var frontierMethods = map[string]func(c *lossCase) error{
	"boostlu_forward":   boostForward,
	"boostlu_loss":      boostLoss,
	"known_negatives":   knownNegatives,
	"group_regulariser": groupRegulariser,
	"ignore_mask":       ignoreMask,
	"ignore_loss":       ignoreLoss,
	"crisp_prior":       crispPrior,
	"crisp_risk":        crispRisk,
	"dualcoop":          promptLoss,

	"scpnet_relation": scpRelation, "scpnet_gcn": graphLogits, "hspnet_gcn": graphLogits, "hspnet_split": scpRelation,
	"scpnet_splc": scpCorrection, "scpnet_consistency": scpConsistency, "scpnet_step": scpSteps,
	"scob_loss": scobLoss, "scob_infonce": scobContrast, "scob_correlation": scobCorrelation, "scob_mask": scobMask,
}

// filled makes the tensor that {det, shape, scale, offset, clamp, round} describes.
func (n node) filled(dtype torch.DType) *torch.Tensor {
	shape := n.get("shape").wholes()
	count := 1
	for _, s := range shape {
		count *= s
	}
	values := goldenfill.Values(n.text("det", ""), count, n.num("offset", 0), n.num("scale", 1))
	if n.has("clamp") {
		c := n.get("clamp").list()
		for i, v := range values {
			values[i] = min(max(v, c[0].number()), c[1].number())
		}
	}
	if n.has("round") {
		by := math.Pow(10, n.get("round").number())
		for i, v := range values {
			values[i] = math.RoundToEven(v*by) / by
		}
	}
	return torch.FromSlice(values, shape...).ToDType(dtype)
}

// cosines are those of the rows that a similarity's embeddings describe.
func (n node) cosines(dtype torch.DType) *torch.Tensor {
	e := n.get("embeddings").filled(torch.Float64)
	e = e.Div(e.VectorNorm(2, []int{1}, true))
	return e.Matmul(e.T()).ToDType(dtype)
}

var edit = regexp.MustCompile(`\w+\[([0-9:, ]+)\] = (-?[0-9.]+)`)

// edited sets the entries of t that a text like "afterwards cam[0,1,:,:] = 0" names.
func (c *lossCase) edited(t *torch.Tensor) {
	for _, m := range edit.FindAllStringSubmatch(c.inputs.text("edit", ""), -1) {
		at, dim := t, 0
		for _, s := range strings.Split(m[1], ",") {
			if i, err := strconv.Atoi(strings.TrimSpace(s)); err == nil {
				at = at.Select(dim, i)
			} else {
				dim++
			}
		}
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			c.inputs.fail("%v", err)
		}
		at.Fill_(v)
	}
}

// omitted takes out the results that the file leaves out of a case with null.
func (c *lossCase) omitted() {
	want, _ := c.expected.(map[string]any)
	for name, v := range want {
		if _, computed := c.out[name]; computed && v == nil {
			c.out[name] = nil
		}
	}
}

func (c *lossCase) gradientSums(g *torch.Tensor, row *torch.Tensor) {
	wide := g.ToDType(torch.Float64)
	c.out["grad_cam_sum"], c.out["grad_cam_sumsq"] = wide.Sum().Item(), wide.Square().Sum().Item()
	c.out["grad_cam_row0"] = row
}

func boostForward(c *lossCase) error {
	cam := c.input("cam", c.wide())
	c.edited(cam)
	cam.SetRequiresGrad(true)
	z := decoder.Boost(cam, c.hyper.get("alpha").number()).MeanDim([]int{2, 3}, false)
	z.Mul(c.input("upstream", c.wide())).Sum().Backward()
	c.out["logits"], c.out["logits_unboosted"] = z, cam.MeanDim([]int{2, 3}, false)
	c.out["grad_cam"] = cam.Grad()
	c.gradientSums(cam.Grad(), cam.Grad().Select(0, 0).Select(0, 0))
	c.omitted()
	return nil
}

func boostLoss(c *lossCase) error {
	cam := c.input("cam", c.wide())
	c.edited(cam)
	cam.SetRequiresGrad(true)
	boosted := decoder.Boost(cam, c.hyper.get("alpha").number()).MeanDim([]int{2, 3}, false)
	z := boosted.Detach().SetRequiresGrad(true)
	c.leaves = append(c.leaves, leaf{"grad_logits", z})
	c.batch.Logits, c.batch.Observed, c.batch.Epoch = z, c.labels("obs"), 2
	c.set["k"], c.set["semantics"] = c.hyper.get("k").number(), loss.BoostLU
	l, err := loss.New(c.hyper.text("scheme", c.variant), "", c.set, c.o.form("ll-r", c.options()))
	if err != nil {
		return err
	}
	c.batch.Report = func(name string, v *torch.Tensor) {
		if name == "modified" {
			c.out["modified"] = v.Nonzero()
		}
	}
	v, err := l.Value(c.batch)
	if err != nil {
		return err
	}
	if err := c.backward(v); err != nil {
		return err
	}
	boosted.Backward(torch.WithGradient(z.Grad()))
	c.out["logits"] = z.Detach()
	c.gradientSums(cam.Grad(), cam.Grad().Select(0, 0))
	c.omitted()
	return nil
}

// bases are l48's by the names of the file.
var bases = map[string]float64{"AN": 0, "WAN": 1, "EM": 2, "LS": 3, "LL-R": 4, "LL-Ct": 5, "LL-Cp": 6}

func knownNegatives(c *lossCase) error {
	z, obs := c.leaf("logits"), c.labels("obs")
	y := torch.Where(obs.EqScalar(1), obs, c.labels("known").EqScalar(1).ToDType(obs.DType()).Neg())
	base, ok := bases[c.variant]
	if !ok {
		return fmt.Errorf("no loss %s with known negatives", c.variant)
	}
	h := c.hyper
	c.set["base"], c.set["ent_weight"], c.set["ls_coef"] = base, h.num("alpha", 0.1), h.num("smoothing", 0.1)
	c.set["neg_a"], c.set["neg_b"], c.set["delta_rel"] = h.num("neg_a", 1), h.num("neg_b", 0), h.num("delta", 0)
	if w := 1 / float64(max(z.Size(1)-1, 1)); base == 1 && h.has("gamma") && math.Abs(h.get("gamma").number()-w) > 1e-12 {
		return fmt.Errorf("γ is %v, and 1/(C-1) %v", h.get("gamma").number(), w)
	}
	b := loss.Batch{Logits: z, Observed: y, Group: torch.Full(z.Shape(), -1., c.wide(), z.Device()),
		Epoch: int(h.num("epoch", 1))}
	b.Report = func(name string, v *torch.Tensor) {
		switch name {
		case "per_entry":
			c.out[name] = v
		case "flipped":
			c.out[name] = v.Nonzero()
		}
	}
	parts, err := loss.New("l48", "", c.set, loss.Options{Impl: loss.Composed, LogEps: h.num("eps", 0)})
	if err != nil {
		return err
	}
	v, err := parts.Value(b)
	if err == nil { // the parts come from the composed form
		b.Report = nil
		var l loss.Loss
		if l, err = loss.New("l48", "", c.set, c.o.form("l48", loss.Options{LogEps: h.num("eps", 0)})); err == nil {
			v, err = l.Value(b)
		}
	}
	if err != nil {
		return err
	}
	return c.backward(v)
}

func groupRegulariser(c *lossCase) error {
	h, in := c.hyper, c.inputs
	r, err := label.NewGroups(c.host("obs_of_image"), in.get("group_of_image").wholes(), c.wide(),
		label.GroupConfig{Rate: h.get("eps").number(), Start: h.num("init", 0.5), Last: true}, nil, nil)
	if err != nil {
		return err
	}
	start := c.host("running_start")
	none := torch.Full(torch.S(1, start.Size(1)), -1., start.DType())
	if err := r.LoadState(label.State{Tensors: map[string]*torch.Tensor{"q": torch.Cat([]*torch.Tensor{start, none},
		0)}}); err != nil {
		return err
	}
	var steps []any
	for _, s := range in.get("steps").list() {
		z := s.get("logits").tensor(c.o.DType).SetRequiresGrad(true)
		groups := s.get("group").wholes()
		places := make([]int64, len(groups))
		for i, x := range s.get("image_index").wholes() {
			places[i] = int64(x)
		}
		st := &label.Step{Batch: &loss.Batch{Logits: z, Observed: z.ZerosLike(), Epoch: 1}, At: torch.FromSlice(places)}
		if err := r.Fill(st); err != nil {
			return err
		}
		v, err := c.groupTerm(*st.Batch, h.get("alpha").number())
		if err != nil {
			return err
		}
		v.Backward()
		if err := r.After(st); err != nil {
			return err
		}
		rows := map[string]any{}
		for _, g := range groups {
			rows[strconv.Itoa(g)] = plain(r.Table().Select(0, g))
		}
		steps = append(steps, plain(map[string]any{"loss": v.Item(), "grad_logits": z.Grad(), "running_rows_after": rows}))
	}
	c.out["steps"] = steps
	return nil
}

// groupTerm is the term alone, of a batch of unknown labels whose entropy has no weight: that of l48's own parameter,
// and beside it that of any loss, which must be the same.
func (c *lossCase) groupTerm(b loss.Batch, weight float64) (*torch.Tensor, error) {
	own, err := loss.New("l48", "", loss.Values{"base": 2, "ent_weight": 0, "group_weight": weight},
		c.o.form("l48", loss.Options{}))
	if err != nil {
		return nil, err
	}
	o := c.o.form("em", loss.Options{GroupWeight: weight})
	generic, err := loss.New("em", "", loss.Values{"alpha": 0}, o)
	if err != nil {
		return nil, err
	}
	v, g, err := loss.ValueGrad(own, b)
	if err != nil {
		return nil, err
	}
	w, h, err := loss.ValueGrad(generic, b)
	if err != nil {
		return nil, err
	}
	apart := max(math.Abs(v.Item()-w.Item()), g.Sub(h).ToDType(torch.Float64).Abs().Max().Item())
	if apart > 1e-6 && c.o.DType != torch.BFloat16 {
		return nil, fmt.Errorf("the groups' term of l48 and that of em are %g apart", apart)
	}
	return generic.Value(b)
}

func ignoreMask(c *lossCase) error {
	obs := c.labels("obs")
	var maps *torch.Tensor
	if c.inputs.has("attention") {
		maps = label.AttentionMaps(c.input("features", c.wide()), c.input("attention", c.wide()))
	} else {
		maps = c.input("cam", c.wide())
	}
	var image *torch.Tensor
	var size []int
	if c.inputs.has("image") {
		image = c.input("image", c.wide())
		size = image.Shape()[2:]
	} else {
		size = c.inputs.get("size").wholes()
	}
	m := label.PositiveMask{Threshold: c.hyper.get("cam_threshold").number(), Batch: c.hyper.text("normalise",
		"batch") == "batch"}
	mask, normalised, err := m.Keep(maps, obs, size[0], size[1])
	if err != nil {
		return err
	}
	one := obs.EqScalar(1).SumDim([]int{1}, false).EqScalar(1).Nonzero().Flatten(0, -1)
	selected := normalised.IndexSelect(0, one)
	c.out["selected_map_normalised"] = selected
	c.out["kept_fraction"] = mask.ToDType(torch.Float64).Mean().Item()
	c.out["mask"] = bits(mask.Select(1, 0))
	if one.Size(0) > 0 {
		up := nn.Interpolate(selected.Unsqueeze(1), nn.Interpolation{Size: size, Mode: "bilinear"})
		c.out["closest_to_threshold"] = up.SubScalar(m.Threshold).Abs().NanToNum(math.Inf(1), math.Inf(1), 0).Min().Item()
	}
	if image != nil {
		x := image.Mul(mask).ToDType(torch.Float64)
		c.out["masked_image_sum"], c.out["masked_image_sumsq"] = x.Sum().Item(), x.Square().Sum().Item()
	}
	c.omitted()
	return nil
}

// bits are the rows of masks [B, H, W] as texts of 0 and 1.
func bits(m *torch.Tensor) []any {
	var all []any
	values, w := torch.ToSlice[float64](m.ToDType(torch.Float64).Contiguous()), m.Size(2)
	for b := range m.Size(0) {
		var rows []any
		for y := range m.Size(1) {
			text := make([]byte, w)
			for x := range text {
				text[x] = '0' + byte(values[(b*m.Size(1)+y)*w+x])
			}
			rows = append(rows, string(text))
		}
		all = append(all, rows)
	}
	return all
}

func ignoreLoss(c *lossCase) error {
	h := c.hyper
	z, strong, masked, obs := c.leaf("logits"), c.leaf("logits_strong"), c.input("logits_masked", c.o.DType),
		c.labels("obs")
	on := func(name string) bool { return h.num(name, 1) != 0 }
	rejected := obs.EqScalar(2)
	if h.get("epoch").number() > h.num("warm_up", 0) {
		tau := torch.Full(torch.S(1), c.inputs.get("gap_threshold").number(), z.DType(), z.Device())
		rejected = label.Rejected(z, masked, obs, tau, c.input("avg_threshold", z.DType()), !on("lat"))
	}
	left := rejected
	if !on("ignore") { // the release computes them all the same
		left = obs.EqScalar(2)
	}
	set := loss.Values{"strong": 0, "spbc_weight": 0, "reg_weight": 0, "ignore_weight": h.num("ignore_weight", 1)}
	if on("strong_aug") {
		set["strong"] = 1
	}
	if on("spbc") {
		set["spbc_weight"] = h.get("spbc_weight").number()
	}
	if on("reg") {
		set["reg_weight"] = h.get("reg_weight").number()
	}
	c.set = set
	c.batch = loss.Batch{Logits: z, Strong: strong, Observed: obs, Negative: obs.EqScalar(0).LogicalAnd(left.LogicalNot())}
	if err := c.finish("ignore", "spbc", "ignore", "consistency"); err != nil {
		return err
	}
	terms := map[string]any{}
	for _, name := range []string{"spbc", "ignore", "consistency"} {
		terms[name] = c.out[name]
		delete(c.out, name)
	}
	c.out["terms"], c.out["rejected"], c.out["kept"] = terms, rejected, left.LogicalNot().Sum().ItemInt()
	c.omitted()
	return nil
}

func crispPrior(c *lossCase) error {
	s := c.host("scores").ToDType(torch.Float64)
	p, err := label.ClassPriors(torch.ToSlice[float64](s.Contiguous()),
		torch.ToSlice[int8](c.host("obs").ToDType(torch.Int8).Contiguous()),
		s.Size(1), c.hyper.get("delta").number(), c.hyper.get("tau").number())
	if err != nil {
		return err
	}
	var threshold, prior, objective []any
	for _, e := range p {
		if math.IsNaN(e.Prior) {
			threshold, prior, objective = append(threshold, nil), append(prior, nil), append(objective, nil)
			continue
		}
		threshold, prior, objective = append(threshold, e.Threshold), append(prior, e.Prior), append(objective, e.Objective)
	}
	c.out["threshold"], c.out["prior"], c.out["objective"] = threshold, prior, objective
	if want, ok := c.expected.(map[string]any); ok {
		delete(want, "true_frequency") // what no estimate can know
	}
	return nil
}

func crispRisk(c *lossCase) error {
	c.observed()
	c.batch.Prior, c.batch.Epoch = c.input("prior", c.wide()), 2
	l, err := loss.New("crisp", "", loss.Values{"warmup": 1}, c.o.form("crisp", loss.Options{}))
	if err != nil {
		return err
	}
	c.batch.Report = func(name string, v *torch.Tensor) { c.out[name] = v }
	v, err := l.Value(c.batch)
	if err != nil {
		return err
	}
	return c.backward(v)
}

// promptLoss is DualCoOp's loss on its aggregation; labels of -1 are skipped.
func promptLoss(c *lossCase) error {
	text := c.wideLeaf("text_negative_then_positive")
	z, p, err := dualcoop.Aggregate(c.input("regions", c.wide()), text)
	if err != nil {
		return err
	}
	c.out["logits_neg_pos"], c.out["probability"] = z.Detach(), p.Detach()
	h := c.hyper
	l, err := loss.New("asl", "", loss.Values{
		"gamma_neg": h.get("gamma_neg").number(), "gamma_pos": h.get("gamma_pos").number(),
		"margin": h.get("clip").number(), "clamp": h.num("eps", 0), "detach_weight": 1,
	}, c.o.form("asl", loss.Options{Reduction: loss.Sum}))
	if err != nil {
		return err
	}
	y := c.labels("labels").Flatten(0, -1)
	at := y.NeScalar(-1).Nonzero().Flatten(0, -1)
	logit := z.Select(1, 1).Sub(z.Select(1, 0)).Flatten(0, -1)
	v, err := l.Value(loss.Batch{Logits: logit.IndexSelect(0, at).Unsqueeze(1), Observed: y.IndexSelect(0,
		at).Unsqueeze(1)})
	if err != nil {
		return err
	}
	v.Backward()
	c.out["loss_sum"], c.out["grad_text"] = v.Item(), text.Grad()
	return nil
}
