package deptest

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// TestWordsAreNotCompared: the meaning of a kind of join or a form of the wire is defined
// in the package that declares it.
func TestWordsAreNotCompared(t *testing.T) {
	root := os.DirFS(moduleRoot)
	faults, err := CheckWords(root, moduleName(t, root), []string{"joiner/rule", "loader/dataset"})
	require.NoError(t, err)
	for _, fault := range faults {
		t.Error(fault)
	}
	words, err := wordsOf(root, "joiner/rule")
	require.NoError(t, err)
	require.Subset(t, words, map[string]bool{"Left": true, "Anti": true, "DuplicatesAll": true, "NullsKeep": true, "StrategyZip": true})
	words, err = wordsOf(root, "loader/dataset")
	require.NoError(t, err)
	require.Subset(t, words, map[string]bool{"WireIndexed": true, "TailDrop": true})
	require.NotContains(t, words, "CursorVersion")
}

func TestComparisonsAreFound(t *testing.T) {
	const imports = "package a\n\nimport w \"example.org/m/words\"\n\n"
	for name, c := range map[string]struct {
		src  string
		want []string
	}{
		"asked":        {"var x = w.Kind(1).Good()", nil},
		"given":        {"var x = w.Good", nil},
		"untyped":      {"var x = 7 == w.Version", nil},
		"equal":        {"var x = k == w.Good", []string{"a/a.go:5:14: compares with w.Good: ask the value what it means"}},
		"unequal":      {"var x = w.Bad != k", []string{"a/a.go:5:9: compares with w.Bad: ask the value what it means"}},
		"a case":       {"func f() { switch k { case 1, w.Bad: } }", []string{"a/a.go:5:31: compares with w.Bad: ask the value what it means"}},
		"another name": {"var x = k == words.Good", nil},
	} {
		root := fstest.MapFS{
			"words/words.go": {Data: []byte("package words\n\ntype Kind int\n\nconst (\n\tGood Kind = iota\n\tBad\n)\n\nconst Version = 7\n")},
			"a/a.go":         {Data: []byte(imports + c.src + "\n")},
			"a/a_test.go":    {Data: []byte(imports + "var y = k == w.Good\n")},
		}
		faults, err := CheckWords(root, "example.org/m", []string{"words"})
		require.NoError(t, err, name)
		require.Equal(t, c.want, faults, name)
	}
}
