package main

import (
	"fmt"
	"go/token"
	"slices"
	"strings"
)

type section struct {
	title   string
	entries []entry
}

// entry is one line of the table.
type entry struct {
	line     int
	schema   string
	name     string // aten::add
	overload string
	params   []param
	returns  []string
	inplace  bool // the first return is the written first argument

	goName   string
	function bool
	shown    map[string]bool
	asFloat  map[string]bool // Scalars that Go shows as float64
	variadic string
	doc      string
}

type param struct {
	typ, name  string
	hasDefault bool
}

func parseTable(src string) ([]section, error) {
	var out []section
	seen := map[string]int{}
	for i, line := range strings.Split(src, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if t, ok := strings.CutPrefix(line, "# "); ok {
			if i > 2 { // the file begins with three lines of explanation
				out = append(out, section{title: t})
			}
			continue
		}
		e, err := parseEntry(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		e.line = i + 1
		key := e.goName
		if e.function {
			key = "func " + key
		}
		if at, dup := seen[key]; dup {
			return nil, fmt.Errorf("line %d: %s is already on line %d", i+1, key, at)
		}
		seen[key] = i + 1
		if len(out) == 0 {
			return nil, fmt.Errorf("line %d: no section title before it", i+1)
		}
		s := &out[len(out)-1]
		s.entries = append(s.entries, e)
	}
	return out, nil
}

func parseEntry(line string) (entry, error) {
	f := strings.SplitN(line, " | ", 3)
	if len(f) != 3 {
		return entry{}, fmt.Errorf("want `schema | Name(params) | doc`")
	}
	e := entry{schema: strings.TrimSpace(f[0]), doc: strings.TrimSpace(f[2])}
	e.shown, e.asFloat = map[string]bool{}, map[string]bool{}
	if err := e.parseSchema(); err != nil {
		return e, err
	}
	spec := strings.TrimSpace(f[1])
	if spec, e.function = strings.CutPrefix(spec, "func "); e.function {
		spec = strings.TrimSpace(spec)
	}
	name, rest, ok := strings.Cut(spec, "(")
	if !ok || !strings.HasSuffix(rest, ")") {
		return e, fmt.Errorf("%q: want Name(params)", spec)
	}
	e.goName = name
	if !token.IsExported(name) || !token.IsIdentifier(name) {
		return e, fmt.Errorf("%q is no exported Go name", name)
	}
	if !strings.HasPrefix(e.doc, name+" ") {
		return e, fmt.Errorf("%s: the doc line must begin with %q", name, name)
	}
	last := -1
	for _, p := range strings.Split(strings.TrimSuffix(rest, ")"), ",") {
		p = strings.TrimSpace(p)
		if p == "" {
			continue
		}
		if e.variadic != "" {
			return e, fmt.Errorf("%s: %s... must be the last parameter", name, e.variadic)
		}
		if q, ok := strings.CutSuffix(p, "..."); ok {
			p, e.variadic = q, q
		}
		p, kind, typed := strings.Cut(p, " ")
		at := slices.IndexFunc(e.params, func(q param) bool { return q.name == p })
		if at < 0 {
			return e, fmt.Errorf("%s has no parameter %q", e.name, p)
		}
		if at <= last {
			return e, fmt.Errorf("%s: parameter %q is out of the schema's order", name, p)
		}
		if e.variadic != "" && !strings.HasSuffix(e.params[at].typ, "[]") {
			return e, fmt.Errorf("%s: %s is no list and cannot be variadic", name, p)
		}
		if typed && (kind != "float" || e.params[at].typ != "Scalar") {
			return e, fmt.Errorf("%s: %s %s: only a Scalar can be shown as another type, as a float", name, p, kind)
		}
		last = at
		e.shown[p], e.asFloat[p] = true, typed
	}
	if !e.function {
		if len(e.params) == 0 || e.params[0].typ != "Tensor" {
			return e, fmt.Errorf("%s: a method needs a tensor as its first argument", e.goName)
		}
		e.shown[e.params[0].name] = true
	}
	for _, p := range e.params {
		if !e.shown[p.name] && !p.hasDefault {
			return e, fmt.Errorf("%s: parameter %q has no default and must be shown", name, p.name)
		}
	}
	return e, nil
}

// parseSchema reads name.overload(args) -> returns as libtorch prints it.
func (e *entry) parseSchema() error {
	head, rest, ok := strings.Cut(e.schema, "(")
	if !ok {
		return fmt.Errorf("%q is no schema", e.schema)
	}
	e.name, e.overload, _ = strings.Cut(head, ".")
	end := matching(rest)
	if end < 0 {
		return fmt.Errorf("%q: unbalanced parentheses", e.schema)
	}
	written := false
	for i, a := range splitTop(rest[:end]) {
		if a == "*" {
			continue
		}
		a, _, hasDefault := strings.Cut(a, "=")
		cut := strings.LastIndexByte(a, ' ')
		if cut < 0 {
			return fmt.Errorf("argument %q has no name", a)
		}
		typ, name := a[:cut], a[cut+1:]
		p := param{typ: stripAlias(typ), name: name, hasDefault: hasDefault}
		if i == 0 {
			written = strings.Contains(typ, "!")
		}
		p.typ = strings.TrimSuffix(p.typ, "?")
		e.params = append(e.params, p)
	}
	_, ret, ok := strings.Cut(rest[end:], "-> ")
	if !ok {
		return fmt.Errorf("%q has no returns", e.schema)
	}
	if strings.HasPrefix(ret, "(") {
		ret = ret[1 : 1+matching(ret[1:])]
	}
	for _, r := range splitTop(ret) {
		typ, _, _ := strings.Cut(r, " ")
		if strings.Contains(typ, "!") {
			e.inplace = written
			continue
		}
		e.returns = append(e.returns, stripAlias(typ))
	}
	return nil
}

// matching returns the index of the parenthesis that closes the one before s.
func matching(s string) int {
	depth := 1
	for i, c := range s {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

func splitTop(s string) []string {
	var out []string
	depth, start := 0, 0
	for i, c := range s {
		switch c {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, strings.TrimSpace(s[start:i]))
				start = i + 1
			}
		}
	}
	if last := strings.TrimSpace(s[start:]); last != "" {
		out = append(out, last)
	}
	return out
}

// stripAlias turns Tensor(a!)[] into Tensor[], and SymInt[2] into int[].
func stripAlias(t string) string {
	if i := strings.IndexByte(t, '('); i >= 0 {
		t = t[:i] + t[i+strings.IndexByte(t[i:], ')')+1:]
	}
	t = strings.ReplaceAll(t, "SymInt", "int")
	if i := strings.IndexByte(t, '['); i >= 0 {
		t = t[:i] + "[]" + t[i+strings.IndexByte(t[i:], ']')+1:]
	}
	return t
}
