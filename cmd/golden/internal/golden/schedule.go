package golden

import (
	"strings"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

// OneCycle and the average of parameters, as LAC's training uses them.
func init() {
	inputs := []string{"total_steps", "max_lr", "pct_start"}
	modelSections["lac.one_cycle_checked_against_torch"] = section{ignore: true} // a note
	modelSections["lac.one_cycle_*"] = section{inputs: inputs, run: modelOneCycle, tolerance: func(Options, string) Tolerance {
		return Tolerance{0, 1e-8} // float64 in every form, printed with nine digits
	}}
	modelSections["lac.ema"] = section{inputs: []string{"decay", "start", "values"}, run: modelEMA}
}

// oneCycle makes LAC's schedule: 0.2 of the steps upwards.
func oneCycle(opt optim.Optimizer, most, share float64, steps int) *optim.Schedule {
	return optim.NewOneCycleLR(opt, optim.OneCycle{MaxLR: []float64{most}, TotalSteps: steps, PctStart: share})
}

// modelOneCycle gives the rates and first betas of every step and the one after the last, or of the steps that samples ask for. A part that does
// not name its highest rate has it in its first rate, which is a 25th; one that does not name its share of rising steps has LAC's 0.2, or
// PyTorch's 0.3 where its name ends in pct03.
func modelOneCycle(n node, _ Options) (map[string]any, error) {
	steps, most, share := n.get("total_steps").whole(), 1e-4, 0.2
	if strings.HasSuffix(n.at, "pct03") {
		most, share = 0.1, 0.3
	}
	share = n.num("pct_start", share)
	switch {
	case n.has("max_lr"):
		most = n.get("max_lr").number()
	case n.has("lr"):
		if l := n.get("lr").list(); len(l) > 0 {
			most = 25 * l[0].number()
		}
	case n.has("samples"):
		for _, s := range n.get("samples").list() {
			if s.get("step").whole() == 0 && s.has("lr") {
				most = 25 * s.get("lr").number()
			}
		}
	}
	opt := optim.NewAdamW([]*torch.Tensor{torch.Zeros(torch.S(1)).SetRequiresGrad(true)})
	schedule := oneCycle(opt, most, share, steps)
	h := &opt.Groups()[0].Hyper
	var lr, beta []float64
	for step := range steps + 1 {
		if step > 0 {
			schedule.Step()
		}
		lr, beta = append(lr, h.LR), append(beta, h.Betas[0])
	}
	if !n.has("samples") {
		out := map[string]any{}
		for name, v := range map[string][]float64{"lr": lr, "beta1": beta} {
			if n.has(name) { // as many as the file has
				v = v[:min(len(v), len(n.get(name).list()))]
			}
			out[name] = v
		}
		return out, nil
	}
	var samples []map[string]any
	for _, s := range n.get("samples").list() {
		i := s.get("step").whole()
		if i < 0 || i > steps {
			s.fail("step %d of a schedule of %d steps", i, steps)
		}
		samples = append(samples, map[string]any{"step": i, "lr": lr[i], "beta1": beta[i]})
	}
	return map[string]any{"samples": samples}, nil
}

// modelEMA averages one parameter: the first update takes start over, the others are the values.
func modelEMA(n node, o Options) (map[string]any, error) {
	m := &struct{ Value *torch.Tensor }{torch.Full(torch.S(1), n.num("start", 0), o.compute()).SetRequiresGrad(true)}
	average := nn.NewEMA(m, n.get("decay").number())
	average.Update(m)
	var out []float64
	for _, v := range n.get("values").list() {
		torch.NoGrad(func() { m.Value.Fill_(v.number()) })
		average.Update(m)
		out = append(out, average.Module.Value.Item())
	}
	return map[string]any{"ema": out}, nil
}
