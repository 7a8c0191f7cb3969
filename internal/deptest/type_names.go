package deptest

import (
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// SharedTypeNames returns the names of types that several packages declare, each with
// these packages in order. Files that end in _test.go do not count, nor do programs for
// developers and the name in usual.
func SharedTypeNames(root fs.FS) (map[string][]string, error) {
	folders, err := readFolders(root)
	if err != nil {
		return nil, err
	}
	declaring := map[string][]string{}
	for _, f := range folders {
		if strings.HasPrefix(f.path, "benchmarks/") || strings.HasPrefix(f.path, "tools/") {
			continue
		}
		names, err := typeNames(root, f.path)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			declaring[name] = append(declaring[name], f.path)
		}
	}
	maps.DeleteFunc(declaring, func(name string, in []string) bool { return len(in) < 2 || name == usual })
	return declaring, nil
}

// usual is what a package's settings are called in all packages that have some.
const usual = "Options"

// typeNames returns the names of a package's types, without those inside of functions.
func typeNames(root fs.FS, folder string) ([]string, error) {
	var names []string
	err := parsed(root, folder, func(file *ast.File, _ *token.FileSet) {
		for _, d := range file.Decls {
			if group, ok := d.(*ast.GenDecl); ok {
				for _, s := range group.Specs {
					if spec, ok := s.(*ast.TypeSpec); ok && !slices.Contains(names, spec.Name.Name) {
						names = append(names, spec.Name.Name)
					}
				}
			}
		}
	})
	return names, err
}
