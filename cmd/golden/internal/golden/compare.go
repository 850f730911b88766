package golden

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Tolerance is |got - want| <= Abs + Rel·|want|.
type Tolerance struct{ Abs, Rel float64 }

// Compare says where got differs from want. Everything in want must be in got; got may have more. Both are plain JSON values.
func Compare(want, got any, tol func(path string) Tolerance) error {
	return compare("", want, got, tol)
}

func compare(path string, want, got any, tol func(string) Tolerance) error {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: want an object", path)
		}
		for _, k := range keys(w) {
			v, ok := g[k]
			if !ok {
				return fmt.Errorf("%s/%s: not computed", path, k)
			}
			if err := compare(path+"/"+k, w[k], v, tol); err != nil {
				return err
			}
		}
		return nil
	case []any:
		g, ok := got.([]any)
		if ok && strings.HasSuffix(path, "/first") { // the first values of a tensor: as many as the file has
			g = g[:min(len(g), len(w))]
		}
		if !ok || len(g) != len(w) {
			return fmt.Errorf("%s: want a list of %d", path, len(w))
		}
		for i := range w {
			if err := compare(fmt.Sprintf("%s/%d", path, i), w[i], g[i], tol); err != nil {
				return err
			}
		}
		return nil
	case nil:
		if got != nil {
			return fmt.Errorf("%s: want nothing, got %v", path, got)
		}
		return nil
	}
	if x, ok := toFloat(want); ok {
		y, ok := toFloat(got)
		t := tol(path)
		switch {
		case !ok:
			return fmt.Errorf("%s: want %v, got %v", path, want, got)
		case math.IsNaN(x) && math.IsNaN(y), x == y:
			return nil
		case math.Abs(x-y) <= t.Abs+t.Rel*math.Abs(x):
			return nil
		}
		return fmt.Errorf("%s: want %.15g, got %.15g (difference %.2g, allowed %.2g)", path, x, y, math.Abs(x-y), t.Abs+t.Rel*math.Abs(x))
	}
	if want != got {
		return fmt.Errorf("%s: want %v, got %v", path, want, got)
	}
	return nil
}

// Report counts cases by section and keeps what failed.
type Report struct {
	Out      io.Writer // failures as they happen; nil = none
	Order    []string
	Passed   map[string]int
	Failed   map[string]int
	Unknown  []string // sections of the file that nothing here checks
	Failures []string
}

// Case adds one result.
func (r *Report) Case(section, id string, err error) {
	if r.Passed == nil {
		r.Passed, r.Failed = map[string]int{}, map[string]int{}
	}
	if !slices.Contains(r.Order, section) {
		r.Order = append(r.Order, section)
	}
	if err == nil {
		r.Passed[section]++
		return
	}
	r.Failed[section]++
	line := fmt.Sprintf("FAIL %s: %v", id, err)
	r.Failures = append(r.Failures, line)
	if r.Out != nil {
		fmt.Fprintln(r.Out, line)
	}
}

// Skip notes a section that is not known.
func (r *Report) Skip(section string) { r.Unknown = append(r.Unknown, section) }

// OK says whether everything was known and passed.
func (r *Report) OK() bool { return len(r.Failures) == 0 && len(r.Unknown) == 0 }

// Print writes passed and failed per section.
func (r *Report) Print(w io.Writer) {
	for _, s := range r.Order {
		fmt.Fprintf(w, "%-24s %4d passed %4d failed\n", s, r.Passed[s], r.Failed[s])
	}
	for _, s := range r.Unknown {
		fmt.Fprintf(w, "%-24s unknown section\n", s)
	}
}
