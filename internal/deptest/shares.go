package deptest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// CheckShares finds tests that do less in builds with one of shareTags than in others, and that no
// command of wholeTarget runs whole. Such a test uses a name that a test file for one of these
// builds declares, itself or by a function, or it is in a file that these builds
// leave out. CheckShares returns one sentence per test.
func CheckShares(root fs.FS) ([]string, error) {
	folders, err := readFolders(root)
	if err != nil {
		return nil, err
	}
	makefile, err := fs.ReadFile(root, "Makefile")
	if err != nil {
		return nil, fmt.Errorf("read the Makefile: %w", err)
	}
	whole, err := wholeRuns(string(makefile))
	if err != nil {
		return nil, err
	}
	var faults []string
	for _, f := range folders {
		tests, err := sharedTests(root, f.path)
		if err != nil {
			return nil, err
		}
		for _, test := range tests {
			if !slices.ContainsFunc(whole, func(r wholeRun) bool { return r.has(f.path, test) }) {
				faults = append(faults, fmt.Sprintf("%s: %s does less in make test, and make %s does not run it: add it to a command there", f.path, test, wholeTarget))
			}
		}
	}
	return faults, nil
}

// wholeTarget is the target of the Makefile that runs tests whole.
const wholeTarget = "test-random"

// shareTags returns the build tags with which tests try a share of their cases: that of the race
// detector, and that of make test without it.
func shareTags() []string { return []string{"race", "share"} }

// wholeRun is a command that runs tests whole.
type wholeRun struct {
	folders []string
	run     *regexp.Regexp // of the names of tests; nil for all
}

func (r wholeRun) has(folder, test string) bool {
	return slices.Contains(r.folders, folder) && (r.run == nil || r.run.MatchString(test))
}

// variable matches a variable of the Makefile that is a command to run tests.
var variable = regexp.MustCompile(`(?m)^([A-Z_]+) := \$\(GO\) test (.*)$`)

// wholeRuns returns the commands of wholeTarget.
func wholeRuns(makefile string) ([]wholeRun, error) {
	_, recipe, _ := strings.Cut(makefile, "\n"+wholeTarget+":")
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	var all []wholeRun
	for _, v := range variable.FindAllStringSubmatch(makefile, -1) {
		words := strings.Fields(v[2])
		if !strings.Contains(recipe, "\t$("+v[1]+")") || triesShare(words) {
			continue
		}
		var run wholeRun
		for i, word := range words {
			if folder, ok := strings.CutPrefix(word, "./"); ok {
				run.folders = append(run.folders, folder)
			}
			if word == "-run" && i+1 < len(words) {
				pattern, err := regexp.Compile(strings.Trim(words[i+1], "'"))
				if err != nil {
					return nil, fmt.Errorf("read %s of the Makefile: %w", v[1], err)
				}
				run.run = pattern
			}
		}
		all = append(all, run)
	}
	if len(all) == 0 {
		return nil, errors.New("the Makefile has no command of " + wholeTarget)
	}
	return all, nil
}

// triesShare reports whether the arguments of go test set one of shareTags.
func triesShare(words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		return slices.ContainsFunc(strings.Split(strings.TrimPrefix(word, "-"), ","), func(tag string) bool { return slices.Contains(shareTags(), tag) })
	})
}

// sharedTests returns the tests of a folder that do less in builds with one of shareTags.
func sharedTests(root fs.FS, folder string) ([]string, error) {
	names, err := fs.Glob(root, path.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	less := map[string]bool{}            // names that are other, or absent, with shareTags
	used := map[string]map[string]bool{} // what a function uses, by its name
	for _, name := range names {
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		differs := dependsOnShare(file)
		for _, declared := range declarations(file) {
			less[declared] = less[declared] || differs
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				used[f.Name.Name] = identifiers(used[f.Name.Name], f)
			}
		}
	}
	return closure(less, used), nil
}

// closure returns the tests that are, or use, one of the names that do less.
func closure(less map[string]bool, used map[string]map[string]bool) []string {
	for grown := true; grown; {
		grown = false
		for name, uses := range used {
			for word := range uses {
				if less[word] && !less[name] {
					less[name], grown = true, true
				}
			}
		}
	}
	var tests []string
	for name := range used {
		if less[name] && strings.HasPrefix(name, "Test") && name != "TestMain" {
			tests = append(tests, name)
		}
	}
	slices.Sort(tests)
	return tests
}

// dependsOnShare reports whether one of shareTags decides about the build of a file.
func dependsOnShare(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if group.Pos() > file.Package || !constraint.IsGoBuild(comment.Text) {
				continue
			}
			built, err := constraint.Parse(comment.Text)
			if err != nil {
				continue // the compiler refuses it
			}
			whole := built.Eval(func(tag string) bool { return !slices.Contains(shareTags(), tag) })
			for _, share := range shareTags() {
				if whole != built.Eval(func(tag string) bool { return tag == share || !slices.Contains(shareTags(), tag) }) {
					return true
				}
			}
		}
	}
	return false
}

// declarations returns the names of functions, constants and variables of a file.
func declarations(file *ast.File) []string {
	var names []string
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if spec, ok := s.(*ast.ValueSpec); ok {
					for _, name := range spec.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// identifiers adds the names in a function to those given. A variable or field of the same
// name as a constant counts as that constant: that may require too much, never too little.
func identifiers(to map[string]bool, f *ast.FuncDecl) map[string]bool {
	if to == nil {
		to = map[string]bool{}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok {
			to[name.Name] = true
		}
		return true
	})
	return to
}
