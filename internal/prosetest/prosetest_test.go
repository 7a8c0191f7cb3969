package prosetest

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

var rewrite = flag.Bool("rewrite", false, "lower the counts of known.txt that have fallen")

// moduleRoot is the module's root, seen from this folder.
const moduleRoot = "../.."

// TestFindingsOnlyFall compares the tree with known.txt.
func TestFindingsOnlyFall(t *testing.T) {
	findings, err := check(os.DirFS(moduleRoot))
	require.NoError(t, err)
	text, err := os.ReadFile("known.txt")
	require.NoError(t, err)
	known, err := parseCounts(string(text))
	require.NoError(t, err)
	for _, fault := range compare(findings, known) {
		if !*rewrite || !strings.HasSuffix(fault, lowered) {
			t.Error(fault)
		}
	}
	if *rewrite {
		require.NoError(t, os.WriteFile("known.txt", []byte(lower(findings, known)), 0o644))
	}
}

// lowered ends the sentences about counts that have fallen.
const lowered = "lower its count: go test ./internal/prosetest -rewrite"

// parseCounts reads lines of a folder and its number of findings.
func parseCounts(text string) (map[string]int, error) {
	known := map[string]int{}
	for line := range strings.Lines(text) {
		var folder string
		var n int
		if _, err := fmt.Sscanf(line, "%s %d", &folder, &n); err != nil {
			return nil, fmt.Errorf("known.txt: %q: %w", line, err)
		}
		known[folder] = n
	}
	return known, nil
}

// compare returns a sentence for each folder whose number of findings is not the known
// one, and the findings of those that have more.
func compare(findings []finding, known map[string]int) []string {
	byFolder := grouped(findings)
	folders := slices.Sorted(maps.Keys(byFolder))
	for folder := range known {
		if byFolder[folder] == nil {
			folders = append(folders, folder)
		}
	}
	var faults []string
	for _, folder := range folders {
		found := byFolder[folder]
		switch {
		case len(found) > known[folder]:
			faults = append(faults, fmt.Sprintf("%s: %d findings, and known.txt has %d; some of these are new:\n\t%s", folder, len(found), known[folder], strings.Join(found, "\n\t")))
		case len(found) < known[folder]:
			faults = append(faults, fmt.Sprintf("%s: %d findings, and known.txt has %d: %s", folder, len(found), known[folder], lowered))
		}
	}
	return faults
}

// lower returns known.txt with the counts that have fallen.
func lower(findings []finding, known map[string]int) string {
	byFolder := grouped(findings)
	var out strings.Builder
	for _, folder := range slices.Sorted(maps.Keys(known)) {
		if n := min(known[folder], len(byFolder[folder])); n > 0 {
			fmt.Fprintf(&out, "%s %d\n", folder, n)
		}
	}
	return out.String()
}

func grouped(findings []finding) map[string][]string {
	out := map[string][]string{}
	for _, f := range findings {
		out[f.folder] = append(out[f.folder], f.text)
	}
	return out
}

// TestCountsMayOnlyFall: a count that rises fails with the findings, one that has fallen
// until known.txt says so.
func TestCountsMayOnlyFall(t *testing.T) {
	findings := []finding{{"a", "a/x.go:1"}, {"a", "a/x.go:2"}, {"b", "b/y.go:3"}}
	require.Empty(t, compare(findings, map[string]int{"a": 2, "b": 1}))
	known := map[string]int{"a": 1, "b": 3, "c": 1}
	require.Equal(t, []string{
		"a: 2 findings, and known.txt has 1; some of these are new:\n\ta/x.go:1\n\ta/x.go:2",
		"b: 1 findings, and known.txt has 3: " + lowered,
		"c: 0 findings, and known.txt has 1: " + lowered,
	}, compare(findings, known))
	require.Equal(t, "a 1\nb 1\n", lower(findings, known))
	_, err := parseCounts("a\n")
	require.ErrorContains(t, err, `known.txt: "a\n"`)
}

