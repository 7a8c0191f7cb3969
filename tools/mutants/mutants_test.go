package main

import (
	"bytes"
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
		if found := bytes.Count(source, []byte(m.old)); found != 1 {
			t.Errorf("%s: its text is found %d times in %s", m.name, found, m.file)
		}
		require.NotEqual(t, m.old, m.new, m.name)
		require.NotEmpty(t, m.tests, m.name)
	}
}

// TestTextsAreThere finds the tests that do not count, and those that run last, so that
// none of them counts again, or runs first, under another name.
func TestTextsAreThere(t *testing.T) {
	t.Parallel()
	root := os.DirFS(filepath.Join("..", ".."))
	for _, name := range slices.Concat(texts(), slow()) {
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

// TestRunsBeginWithWhatCaughtTheMutant: then each folder runs alone, that of the mutated
// file first, without slow tests; and at last with them.
func TestRunsBeginWithWhatCaughtTheMutant(t *testing.T) {
	t.Parallel()
	m := mutant{file: "loader/plan/order.go", tests: []string{"-timeout", "9s", "./loader", "./loader/plan"}}
	runs := m.runs(catch{"./loader", "TestA"})
	require.Equal(t, []string{"-timeout", "9s", "-run", "^TestA$", "./loader"}, runs[0])
	require.Equal(t, runs[1:], m.runs(catch{}))
	require.Equal(t, runs[1:], m.runs(catch{"./loader", crash}))
	require.Len(t, runs, 5)
	for i, folder := range []string{"./loader/plan", "./loader"} {
		quick, all := runs[1+i], runs[3+i]
		require.Equal(t, []string{"-timeout", "9s", folder}, all)
		require.Equal(t, "-skip", quick[2])
		require.Contains(t, quick[3], "TestOracle|")
		require.Contains(t, quick[3], "TestReport|")
		require.Equal(t, folder, quick[4])
	}
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
