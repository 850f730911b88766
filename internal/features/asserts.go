package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// source reads the test functions of packages to see whether they say anything.
type source struct {
	root     string
	packages map[string]map[string]*function // folder -> name -> function or method
}

type function struct {
	decl     *ast.FuncDecl
	imports  map[string]string // name in the file -> folder of the module, "" for other modules
	examples string            // comments of the body
	asserts  *bool
}

func newSource(root string) *source {
	return &source{root: root, packages: map[string]map[string]*function{}}
}

// showsNothing says why a test that passed proves nothing, or "": it has no statement, or none that could fail; an example needs an output.
func (s *source) showsNothing(pkg, name string) (string, error) {
	functions, err := s.load(pkg)
	if err != nil {
		return "", err
	}
	f, ok := functions[name]
	switch {
	case !ok:
		return "missing: the source has no such function", nil
	case len(f.decl.Body.List) == 0:
		return "empty", nil
	case strings.HasPrefix(name, "Example"):
		if !strings.Contains(f.examples, "Output:") && !strings.Contains(f.examples, "output:") {
			return "an example without output, which is not run", nil
		}
	case !s.assertsIn(pkg, f):
		return "it asserts nothing", nil
	}
	return "", nil
}

func (s *source) load(pkg string) (map[string]*function, error) {
	if have, ok := s.packages[pkg]; ok {
		return have, nil
	}
	paths, err := filepath.Glob(filepath.Join(s.root, pkg, "*.go"))
	if err != nil {
		return nil, err
	}
	functions := map[string]*function{}
	s.packages[pkg] = functions
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		imports := map[string]string{}
		for _, i := range file.Imports {
			at, _ := strconv.Unquote(i.Path.Value)
			name := at[strings.LastIndexByte(at, '/')+1:]
			if i.Name != nil {
				name = i.Name.Name
			}
			folder, inside := strings.CutPrefix(at, modulePath+"/")
			if !inside {
				folder = ""
			}
			imports[name] = folder
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.FuncDecl)
			if !ok || decl.Body == nil {
				continue
			}
			f := &function{decl: decl, imports: imports}
			for _, c := range file.Comments {
				if c.Pos() > decl.Body.Pos() && c.End() < decl.Body.End() {
					f.examples += c.Text()
				}
			}
			functions[decl.Name.Name] = f
		}
	}
	return functions, nil
}

// fails says whether a method is one of testing.T's that fail a test. An error's text is not.
func fails(call *ast.CallExpr, method string) bool {
	switch method {
	case "Error", "Errorf", "Fatal", "Fatalf":
		return len(call.Args) > 0
	case "Fail", "FailNow":
		return true
	}
	return false
}

// assertsIn says whether a call below the function can fail the test: testify's, T's own, or a function of this module that does.
func (s *source) assertsIn(pkg string, f *function) bool {
	if f.asserts != nil {
		return *f.asserts
	}
	no := false
	f.asserts = &no // for functions that call each other
	found := false
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || found {
			return !found
		}
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			found = s.asserts(pkg, fun.Name)
		case *ast.IndexExpr: // f[T](…)
			if id, ok := fun.X.(*ast.Ident); ok {
				found = s.asserts(pkg, id.Name)
			}
		case *ast.SelectorExpr:
			x, plain := fun.X.(*ast.Ident)
			if !plain {
				found = fails(call, fun.Sel.Name)
				break
			}
			folder, imported := f.imports[x.Name]
			switch {
			case imported && folder == "":
				found = x.Name == "require" || x.Name == "assert"
			case imported:
				found = s.asserts(folder, fun.Sel.Name)
			default: // a variable: T, or something with methods of its own
				found = fails(call, fun.Sel.Name) || s.asserts(pkg, fun.Sel.Name)
			}
		}
		return !found
	})
	f.asserts = &found
	return found
}

func (s *source) asserts(pkg, name string) bool {
	functions, err := s.load(pkg)
	if err != nil {
		return false
	}
	f, ok := functions[name]
	return ok && takesTesting(f) && s.assertsIn(pkg, f)
}

// takesTesting says whether a function has a parameter (or a receiver) of package testing: others cannot fail a test.
func takesTesting(f *function) bool {
	if f.decl.Recv != nil {
		return true
	}
	for _, p := range f.decl.Type.Params.List {
		t := p.Type
		if star, ok := t.(*ast.StarExpr); ok {
			t = star.X
		}
		if sel, ok := t.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && (x.Name == "testing" || x.Name == "require") {
				return true
			}
		}
	}
	return false
}
