package recipe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gospml/gospml/spml/loss"
	methods "github.com/gospml/gospml/spml/method"
)

// Tuning gives the grids that a method is tuned over, one after the other. They are its paper's where the paper has
// any (Sweep.Tunes); else the parameters that its authors chose for each of the papers' data sets, as the registry
// of losses has them. A method without either has none. dataSet is one of voc, coco, nus, cub, or "".
func Tuning(method, dataSet string) ([]Sweep, error) {
	m, err := methods.Lookup(method)
	if err != nil {
		return nil, err
	}
	if m.Params != nil {
		return nil, nil // the method has values of its own
	}
	e := m.Loss
	all, err := Sweeps()
	if err != nil {
		return nil, err
	}
	var stages []Sweep
	for _, s := range all {
		if s.Tunes[e.ID] == 0 || s.Data != "" && s.Data != dataSet {
			continue
		}
		own := func(x Sweep) bool { return x.Data != "" && x.Tunes[e.ID] == s.Tunes[e.ID] }
		if s.Data == "" && slices.ContainsFunc(all, func(x Sweep) bool { return own(x) && x.Data == dataSet }) {
			continue // the data set has its own
		}
		stages = append(stages, s)
	}
	slices.SortStableFunc(stages, func(a, b Sweep) int { return a.Tunes[e.ID] - b.Tunes[e.ID] })
	if stages == nil {
		if s := published(e); s != nil {
			stages = append(stages, *s)
		}
	}
	return stages, nil
}

// published are the parameters of a loss for each of the papers' data sets; nil where they are the same for all.
func published(e *loss.Entry) *Sweep {
	s := &Sweep{
		Name: "registry", Method: e.ID, Named: map[string]map[string]any{},
		Source: fmt.Sprintf("the parameters that the registry has for VOC, COCO, NUS and CUB (spml loss show %s)", e.ID),
	}
	for _, d := range dataSets {
		point := map[string]any{}
		for _, p := range e.Params {
			if x, ok := p.ByData[d]; ok {
				point["params."+p.Name] = x
			}
		}
		if len(point) == 0 {
			return nil
		}
		s.Named["as on "+strings.ToUpper(d)] = point
	}
	return s
}
