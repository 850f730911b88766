package golden

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gospml/gospml/torch"
)

// section computes one part of a file. A part is found by its path from the top ("lac.queue"); it is one case, or a list of cases, or whatever cases
// makes of it.
type section struct {
	// inputs are the names of a case that are no results. Everything else is expected and has to be computed.
	inputs []string
	// cases splits the part; nil: a list's elements, or the part itself.
	cases func(n node) []node
	// run computes a case. Its results have the names that the file has for them.
	run func(n node, o Options) (map[string]any, error)
	// tolerance of a result, by its path in the case; nil: of the whole file.
	tolerance func(o Options, path string) Tolerance
	// compare says where the results differ from the expected values; nil: Compare within tolerance.
	compare func(n node, want, got map[string]any, o Options) error
	// ignore are the sections of the file that hold no numbers of ours.
	ignore bool
}

// sectioned is a file made of sections. A name in the table that ends in * stands for all sections that begin so.
type sectioned struct {
	name  string
	table map[string]section
	// detect says whether the file is of this kind.
	detect    func(top map[string]any) bool
	tolerance func(o Options) Tolerance
}

func (s sectioned) Name() string                   { return s.name }
func (s sectioned) Detect(top map[string]any) bool { return s.detect(top) }

// walk finds the sections of a file and calls do for each case.
func (s sectioned) walk(f *File, o Options, unknown func(string), do func(path string, sec section, n node, out map[string]any, err error) error) error {
	var visit func(path string, v any) error
	visit = func(path string, v any) error {
		sec, ok := s.find(path)
		if !ok {
			m, isObject := v.(map[string]any)
			if !isObject || !s.hasParts(path) {
				unknown(path)
				return nil
			}
			for _, k := range keys(m) {
				if err := visit(path+"."+k, m[k]); err != nil {
					return err
				}
			}
			return nil
		}
		if sec.ignore {
			return nil
		}
		cases := []node{{path, v}}
		if l, isList := v.([]any); isList && sec.cases == nil {
			cases = cases[:0]
			for i, e := range l {
				cases = append(cases, node{fmt.Sprintf("%s/%d", path, i), e})
			}
		}
		if sec.cases != nil {
			if err := guard(func() error { cases = sec.cases(node{path, v}); return nil }); err != nil {
				return err
			}
		}
		for _, n := range cases {
			var out map[string]any
			err := guard(func() (err error) {
				torch.Scope(func(*torch.Arena) {
					if out, err = sec.run(n, o); err == nil {
						out = plain(out).(map[string]any)
					}
				})
				return err
			})
			if err := do(path, sec, n, out, err); err != nil {
				return err
			}
		}
		return nil
	}
	for _, k := range keys(f.Top) {
		if k == "about" || k == "notes" || k == "fill" {
			continue
		}
		if err := visit(k, f.Top[k]); err != nil {
			return err
		}
	}
	return nil
}

// find gives a section by its name, or else by the longest beginning of it.
func (s sectioned) find(path string) (section, bool) {
	if sec, ok := s.table[path]; ok {
		return sec, true
	}
	best := ""
	for k := range s.table {
		if start, ok := strings.CutSuffix(k, "*"); ok && strings.HasPrefix(path, start) && len(k) > len(best) {
			best = k
		}
	}
	return s.table[best], best != ""
}

// hasParts says whether sections under a path are known.
func (s sectioned) hasParts(path string) bool {
	for k := range s.table {
		if strings.HasPrefix(k, path+".") {
			return true
		}
	}
	return false
}

// Check compares every case.
func (s sectioned) Check(f *File, o Options, r *Report) error {
	return s.walk(f, o, r.Skip, func(path string, sec section, n node, out map[string]any, err error) error {
		if err == nil {
			want := map[string]any{}
			for name, v := range n.object() {
				if !slices.Contains(sec.inputs, name) {
					want[name] = v
				}
			}
			tol := func(p string) Tolerance { return s.tolerance(o) }
			if sec.tolerance != nil {
				tol = func(p string) Tolerance { return sec.tolerance(o, p) }
			}
			switch {
			case len(want) == 0:
				err = fmt.Errorf("nothing is expected of it")
			case sec.compare != nil:
				err = guard(func() error { return sec.compare(n, want, out, o) })
			default:
				err = Compare(want, out, tol)
			}
		}
		r.Case(path, n.at, err)
		return nil
	})
}

// Eval prints every case.
func (s sectioned) Eval(f *File, o Options, emit func(string, any) error) error {
	var unknown error
	err := s.walk(f, o, func(name string) { unknown = fmt.Errorf("%s: unknown section %s", f.Path, name) },
		func(_ string, _ section, n node, out map[string]any, err error) error {
			if err != nil {
				return fmt.Errorf("%s: %w", n.at, err)
			}
			return emit(n.at, out)
		})
	if err == nil {
		err = unknown
	}
	return err
}

// usual are the tolerances of numbers that are computed in o.DType.
func usual(o Options) Tolerance {
	if o.DType == torch.Float64 {
		return Tolerance{1e-8, 1e-8}
	}
	return Tolerance{1e-5, 1e-4}
}

// compute is the type that sections compute in.
func (o Options) compute() torch.DType {
	if o.DType == torch.Float64 {
		return torch.Float64
	}
	return torch.Float32
}
