package deptest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// CheckWords finds code outside of the given packages that compares a value with one of
// the typed constants that such a package declares: by == or !=, or as a case of a
// switch. Code that calls a method of the value instead needs no change when a constant
// is added. CheckWords returns one sentence per comparison. Files that end in _test.go,
// and test kits, may compare.
func CheckWords(root fs.FS, module string, packages []string) ([]string, error) {
	words := map[string]map[string]bool{}
	for _, folder := range packages {
		found, err := wordsOf(root, folder)
		if err != nil {
			return nil, err
		}
		words[path.Join(module, folder)] = found
	}
	folders, err := readFolders(root)
	if err != nil {
		return nil, err
	}
	var faults []string
	for _, f := range folders {
		if words[path.Join(module, f.path)] != nil || strings.HasSuffix(f.path, "test") || f.path == "internal/scenario" || strings.HasPrefix(f.path, "internal/scenario/") {
			continue
		}
		found, err := compared(root, f.path, words)
		if err != nil {
			return nil, err
		}
		faults = append(faults, found...)
	}
	return faults, nil
}

// parsed parses every file of a folder except tests, and calls a function for it.
func parsed(root fs.FS, folder string, do func(*ast.File, *token.FileSet)) error {
	names, err := fs.Glob(root, path.Join(folder, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", name, err)
		}
		do(file, files)
	}
	return nil
}

// wordsOf returns the exported typed constants of a folder.
func wordsOf(root fs.FS, folder string) (map[string]bool, error) {
	words := map[string]bool{}
	err := parsed(root, folder, func(file *ast.File, _ *token.FileSet) {
		for _, d := range file.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			typed := false
			for _, s := range group.Specs {
				spec := s.(*ast.ValueSpec)
				if spec.Type != nil || len(spec.Values) > 0 {
					_, typed = spec.Type.(*ast.Ident)
				}
				for _, name := range spec.Names {
					if typed && name.IsExported() {
						words[name.Name] = true
					}
				}
			}
		}
	})
	return words, err
}

// compared finds the comparisons of one folder.
func compared(root fs.FS, folder string, words map[string]map[string]bool) ([]string, error) {
	var faults []string
	err := parsed(root, folder, func(file *ast.File, files *token.FileSet) {
		names := map[string]string{} // package paths by their names in the file
		for _, i := range file.Imports {
			at, _ := strconv.Unquote(i.Path.Value)
			name := path.Base(at)
			if i.Name != nil {
				name = i.Name.Name
			}
			if words[at] != nil {
				names[name] = at
			}
		}
		check := func(e ast.Expr) {
			s, ok := e.(*ast.SelectorExpr)
			if !ok {
				return
			}
			if x, ok := s.X.(*ast.Ident); ok && words[names[x.Name]][s.Sel.Name] {
				faults = append(faults, fmt.Sprintf("%s: compares with %s.%s: ask the value what it means", files.Position(s.Pos()), x.Name, s.Sel.Name))
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					check(n.X)
					check(n.Y)
				}
			case *ast.CaseClause:
				for _, e := range n.List {
					check(e)
				}
			}
			return true
		})
	})
	return faults, err
}
