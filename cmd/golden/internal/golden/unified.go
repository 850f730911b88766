package golden

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gospml/gospml/spml/loss"
)

// unifiedRows are the rows of GR's table under the names of the file; the names hold the parameters.
var unifiedRows = []string{
	"AN", "WAN", "EN(tau1=0.35)", "EM+APL(tau1=0.35,alpha=0.1,beta=0.9)", "Hill", "SPLC(tau1=0.6)", "GR(q1=q2=0.01,q3=1,mid)",
}

// points are GR's schedule points of the file.
var points = map[string]loss.Point{
	"start": {W: 0, B: -2, Mu: 0.5, Sigma: 2}, "mid": {W: 5, B: -5, Mu: 0.65, Sigma: 1.25}, "end": {W: 10, B: -8, Mu: 0.8, Sigma: 0.5},
}

// unified computes the rows that the case expects, or all of them.
func unified(c *lossCase) error {
	y := c.labels("obs")
	names := unifiedRows
	if want, ok := c.expected.(map[string]any); ok {
		names = keys(want)
	}
	for _, name := range names {
		row, err := unifiedRow(name, y.Size(1))
		if err != nil {
			return err
		}
		z := c.input("logits", c.o.DType).SetRequiresGrad(true)
		v := row.Loss(z, y)
		v.Backward()
		c.out[name] = map[string]any{"loss": v, "grad_logits": z.Grad()}
	}
	return nil
}

func unifiedRow(name string, classes int) (loss.Row, error) {
	method, rest, _ := strings.Cut(strings.TrimSuffix(name, ")"), "(")
	p := map[string]float64{}
	at := points["mid"]
	for _, item := range strings.Split(rest, ",") {
		if item == "" {
			continue
		}
		words := strings.Split(item, "=")
		if len(words) == 1 {
			var ok bool
			if at, ok = points[item]; !ok {
				return loss.Row{}, fmt.Errorf("row %q: unknown schedule point %q", name, item)
			}
			continue
		}
		v, err := strconv.ParseFloat(words[len(words)-1], 64)
		if err != nil {
			return loss.Row{}, fmt.Errorf("row %q: %w", name, err)
		}
		for _, w := range words[:len(words)-1] { // q1=q2=0.01
			p[w] = v
		}
	}
	get := func(name string, def float64) float64 {
		if v, ok := p[name]; ok {
			return v
		}
		return def
	}
	switch method {
	case "AN":
		return loss.WeightedRow(1), nil
	case "WAN":
		return loss.WeightedRow(1 / float64(max(classes-1, 1))), nil
	case "DW":
		return loss.WeightedRow(get("w", 0.1)), nil
	case "EN":
		return loss.ENRow(get("tau1", 0.35)), nil
	case "EM+APL":
		return loss.APLRow(get("tau1", 0.35), get("alpha", 0.1), get("beta", 0.9)), nil
	case "Hill":
		return loss.HillRow(get("lam", 1.5)), nil
	case "SPLC":
		return loss.SPLCRow(get("tau1", 0.6), get("margin", 1), get("gamma", 2), get("lam", 1.5)), nil
	case "GR":
		return loss.GRRow(get("q1", 0.01), get("q2", 0.01), get("q3", 1), at), nil
	}
	return loss.Row{}, fmt.Errorf("row %q is unknown", name)
}
