package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"path"
	"regexp"
	"slices"
	"strings"
)

// figures are what the table is made of. Slices have one element per file, function,
// interface, package or struct.
type figures struct {
	lines, testLines     int
	code, comments       int // lines outside of tests; a comment behind code is code
	files                []int
	functions            []int
	interfaces           []int
	packages             []packageFigure // those with the most files come first
	exported, documented int
	structs              []structFigure // those with the most mutable fields come first
}

// packageFigure is one package.
type packageFigure struct {
	folder string
	files  int
}

// structFigure is one struct type.
type structFigure struct {
	name            string // with its folder
	fields, mutable int
}

// measure reads the product's Go files below root.
func measure(root fs.FS) (*figures, error) {
	f := &figures{}
	err := fs.WalkDir(root, ".", func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if _, err := fs.Stat(root, path.Join(dir, "go.mod")); dir != "." && (err == nil || outside.MatchString(dir)) {
			return fs.SkipDir
		}
		return f.folder(root, dir)
	})
	slices.SortFunc(f.structs, func(a, b structFigure) int {
		return cmp.Or(b.mutable-a.mutable, strings.Compare(a.name, b.name))
	})
	slices.SortFunc(f.packages, func(a, b packageFigure) int {
		return cmp.Or(b.files-a.files, strings.Compare(a.folder, b.folder))
	})
	return f, err
}

// outside are the folders of the module that are not the product: test kits, data of tests,
// hidden folders.
var outside = regexp.MustCompile(`(^|/)([a-z0-9]*test|errstore|testdata|[._].*)$|^internal/scenario$`)

// folder adds the files of one folder.
func (f *figures) folder(root fs.FS, dir string) error {
	names, err := fs.Glob(root, path.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range names {
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		n := bytes.Count(src, []byte("\n"))
		if strings.HasSuffix(name, "_test.go") {
			f.testLines += n
			continue
		}
		file, err := parser.ParseFile(set, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, file)
		f.lines += n
		f.files = append(f.files, n)
		f.countLines(src)
		f.declarations(set, file)
	}
	if len(parsed) > 0 {
		f.packages = append(f.packages, packageFigure{dir, len(parsed)})
	}
	f.structs = append(f.structs, structs(dir, parsed)...)
	return nil
}

// countLines counts lines of code and of comments. A comment in the form /* */ is code.
func (f *figures) countLines(src []byte) {
	for line := range bytes.Lines(src) {
		switch line = bytes.TrimSpace(line); {
		case bytes.HasPrefix(line, []byte("//")):
			f.comments++
		case len(line) > 0:
			f.code++
		}
	}
}

// declarations counts a file's functions, interfaces and exported types.
func (f *figures) declarations(set *token.FileSet, file *ast.File) {
	for _, d := range file.Decls {
		if function, ok := d.(*ast.FuncDecl); ok {
			f.functions = append(f.functions, set.Position(function.End()).Line-set.Position(function.Pos()).Line+1)
		}
	}
	for spec, documented := range typesOf(file) {
		if i, ok := spec.Type.(*ast.InterfaceType); ok {
			f.interfaces = append(f.interfaces, i.Methods.NumFields())
		}
		if spec.Name.IsExported() {
			f.exported++
			if documented {
				f.documented++
			}
		}
	}
}

// typesOf yields the types that a file declares outside of functions, and whether each
// has a comment.
func typesOf(file *ast.File) iter.Seq2[*ast.TypeSpec, bool] {
	return func(yield func(*ast.TypeSpec, bool) bool) {
		for _, d := range file.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range group.Specs {
				if spec, ok := s.(*ast.TypeSpec); ok && !yield(spec, spec.Doc != nil || group.Doc != nil) {
					return
				}
			}
		}
	}
}

// structs returns the struct types of a package.
func structs(dir string, files []*ast.File) []structFigure {
	fields := map[string]map[string]bool{} // by type and field: whether it is mutable
	for _, file := range files {
		for spec := range typesOf(file) {
			if t, ok := spec.Type.(*ast.StructType); ok {
				fields[spec.Name.Name] = fieldsOf(t)
			}
		}
	}
	for _, file := range files {
		for _, d := range file.Decls {
			if function, ok := d.(*ast.FuncDecl); ok && function.Body != nil && !constructor(function.Name.Name) {
				markAssigned(function, fields)
			}
		}
	}
	var out []structFigure
	for name, of := range fields {
		s := structFigure{name: fmt.Sprintf("%s.%s", dir, name), fields: len(of)}
		for _, mutable := range of {
			if mutable {
				s.mutable++
			}
		}
		out = append(out, s)
	}
	return out
}

// fieldsOf returns a struct's named fields, and whether they are atomic.
func fieldsOf(t *ast.StructType) map[string]bool {
	out := map[string]bool{}
	for _, field := range t.Fields.List {
		base := field.Type
		if generic, ok := base.(*ast.IndexExpr); ok {
			base = generic.X
		}
		s, ok := base.(*ast.SelectorExpr)
		atomic := ok && fmt.Sprint(s.X) == "atomic"
		for _, name := range field.Names {
			out[name.Name] = atomic
		}
	}
	return out
}

// constructor reports whether a function's name is that of one.
func constructor(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "new") || strings.HasPrefix(name, "open") || strings.HasPrefix(name, "make")
}

// markAssigned marks the fields that a function assigns through its receiver and its
// parameters.
func markAssigned(function *ast.FuncDecl, fields map[string]map[string]bool) {
	types := typesOfVariables(function)
	mark := func(e ast.Expr) {
		if index, ok := e.(*ast.IndexExpr); ok {
			e = index.X
		}
		s, ok := e.(*ast.SelectorExpr)
		if !ok {
			return
		}
		if x, ok := s.X.(*ast.Ident); ok {
			of := fields[types[x.Name]]
			if _, named := of[s.Sel.Name]; named {
				of[s.Sel.Name] = true
			}
		}
	}
	ast.Inspect(function.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				mark(e)
			}
		case *ast.IncDecStmt:
			mark(n.X)
		}
		return true
	})
}

// typesOfVariables returns the names of the types of a function's receiver and parameters.
func typesOfVariables(function *ast.FuncDecl) map[string]string {
	types := map[string]string{}
	lists := []*ast.FieldList{function.Type.Params}
	if function.Recv != nil {
		lists = append(lists, function.Recv)
	}
	for _, list := range lists {
		for _, p := range list.List {
			for _, name := range p.Names {
				types[name.Name] = typeName(p.Type)
			}
		}
	}
	return types
}

// typeName returns the name of a type of the same package that a pointer or a generic
// type is of; "" for others.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
