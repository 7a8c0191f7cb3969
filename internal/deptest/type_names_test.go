package deptest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "lower the counts of type_names.txt that have fallen")

// TestTypeNamesMeanOneThing compares the names that several packages declare with
// type_names.txt, where each has the number of its packages. A number may only fall.
func TestTypeNamesMeanOneThing(t *testing.T) {
	shared, err := SharedTypeNames(os.DirFS(moduleRoot))
	require.NoError(t, err)
	text, err := os.ReadFile("type_names.txt")
	require.NoError(t, err)
	known := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var name string
		var n int
		_, err := fmt.Sscanf(line, "%s %d", &name, &n)
		require.NoError(t, err, line)
		known[name] = n
	}
	if *rewrite {
		var out strings.Builder
		for _, name := range slices.Sorted(maps.Keys(known)) {
			if n := min(known[name], len(shared[name])); n > 0 {
				fmt.Fprintf(&out, "%s %d\n", name, n)
			}
			known[name] = min(known[name], len(shared[name]))
		}
		require.NoError(t, os.WriteFile("type_names.txt", []byte(out.String()), 0o644))
	}
	for _, fault := range typeNameFaults(shared, known) {
		t.Error(fault)
	}
}

// typeNameFaults returns a sentence for each name whose number of packages is not the
// known one.
func typeNameFaults(shared map[string][]string, known map[string]int) []string {
	names := slices.Collect(maps.Keys(shared))
	for name := range known {
		if shared[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var faults []string
	for _, name := range names {
		switch in := shared[name]; {
		case len(in) > known[name] && known[name] == 0:
			faults = append(faults, fmt.Sprintf("%s is a type of %s: one name, one type", name, strings.Join(in, ", ")))
		case len(in) > known[name]:
			faults = append(faults, fmt.Sprintf("%s is a type of %s, and of %d packages in type_names.txt: one name, one type", name, strings.Join(in, ", "), known[name]))
		case len(in) < known[name]:
			faults = append(faults, fmt.Sprintf("%s is a type of %d packages, and of %d in type_names.txt: lower its count: go test ./internal/deptest -rewrite", name, len(in), known[name]))
		}
	}
	return faults
}

func TestSharedTypeNamesAreFound(t *testing.T) {
	root := fstest.MapFS{
		"a/a.go":       {Data: []byte("package a\n\ntype (\n\tplace struct{}\n\tOptions struct{}\n\tpart int\n)\n")},
		"a/on.go":      {Data: []byte("//go:build on\n\npackage a\n\ntype part string\n")},
		"b/b.go":       {Data: []byte("package b\n\ntype place int\n\ntype Options struct{}\n\nfunc f() { type part int }\n")},
		"tools/c/c.go": {Data: []byte("package main\n\ntype place int\n")},
		"c/c_test.go":  {Data: []byte("package c\n\ntype place int\n")},
	}
	shared, err := SharedTypeNames(root)
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"place": {"a", "b"}}, shared)
	require.Equal(t, []string{"place is a type of a, b: one name, one type"}, typeNameFaults(shared, nil))
	require.Empty(t, typeNameFaults(shared, map[string]int{"place": 2}))
	require.Equal(t, []string{
		"gone is a type of 0 packages, and of 3 in type_names.txt: lower its count: go test ./internal/deptest -rewrite",
		"place is a type of a, b, and of 1 packages in type_names.txt: one name, one type",
	}, typeNameFaults(shared, map[string]int{"place": 1, "gone": 3}))
}
