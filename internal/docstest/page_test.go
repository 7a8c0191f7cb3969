package docstest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the module's folder, seen from this one.
const root = "../.."

// read returns the text of a file of the module.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return string(text)
}

// pages returns the pages for users, by their paths from the module's root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"docs/*.md", "docs/recipes/*.md", "docs/spec/*.md", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "python/README.md", "demo/README.md", "docs/upstream/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, pattern)
		for _, path := range found {
			name, err := filepath.Rel(root, path)
			require.NoError(t, err)
			out[name] = read(t, name)
		}
	}
	return out
}

// row is one row of a page's table, cell by cell.
type row []string

var ticked = regexp.MustCompile("`([^`]+)`")

// names returns the texts in backticks of a row's first cell.
func (r row) names() []string { return between(r[0]) }

// between returns the texts in backticks.
func between(cell string) []string {
	var out []string
	for _, m := range ticked.FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return out
}

// tables returns the rows, without heads, of all tables after a comment that begins with
// mark: <!-- fields of Query: order --> is one for "fields of Query".
func tables(page, mark string) []row {
	var out []row
	for _, m := range regexp.MustCompile(`(?m)^<!-- (.*?)(?::.*?)? -->\n\|.*\n\|[-|: ]+\n((?:\|.*\n)+)`).FindAllStringSubmatch(page, -1) {
		if m[1] != mark {
			continue
		}
		for line := range strings.Lines(m[2]) {
			line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|")
			var cells row
			for cell := range strings.SplitSeq(line, " |") {
				cells = append(cells, strings.TrimSpace(cell))
			}
			out = append(out, cells)
		}
	}
	return out
}

// marks returns the comments before a page's tables, up to a colon.
func marks(page string) map[string]bool {
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^<!-- (.*?)(?::.*?)? -->\n\|`).FindAllStringSubmatch(page, -1) {
		out[m[1]] = true
	}
	return out
}

// block is a block of code of a page.
type block struct{ language, text string }

func blocks(page string) []block {
	var out []block
	for _, m := range regexp.MustCompile("(?ms)^```([a-z]*)[^\n]*\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		out = append(out, block{m[1], m[2]})
	}
	return out
}
