package main

import (
	"bytes"
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMutantsAreNotStale finds the text of every mutant, so that a change of
// the code that it aims at shows before `make mutants` is run again.
func TestMutantsAreNotStale(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, m := range mutants() {
		require.False(t, names[m.name], "two mutants are called %s", m.name)
		names[m.name] = true
		source, err := os.ReadFile(filepath.Join("..", "..", m.file))
		require.NoError(t, err, m.name)
		require.Equal(t, 1, bytes.Count(source, []byte(m.old)), "%s: how often its text is found in %s", m.name, m.file)
		require.NotEqual(t, m.old, m.new, m.name)
		require.NotEmpty(t, m.tests, m.name)
	}
}

// TestTextsAreThere finds the tests that do not count, so that none of them counts
// again under another name.
func TestTextsAreThere(t *testing.T) {
	t.Parallel()
	root := os.DirFS(filepath.Join("..", ".."))
	for _, name := range texts() {
		found := 0
		require.NoError(t, fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() && strings.HasPrefix(path, ".") && path != "." {
				return cmp.Or(err, fs.SkipDir)
			}
			if !strings.HasSuffix(path, "_test.go") {
				return nil
			}
			source, err := fs.ReadFile(root, path)
			found += bytes.Count(source, []byte("func "+name+"(t *testing.T)"))
			return err
		}))
		require.Equal(t, 1, found, name)
	}
}

// TestCaughtMutantsAreThere reads caught.txt: each line is of a mutant, and names a
// folder whose tests the mutant runs.
func TestCaughtMutantsAreThere(t *testing.T) {
	t.Parallel()
	known, err := readCaught("caught.txt")
	require.NoError(t, err)
	require.NotEmpty(t, known)
	folders := map[string][]string{}
	for _, m := range mutants() {
		folders[m.name] = m.tests
	}
	for name, by := range known {
		require.Contains(t, folders[name], by.folder, name)
	}
}

// TestRunsBeginWithWhatCaughtTheMutant, and then take each folder alone, that of the
// mutated file first.
func TestRunsBeginWithWhatCaughtTheMutant(t *testing.T) {
	t.Parallel()
	m := mutant{file: "loader/plan/order.go", tests: []string{"-timeout", "9s", "./loader", "./loader/plan"}}
	plan, loader := []string{"-timeout", "9s", "./loader/plan"}, []string{"-timeout", "9s", "./loader"}
	require.Equal(t, [][]string{plan, loader}, m.runs(catch{}))
	require.Equal(t, [][]string{plan, loader}, m.runs(catch{"./loader", crash}))
	require.Equal(t, [][]string{{"-timeout", "9s", "-run", "^TestA$", "./loader"}, plan, loader}, m.runs(catch{"./loader", "TestA"}))
}

func TestFailedNamesTheFirst(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]string{
		"=== x\n--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/b\n--- FAIL: TestB (0s)\nFAIL\n": "TestA",
		"panic: index out of range [3]\n\ngoroutine 1\nFAIL\n":                               crash,
	} {
		by, err := failed([]byte(out))
		require.NoError(t, err)
		require.Equal(t, want, by)
	}
	_, err := failed([]byte("go: cannot find module\n"))
	require.ErrorContains(t, err, "NO TEST FAILED")
}
