package loss

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Param is one parameter of a loss.
type Param struct {
	Name    string
	Doc     string
	Default float64
	// Source says where the defaults come from, as "KIND, PLACE": "paper, em Table 5: EM alpha" is a place in the
	// inventory of the papers' texts, "code, OWNER/NAME @ COMMIT, FILE: what" the released program, "ours, REASON"
	// neither.
	Source string
	// ByData are the papers' values per data set: voc, coco, nus, cub.
	ByData map[string]float64
	// Choices name the values 0, 1, … of a parameter that is a choice.
	Choices  []string
	Min, Max float64 // both 0: any finite number
	// Positives says that it is the mean number of positives of an image, which labels can tell.
	Positives bool
}

// Values are parameters by name, with every default filled in. A choice is the index of its name; see Param.Parse.
type Values map[string]float64

func (v Values) is(name string) bool { return v[name] != 0 }

func (v Values) whole(name string) int { return int(v[name]) }

// Form is a printed or released form that differs from the default.
type Form struct {
	Doc       string
	Set       Values
	ByData    map[string]Values
	LogEps    float64
	Reduction Reduction
}

// inf bounds a parameter from one side only.
var inf = math.Inf(1)

// Data sets of the papers in the order of their tables.
var dataSets = []string{"voc", "coco", "nus", "cub"}

// perData spells ByData in the papers' order.
func perData(voc, coco, nus, cub float64) map[string]float64 {
	return map[string]float64{"voc": voc, "coco": coco, "nus": nus, "cub": cub}
}

var noYes = []string{"no", "yes"}

// Parse reads a value: a number, or the name of a choice.
func (p *Param) Parse(s string) (float64, error) {
	if i := slices.Index(p.Choices, s); i >= 0 {
		return float64(i), nil
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		if p.Choices != nil {
			return 0, fmt.Errorf("loss: %s is %q, want one of %s", p.Name, s, strings.Join(p.Choices, ", "))
		}
		return 0, fmt.Errorf("loss: %s is %q, want a number", p.Name, s)
	}
	return x, p.check(x)
}

// Format spells a value as Parse reads it.
func (p *Param) Format(x float64) string {
	if i := int(x); p.Choices != nil && float64(i) == x && i >= 0 && i < len(p.Choices) {
		return p.Choices[i]
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func (p *Param) check(x float64) error {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return fmt.Errorf("loss: parameter %s is %v", p.Name, x)
	case p.Choices != nil:
		if x != math.Trunc(x) || x < 0 || x >= float64(len(p.Choices)) {
			return fmt.Errorf("loss: parameter %s is %v, want one of %s", p.Name, x, strings.Join(p.Choices, ", "))
		}
	case p.Min == 0 && p.Max == 0:
	case x < p.Min || x > p.Max:
		if math.IsInf(p.Max, 1) {
			return fmt.Errorf("loss: parameter %s is %v, want %v or more", p.Name, x, p.Min)
		}
		return fmt.Errorf("loss: parameter %s is %v, want %v to %v", p.Name, x, p.Min, p.Max)
	}
	return nil
}

// Param finds a parameter by name.
func (e *Entry) Param(name string) (*Param, error) {
	for i := range e.Params {
		if e.Params[i].Name == name {
			return &e.Params[i], nil
		}
	}
	return nil, fmt.Errorf("loss: %s has no parameter %q; it has %s", e.ID, name, e.paramNames())
}

// Defaults are the parameters for a data set (voc, coco, nus, cub; anything else takes the general default).
func (e *Entry) Defaults(dataSet string) Values {
	v := Values{}
	for _, p := range e.Params {
		v[p.Name] = p.Default
		if d, ok := p.ByData[strings.ToLower(dataSet)]; ok {
			v[p.Name] = d
		}
	}
	return v
}

// Resolve is Defaults with some parameters set; an unknown name or a value outside its range is an error.
func (e *Entry) Resolve(dataSet string, set Values) (Values, error) {
	return e.resolve(dataSet, set, "")
}

// ResolveForm is Resolve with a form's values ("paper", "code") between the defaults and those that are set.
func (e *Entry) ResolveForm(dataSet string, set Values, form string) (Values, error) {
	return e.resolve(dataSet, set, form)
}

func (e *Entry) resolve(dataSet string, set Values, form string) (Values, error) {
	switch form {
	case "", "paper", "code":
	default:
		return nil, fmt.Errorf("loss: form %q is none of paper, code", form)
	}
	v := e.Defaults(dataSet)
	p := e.Forms[form]
	for _, over := range []Values{p.Set, p.ByData[strings.ToLower(dataSet)], set} {
		for name, x := range over {
			q, err := e.Param(name)
			if err != nil {
				return nil, err
			}
			if err := q.check(x); err != nil {
				return nil, fmt.Errorf("%w (%s)", err, e.ID)
			}
			v[name] = x
		}
	}
	return v, nil
}

func (e *Entry) paramNames() string {
	if len(e.Params) == 0 {
		return "none"
	}
	var s []string
	for i := range e.Params {
		s = append(s, e.Params[i].Name+"="+e.Params[i].Format(e.Params[i].Default))
	}
	return strings.Join(s, ", ")
}