// TestRules: each rule finds its wrong form once and the form to write instead never.
func TestRules(t *testing.T) {
	for _, rules := range [][]rule{phrases(), words()} {
		for _, m := range compile(rules) {
			require.Len(t, m.find(m.bad), 1, m.rule.wrong)
			require.Empty(t, m.find(m.good), m.rule.wrong)
			if m.unless != nil {
				require.Empty(t, of([]matcher{m}, []byte("DataLoader, arrow.ArrayData")), m.rule.wrong)
			}
			require.Len(t, of([]matcher{m}, []byte("package a")), 1, m.rule.wrong)
			require.Len(t, m.find(strings.ToUpper(m.bad)), 1, m.rule.wrong)
		}
	}
}

// TestFindings are those of each place where texts and names can be.
func TestFindings(t *testing.T) {
	const wrong = ": \"nobody\": write instead: name the component, or use the passive"
	for name, c := range map[string]struct {
		file, src string
		want      []string
	}{
		"comment":               {"a/a.go", "package a\n\n// Nobody reads it.\nvar x = 1\n", []string{`a/a.go:3: "Nobody"` + wrong[10:]}},
		"second line":           {"a/a.go", "package a\n\n// All is read,\n// by nobody.\nvar x = 1\n", []string{"a/a.go:4" + wrong}},
		"message":               {"a/a.go", "package a\n\nvar x = \"nobody reads it\"\n", []string{"a/a.go:3" + wrong}},
		"one word":              {"a/a.go", "package a\n\nvar x = \"nobody\"\n", nil},
		"quoted":                {"a/a.go", "package a\n\n// The word \"nobody\" or `nobody`.\nvar x = 1\n", nil},
		"name":                  {"a/a.go", "package a\n\nfunc f() { poolHelper := 1; _ = poolHelper }\n", []string{`a/a.go:3: "helper": write instead: a word of docs/glossary.md`}},
		"name of a test":        {"a/a_test.go", "package a\n\nfunc TestNobodyReads() {}\n", []string{"a/a_test.go:3: \"nobody\"" + wrong[10:]}},
		"bound":                 {"a/a.go", "package a\n\nconst mostRows = 1\n", []string{`a/a.go:3: "most": write instead: bounds are max… and min…`}},
		"Flight's names":        {"a/a.go", "package a\n\nvar flightInfo, dataFile int\n", nil},
		"Python's comment":      {"a/a.py", "x = 1  # nobody reads it\n", []string{"a/a.py:1" + wrong}},
		"Python's docstring":    {"a/a.py", "def f():\n    \"\"\"Read it.\n\n    By nobody.\n    \"\"\"\n", []string{"a/a.py:4" + wrong}},
		"Python's string":       {"a/a.py", "x = 'it\\'s nobody'\n", []string{"a/a.py:1" + wrong}},
		"Python's name":         {"a/a.py", "def helper():\n    pass\n", []string{`a/a.py:1: "helper": write instead: a word of docs/glossary.md`}},
		"page":                  {"a.md", "# A\n\nAll is\nread by nobody.\n", []string{"a.md:4" + wrong}},
		"code of a page":        {"a.md", "```sh\nnobody reads it\n```\n\nRead `nobody`.\n", nil},
		"history":               {"CHANGELOG.md", "Nobody.\n", nil},
		"records":               {"docs/adr/1.md", "Nobody.\n", nil},
		"testdata":              {"a/testdata/a.md", "Nobody.\n", nil},
		"a phrase in two lines": {"a.md", "The caller is\ntold.\n", []string{`a.md:1: "is told": write instead: returns, reports, logs`}},
		"other workers":         {"a.md", "Readers are workers.\n", []string{`a.md:1: "workers": write instead: worker is torch's DataLoader's alone`}},
		"workers of torch":      {"a.md", "DataLoader workers share a rank's shard.\n", nil},
	} {
		findings, err := check(fstest.MapFS{c.file: {Data: []byte(c.src)}})
		require.NoError(t, err, name)
		var got []string
		for _, f := range findings {
			got = append(got, f.text)
		}
		require.Equal(t, c.want, got, name)
	}
	_, err := check(fstest.MapFS{"a/a.go": {Data: []byte("packag a")}})
	require.ErrorContains(t, err, "a/a.go:1:1")
}
