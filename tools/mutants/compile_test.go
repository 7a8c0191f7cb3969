package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// TestMutantsCompile checks the types of every mutated package: a mutant that does not compile tests nothing.
func TestMutantsCompile(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	text, err := os.ReadFile("mutants.txt")
	require.NoError(t, err)
	all, err := parse(string(text))
	require.NoError(t, err)
	packages := list(t, root, all)
	files := token.NewFileSet()
	// Packages are imported once for all mutants.
	imports := importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(packages[path].Export) })
	byFolder := map[string]listed{}
	for _, p := range packages {
		byFolder[p.Dir] = p
	}
	for _, m := range all {
		found, err := find(m, root)
		require.NoError(t, err, m.name)
		p := byFolder[filepath.Join(root, m.pkg)]
		var syntax []*ast.File
		for _, name := range p.GoFiles {
			file, source := filepath.Join(p.Dir, name), any(nil)
			if file == found.file {
				source = found.replaced(m.replacement)
			}
			parsed, err := parser.ParseFile(files, file, source, parser.SkipObjectResolution)
			require.NoError(t, err, m.name)
			syntax = append(syntax, parsed)
		}
		if _, err := (&types.Config{Importer: imports}).Check(p.ImportPath, files, syntax, nil); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// list returns the packages of the mutants and those that they import, compiled, by import path.
func list(t *testing.T, root string, all []mutant) map[string]listed {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-tags=invariants", "-json=ImportPath,Dir,Export,GoFiles"}
	for _, m := range all {
		if folder := "./" + m.pkg; !slices.Contains(args, folder) {
			args = append(args, folder)
		}
	}
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = root
	out, err := command.Output()
	require.NoError(t, err)
	packages := map[string]listed{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(t, err)
		packages[p.ImportPath] = p
	}
}
