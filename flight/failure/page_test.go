package failure

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// errorsPage returns the page on errors.
func errorsPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/errors.md")
	require.NoError(t, err)
	return string(text)
}

// The page has a row for every kind of failure, with its code on the wire and what to do.
func TestErrorsPageHasKinds(t *testing.T) {
	page, names := errorsPage(t), map[string]bool{}
	words := regexp.MustCompile(`([a-z])([A-Z])`)
	for kind := fault.Internal; !names[kind.String()]; kind++ { // kinds after the last are named internal
		names[kind.String()] = true
		code := strings.ToUpper(words.ReplaceAllString(codeOf(kind).String(), "${1}_$2"))
		require.Regexp(t, fmt.Sprintf("(?m)^\\| %s \\| %s \\| `\\w+` \\| .{20,} \\|$", kind, code), page)
	}
	require.Len(t, names, 10)
	_, table, found := strings.Cut(page, "\n## Kinds\n\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	require.Equal(t, len(names)+2, strings.Count(table, "\n")+1, "a head, a line, and one row per kind")
}

// The texts of exhausted limits on the page are those of the sources.
func TestErrorsPageHasTexts(t *testing.T) {
	_, table, found := strings.Cut(errorsPage(t), "Find the text of the error in this table:\n\n")
	require.True(t, found)
	table, _, found = strings.Cut(table, "\n\n")
	require.True(t, found)
	var sources strings.Builder
	root := os.DirFS("../..")
	require.NoError(t, fs.WalkDir(root, ".", func(path string, of fs.DirEntry, err error) error {
		if err != nil || of.IsDir() && path != "." && (strings.HasPrefix(of.Name(), ".") || of.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(root, path)
		sources.Write(text)
		return err
	}))
	texts := 0
	for row := range strings.Lines(table) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		for _, shown := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			texts++
			form := strings.TrimSuffix(strings.TrimPrefix(shown[1], "…"), ", …")
			form = strings.ReplaceAll(regexp.QuoteMeta(form), "…", "%[a-z]")
			require.True(t, regexp.MustCompile(form).MatchString(sources.String()), "no error reads %q any more", shown[1])
		}
	}
	require.GreaterOrEqual(t, texts, 7)
}
