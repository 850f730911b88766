package loss

import (
	"fmt"
	"strings"
)

// Describe is what a person wants to know of a loss, as plain text.
func Describe(e *Entry) string {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, text)
		}
	}
	fmt.Fprintf(&b, "%s: %s\n", e.ID, e.Title)
	line("also", strings.Join(e.Aliases, ", "))
	line("loss", e.Formula)
	line("source", e.Source)
	line("needs", e.Needs.String())
	if e.Estimator != "" {
		line("estimator", e.Estimator)
		line("", e.EstimatorNeeds.String())
	}
	line("fused", e.fusedNote())
	line("tables", strings.Join(e.Tables, ", "))
	line("notes", e.Notes)
	if len(e.Params) > 0 {
		fmt.Fprintf(&b, "%-10s %-18s %8s  %8s %8s %8s %8s\n", "parameters", "name", "default", "voc", "coco", "nus", "cub")
	}
	for i := range e.Params {
		p := &e.Params[i]
		fmt.Fprintf(&b, "%-10s %-18s %8s", "", p.Name, p.Format(p.Default))
		for _, d := range dataSets {
			v := ""
			if x, ok := p.ByData[d]; ok {
				v = p.Format(x)
			}
			fmt.Fprintf(&b, " %8s", v)
		}
		fmt.Fprintf(&b, "  %s%s\n", p.Doc, choices(p))
	}
	for i := range e.Params {
		if p := &e.Params[i]; p.Source != "" {
			fmt.Fprintf(&b, "%-10s %-18s %s\n", map[bool]string{true: "from"}[i == 0], p.Name, p.Source)
		}
	}
	for _, name := range []string{"paper", "code"} {
		if p, ok := e.Forms[name]; ok {
			line(name, p.Doc)
		}
	}
	return b.String()
}

// fusedNote names the operator of the fused form and what it leaves to the composed one.
func (e *Entry) fusedNote() string {
	switch {
	case e.Fused == nil:
		return ""
	case e.Fused.Except != "":
		return e.Fused.Op + ", except " + e.Fused.Except
	}
	return e.Fused.Op
}

func choices(p *Param) string {
	if p.Choices == nil {
		return ""
	}
	return " (" + strings.Join(p.Choices, ", ") + ")"
}
