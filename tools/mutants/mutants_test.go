package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMutantsAreFound finds the code and the test of every mutant, so that a change of the
// code that it aims at shows before the mutant is run again.
func TestMutantsAreFound(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	text, err := os.ReadFile("mutants.txt")
	require.NoError(t, err)
	all, err := parse(string(text))
	require.NoError(t, err)
	require.LessOrEqual(t, len(all), 310, "mutants are for resolver, plan, joiner, lane, cursor, commit and policy")
	tests := map[string]string{}
	for _, m := range all {
		if _, err := find(m, root); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if tests[m.folder] == "" {
			tests[m.folder] = testsOf(t, filepath.Join(root, m.folder))
		}
		if !strings.Contains(tests[m.folder], "func "+m.test+"(t *testing.T)") {
			t.Errorf("%s: %s has no test %s", m.name, m.folder, m.test)
		}
	}
}

// testsOf returns the source of all tests of a folder.
func testsOf(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(source)
	}
	return all.String()
}

func TestCodeIsFoundByItsTokens(t *testing.T) {
	t.Parallel()
	source := []byte("package p\n\nfunc (s *set[T]) add(a int) {\n\tif a > 0 { // why\n\t\ts.n += f(a,\n\t\t\t\"b c\")\n\t}\n}\n\nfunc other() { s.n += 1 }\n")
	declared := declared(source, "set.add")
	require.Len(t, declared, 1)
	in := source[declared[0].from:declared[0].to]
	for code, want := range map[string]string{
		`s.n += f(a, "b c")`: "s.n += f(a,\n\t\t\t\"b c\")",
		"if a > 0 {\ns.n":    "if a > 0 { // why\n\t\ts.n",
		"s.n += 1":           "",
		"s . n":              "s.n",
		`"b  c"`:             "",
		"a":                  "several",
	} {
		found := search(in, code)
		switch want {
		case "":
			require.Empty(t, found, code)
		case "several":
			require.Greater(t, len(found), 1, code)
		default:
			require.Len(t, found, 1, code)
			require.Equal(t, want, string(in[found[0].from:found[0].to]), code)
		}
	}
}

func TestPartsAreAllMutantsOnce(t *testing.T) {
	t.Parallel()
	all := []mutant{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}, {name: "e"}}
	var names []string
	for _, part := range []string{"0/3", "4/3", "8/3"} {
		chosen, err := choose(all, part, nil)
		require.NoError(t, err)
		for _, m := range chosen {
			names = append(names, m.name)
		}
	}
	require.ElementsMatch(t, []string{"a", "b", "c", "d", "e"}, names)
	for _, part := range []string{"", "1", "1/0", "-1/2"} {
		_, err := choose(all, part, nil)
		require.Error(t, err, part)
	}
}

func TestMutantsOfAText(t *testing.T) {
	t.Parallel()
	all, err := parse("a\nin p f\nby ./p TestF\n- x\n-  y\n+ z\n\nb\nin p T.g\nby ./q TestG\n- x\n")
	require.NoError(t, err)
	require.Equal(t, []mutant{
		{name: "a", pkg: "p", declaration: "f", code: "x\n y", replacement: "z", folder: "./p", test: "TestF"},
		{name: "b", pkg: "p", declaration: "T.g", code: "x", folder: "./q", test: "TestG"},
	}, all)
	for _, wrong := range []string{
		"a\nin p f\nby ./p TestF\n- x\n+ x\n", "a\nin p\nby ./p TestF\n- x\n", "a\nin p f\n- x\n", "a\nin p f\nby ./p TestF\n",
		"a\nin p f\nby ./p TestF\n- x\nz\n", "a\nin p f\nby ./p TestF\n- x\n\na\nin p f\nby ./p TestF\n- x\n",
	} {
		_, err := parse(wrong)
		require.Error(t, err, wrong)
	}
}

func TestBuildsThatFailCatchNothing(t *testing.T) {
	t.Parallel()
	require.True(t, failed([]byte("=== x\n--- FAIL: TestA (0.1s)\n")))
	require.True(t, failed([]byte("panic: index out of range [3]\n\ngoroutine 1\nFAIL\n")))
	require.False(t, failed([]byte("go: cannot find module\n")))
	require.False(t, failed([]byte("x.go:1: undefined: y\nFAIL penstock/p [build failed]\n")))
}
