package docstest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/expr/function"
)

var rewrite = flag.Bool("rewrite", false, "rewrite generated tables")

// functionsTable returns the table of all functions.
func functionsTable() string {
	cell := func(call string) string {
		switch call {
		case "":
			return ""
		case "none":
			return "none"
		default:
			return "`" + call + "`"
		}
	}
	var b strings.Builder
	b.WriteString("| function | arguments | result | meaning | in DuckDB, if different | in Spark, if different |\n|---|---|---|---|---|---|\n")
	for _, s := range function.Names() {
		fmt.Fprintf(&b, "| `%s(%s)` | %s | %s | %s | %s | %s |\n", s.Name, s.Arguments, s.Accepts, s.Result, s.Meaning, cell(s.DuckDB), cell(s.Spark))
	}
	return b.String()
}

// TestFunctionsPage: the page has every function, with its arguments and its meaning.
func TestFunctionsPage(t *testing.T) {
	const path, from, to = "docs/functions.md", "<!-- functions: ", "<!-- end of functions -->\n"
	page := read(t, path)
	before, rest, found := strings.Cut(page, from)
	require.True(t, found)
	note, rest, found := strings.Cut(rest, "\n")
	require.True(t, found)
	_, after, found := strings.Cut(rest, to)
	require.True(t, found)
	want := before + from + note + "\n" + functionsTable() + to + after
	if *rewrite {
		require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(want), 0o600))
		return
	}
	require.Equal(t, want, page, "go test ./internal/docstest -rewrite")
}
