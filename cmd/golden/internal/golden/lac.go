package golden

import (
	"fmt"
	"math"
	"strings"

	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// lacNumbers is golden_lac.json: LAC's decoder, its contrast and its training steps.
var lacNumbers = sectioned{
	name: "LAC", table: lacSections, tolerance: usual,
	detect: func(top map[string]any) bool {
		for name := range lacSections {
			if _, ok := top[name]; ok && name != "forward" {
				return true
			}
		}
		_, ok := top["forward"].([]any)
		return ok
	},
}

var lacSections = map[string]section{
	"forward":                      {inputs: []string{"name", "config", "float32_position_code_changes", "backward"}, run: lacForward},
	"sine_position":                {inputs: []string{"features_per_axis", "hw", "dtype"}, run: lacSine, tolerance: singlePrecision},
	"supcon":                       {inputs: []string{"name", "tau", "features", "labels"}, run: lacContrast},
	"stage1_steps":                 {inputs: []string{"config", "what"}, run: lacSteps, tolerance: afterSteps},
	"stage2_steps":                 {inputs: []string{"config", "what"}, run: lacSteps, tolerance: afterSteps},
	"single_valid_pair_in_release": {inputs: []string{"note", "valid_pairs", "features_of_the_pair"}, run: lacSinglePair},
}

func init() {
	modelSections["lac.sine_position"] = section{inputs: []string{"normalise"}, run: modelSine, tolerance: singlePrecision}
	modelSections["lac.forward"] = section{inputs: []string{"config", "input", "params"}, run: modelLACForward}
	modelSections["lac.plc"] = section{inputs: []string{"delta", "p_weak", "observed"}, cases: inherit("cases", "p_weak", "observed"), run: modelPLC}
	modelSections["lac.queue"] = section{inputs: []string{"K"}, run: modelQueue}
	modelSections["backbones.ml_decoder"] = section{inputs: []string{"input", "C", "groups", "D", "heads", "ffn", "params"}, run: modelMLDecoder}
	modelSections["backbones.cam"] = section{inputs: []string{"fm", "w"}, run: func(n node, o Options) (map[string]any, error) {
		m, err := decoder.CAM(n.get("fm").tensor(o.compute()), n.get("w").tensor(o.compute()))
		return map[string]any{"cam": m}, err
	}}
}

// singlePrecision is the tolerance of numbers that the released code has in float32.
func singlePrecision(Options, string) Tolerance { return Tolerance{2e-6, 1e-5} }

func afterSteps(o Options, path string) Tolerance {
	switch {
	case o.DType == torch.Float64:
		return Tolerance{1e-8, 1e-8}
	case strings.Contains(path, "in_proj_bias"):
		return Tolerance{1e-2, 1e-3} // the gradient of the keys' bias is zero but for rounding, which Adam makes steps of
	}
	return Tolerance{1e-4, 1e-3}
}

// gains is the fill of decoders: one-dimensional weights around 1.
func gains(scale float64) func(string, []int) (float64, float64) {
	return func(key string, shape []int) (float64, float64) {
		if len(shape) == 1 && strings.HasSuffix(key, ".weight") {
			return 1, 1
		}
		return 0, scale
	}
}

func lacDecoder(c node, o Options, classes, z string) (*decoder.Decoder, error) {
	d, err := decoder.New(decoder.Config{
		InFeatures: c.get("d").whole(), Classes: c.get(classes).whole(), NumHeads: c.get("heads").whole(), FeedForward: c.get("ffn").whole(),
		Projection: c.get(z).whole(), Dropout: decoder.None, DType: o.compute(),
		EncoderLayers: depth(c, "encoder_layers", "enc_layers", "num_encoder_layers", "enc"),
		DecoderLayers: depth(c, "decoder_layers", "dec_layers", "num_decoder_layers", "dec"),
	})
	if err != nil {
		return nil, err
	}
	fillModule(d, gains(c.num("scale", 0.5)))
	return d, nil
}

// depth is a number of layers by one of its names; 0, which is the paper's, where the file names none.
func depth(c node, names ...string) int {
	for _, name := range names {
		if !c.has(name) {
			continue
		}
		if d := c.get(name).whole(); d != 0 {
			return d
		}
		return decoder.None
	}
	return 0
}

func lacForward(n node, o Options) (map[string]any, error) {
	c := n.get("config")
	d, err := lacDecoder(c, o, "classes", "zdim")
	if err != nil {
		return nil, err
	}
	b, classes, z := c.get("batch").whole(), c.get("classes").whole(), c.get("zdim").whole()
	name := c.text("input", "input:lac")
	x := det(name, o.compute(), 4, b, c.get("d").whole(), c.get("h").whole(), c.get("w").whole()).SetRequiresGrad(true)
	out := d.Forward(x, decoder.Want{Embeddings: true, Attention: true})
	gl, gz := det(name+":grad_logits", o.compute(), 2, b, classes), det(name+":grad_z", o.compute(), 2, b, classes, z)
	out.Logits.Mul(gl).Sum().Add(out.Z.Mul(gz).Sum()).Backward()
	gradients, shapes := map[string]any{}, map[string]any{}
	for key, p := range nn.NamedParameters(d) {
		gradients[key], shapes[key] = summary(p.Grad()), p.Shape()
	}
	return map[string]any{
		"logits": out.Logits, "z": out.Z, "last_cross_attention_head_mean": out.Attention, "grad_input": summary(x.Grad()),
		"grad_parameters": gradients, "parameter_shapes": shapes,
	}, nil
}

// sineSamples gives the values that a file asks for.
func sineSamples(n node, p *torch.Tensor) []map[string]any {
	var out []map[string]any
	for _, s := range n.get("samples").list() {
		c, y, x := s.get("c").whole(), s.get("y").whole(), s.get("x").whole()
		out = append(out, map[string]any{"c": c, "y": y, "x": x, "v": p.At(c, y, x).Item()})
	}
	return out
}

func lacSine(n node, _ Options) (map[string]any, error) {
	hw := n.get("hw").wholes()
	p, err := decoder.SinePosition(2*n.get("features_per_axis").whole(), hw[0], hw[1], torch.Float32)
	if err != nil {
		return nil, err
	}
	return map[string]any{"summary": summary(p), "samples": sineSamples(n, p)}, nil
}

func modelSine(n node, _ Options) (map[string]any, error) {
	s := n.get("shape").wholes()
	p, err := decoder.SinePosition(s[0], s[1], s[2], torch.Float32)
	if err != nil {
		return nil, err
	}
	return map[string]any{"shape": s, "samples": sineSamples(n, p)}, nil
}

func modelLACForward(n node, o Options) (map[string]any, error) {
	c := n.get("config")
	d, err := lacDecoder(c, o, "classes", "proj_out")
	if err != nil {
		return nil, err
	}
	x, err := described(n.get("input"), o.compute())
	if err != nil {
		return nil, err
	}
	out := d.Forward(x, decoder.Want{Embeddings: true, Attention: true})
	return map[string]any{"logits": out.Logits, "z": out.Z, "last_cross_attention_head_mean": out.Attention}, nil
}

func modelPLC(n node, o Options) (map[string]any, error) {
	p, y := n.get("p_weak").tensor(o.compute()), n.get("observed").tensor(o.compute())
	z := p.Log().Sub(p.RsubScalar(1).Log())
	out := map[string]any{}
	for _, form := range []string{"code", "paper"} {
		f, err := loss.New(
			"plc",
			"",
			loss.Values{"delta": n.get("delta").number()},
			loss.Options{Form: map[string]string{"paper": "paper"}[form]},
		)
		if err != nil {
			return nil, err
		}
		b := loss.Batch{Logits: z, Strong: z, Observed: y, Report: func(part string, v *torch.Tensor) {
			switch {
			case part == "mask":
				out["mask_"+form] = v.ToDType(torch.Int64)
			case part == "hard" && form == "code":
				out["hard"] = v.ToDType(torch.Int64)
			}
		}}
		if _, err := f.Value(b); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// modelQueue gives the slots that pushes fill, as the released code places them.
func modelQueue(n node, _ Options) (map[string]any, error) {
	q, err := label.NewQueue(n.get("K").whole(), 1, torch.Float32, true)
	if err != nil {
		return nil, err
	}
	var slots []any
	for _, p := range n.get("sequence").list() {
		m := p.get("n").whole()
		if _, err := q.Push(torch.Zeros(torch.S(m, 2, 1)), torch.Ones(torch.S(m), torch.Int64)); err != nil {
			return nil, err
		}
		to := int(q.State().Numbers["next"])
		slots = append(slots, plain(map[string]any{"n": m, "slot_from": to - m, "slot_to": to}))
	}
	return map[string]any{"sequence": slots}, nil
}

func modelMLDecoder(n node, o Options) (map[string]any, error) {
	width := n.get("params").get("embed_standart.weight").wholes()[1]
	d, err := decoder.NewML(decoder.MLConfig{
		InFeatures: width, Classes: n.get("C").whole(), Groups: n.get("groups").whole(), Dim: n.get("D").whole(), NumHeads: n.get("heads").whole(),
		FeedForward: n.get("ffn").whole(), DType: o.compute(),
	})
	if err != nil {
		return nil, err
	}
	fillModule(d, gains(0.5))
	nn.SetTraining(d, false)
	x, err := described(n.get("input"), o.compute())
	if err != nil {
		return nil, err
	}
	return map[string]any{"logits": d.Forward(x)}, nil
}

func lacContrast(n node, o Options) (map[string]any, error) {
	x := n.get("features").tensor(o.compute()).SetRequiresGrad(true)
	labels := n.get("labels").tensor(torch.Int64)
	filled := labels.NeScalar(0).Nonzero().Flatten(0, -1) // 0 is an empty slot
	l := loss.SupervisedContrast(x.IndexSelect(0, filled), labels.IndexSelect(0, filled), n.get("tau").number())
	l.Backward()
	return map[string]any{"loss": l.Item(), "grad_features": x.Grad()}, nil
}

// lacSinglePair pushes one pair as the released code does: twice.
func lacSinglePair(n node, o Options) (map[string]any, error) {
	k, class := len(n.get("queue_labels").list()), n.get("queue_labels").wholes()[0]
	pair := n.get("features_of_the_pair").tensor(o.compute())
	q, err := label.NewQueue(k, 1, o.compute(), true)
	if err != nil {
		return nil, err
	}
	hard := torch.FromSlice([]int64{int64(class - 1)}, 1).OneHot(class)
	views := func(i int) *torch.Tensor { return pair.Select(0, i).View(1, 1, 1).Expand(1, class, 1) }
	f, ids, err := label.ValidPairs(hard, torch.Zeros(hard.Shape()), views(0), views(1), true)
	if err != nil {
		return nil, err
	}
	if _, err := q.Push(f, ids); err != nil {
		return nil, err
	}
	return map[string]any{
		"rows_written": f.Size(0), "queue_labels": q.Labels, "queue_view0": q.Features.Select(1, 0).Squeeze(1), "queue_view1": q.Features.Select(1, 1).Squeeze(1),
	}, nil
}

// lacSteps replays steps of the released training loop on stored feature maps.
func lacSteps(n node, o Options) (map[string]any, error) {
	c := n.get("config")
	d, err := lacDecoder(c, o, "classes", "zdim")
	if err != nil {
		return nil, err
	}
	second := n.has("queue_labels_end") || strings.HasPrefix(n.at, "stage2")
	if !second { // the first stage has no projection head
		d.Proj = nil
	}
	b, classes, steps := c.get("batch").whole(), c.get("classes").whole(), c.get("steps").whole()
	set := loss.Values{"delta": c.get("delta").number()}
	method := "plc"
	feeds := &label.Pairs{Delta: c.get("delta").number(), Code: true}
	stepper := &train.Stepper{Estimator: label.None{}}
	if second {
		method, set["temperature"] = "lac", c.get("tau").number()
		if feeds.Queue, err = label.NewQueue(c.get("K").whole(), c.get("zdim").whole(), o.compute(), true); err != nil {
			return nil, err
		}
		stepper.Estimator = feeds
	}
	queue := feeds.Queue
	if stepper.Loss, err = loss.New(method, "", set, loss.Options{}); err != nil {
		return nil, err
	}
	maps := func(step int) *torch.Tensor { // weak views, then strong ones
		shape := []int{b, c.get("d").whole(), c.get("h").whole(), c.get("w").whole()}
		name := "input:" + c.text("name", "")
		weak := det(fmt.Sprintf("%s:weak%d", name, step), o.compute(), 4, shape...)
		return torch.Cat([]*torch.Tensor{weak, weak.Add(det(fmt.Sprintf("%s:noise%d", name, step), o.compute(), 1, shape...))}, 0)
	}
	logits := func(step int) any {
		var z *torch.Tensor
		torch.NoGrad(func() { z = d.Forward(maps(step), decoder.Want{}).Logits })
		return plain(z)
	}
	params := nn.Parameters(d)
	average := make([]*torch.Tensor, len(params))
	for i, p := range params {
		average[i] = p.Detach().Clone()
	}
	sums := func(ts []*torch.Tensor) (sum, sumsq float64) {
		for _, t := range ts {
			v := t.Detach().ToDType(torch.Float64)
			sum, sumsq = sum+v.Sum().Item(), sumsq+v.Square().Sum().Item()
		}
		return sum, sumsq
	}
	opt := optim.NewAdamW(params, optim.WeightDecay(0.01), optim.Eps(1e-8))
	schedule := oneCycle(opt, c.get("max_lr").number(), 0.2, c.get("total_steps").whole())
	stepper.Train(opt, params, c.get("max_lr").number())
	var seen []int64
	for _, step := range c.get("observed").list() {
		seen = append(seen, int64s(step.wholes())...)
	}
	stepper.Observed = torch.FromSlice(seen, len(seen)).OneHot(classes).ToDType(o.compute()) // a place for each image of each step
	stepper.Forward = func(st *label.Step) error {
		f := d.Forward(maps(st.Places[0]/b), decoder.Want{Embeddings: second})
		half := func(t *torch.Tensor, i int) *torch.Tensor { return t.Narrow(0, i*b, b) }
		st.Batch.Logits, st.Batch.Strong = half(f.Logits, 0), half(f.Logits, 1)
		if second {
			st.Weak, st.Strong = half(f.Z, 0), half(f.Z, 1)
		}
		return nil
	}
	out := map[string]any{"logits_before_step_1": logits(0)}
	var rows []any
	total := 0.0
	for step := range steps {
		row := map[string]any{}
		h := &opt.Groups()[0].Hyper
		row["lr_used"], row["beta1_used"] = h.LR, h.Betas[0]
		stepper.Report = func(part string, v *torch.Tensor) {
			if name, ok := map[string]string{"loss_an": "L_an", "loss_plc": "L_plc", "loss_lac": "L_lac"}[part]; ok {
				row[name] = v.Item()
			}
		}
		places := make([]int, b)
		for i := range places {
			places[i] = step*b + i
		}
		l, err := stepper.Step(1, places)
		if err != nil {
			return nil, err
		}
		row["Loss"] = l
		total += l
		var grads []*torch.Tensor
		for _, p := range params {
			if g := p.Grad(); g != nil {
				grads = append(grads, g)
			}
		}
		_, norm := sums(grads)
		row["grad_norm"] = math.Sqrt(norm)
		schedule.Step()
		torch.NoGrad(func() {
			for i, p := range params {
				average[i].Lerp_(p, 0.0003)
			}
		})
		row["param_sum"], row["param_sumsq"] = sums(params)
		row["ema_sum"], _ = sums(average)
		if second {
			last := queue.Features.Size(2) - 1
			row["queue"] = plain(map[string]any{
				"labels": queue.Labels, "view0_first_value": queue.Features.Select(1, 0).Select(1, 0), "view1_last_value": queue.Features.Select(1, 1).Select(1, last),
			})
		}
		rows = append(rows, row)
	}
	out["steps"], out["average_loss"], out["logits_after_last_step_on_last_batch"] = rows, total/float64(steps), logits(steps-1)
	final := map[string]any{}
	for key, p := range nn.NamedParameters(d) {
		final[key] = summary(p)
	}
	out["final_parameters"], out["final_fc"] = final, map[string]any{"W": summary(d.FC.W), "b": d.FC.B}
	if second {
		out["queue_pointer_end"], out["queue_labels_end"], out["queue_features_end"] = queue.State().Numbers["next"], queue.Labels, queue.Features
	}
	return out, nil
}

func int64s(v []int) []int64 {
	out := make([]int64, len(v))
	for i, e := range v {
		out[i] = int64(e)
	}
	return out
}
