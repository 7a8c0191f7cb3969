package docstest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight/slowness"
)

// causesTable returns the table of what limits streams.
func causesTable() string {
	var b strings.Builder
	b.WriteString("| cause | what it means | what to do |\n|---|---|---|\n")
	for _, c := range slowness.Causes() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c, c.Meaning(), c.Remedy())
	}
	return b.String()
}

// TestSlowPage checks that the page has every cause with the words of the status.
func TestSlowPage(t *testing.T) {
	const path, from, to = "docs/slow.md", "<!-- causes: written by go test ./internal/docstest -rewrite -->\n", "<!-- end of causes -->\n"
	page := read(t, path)
	before, rest, found := strings.Cut(page, from)
	require.True(t, found)
	_, after, found := strings.Cut(rest, to)
	require.True(t, found)
	want := before + from + causesTable() + to + after
	if *rewrite {
		require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(want), 0o600))
		return
	}
	require.Equal(t, want, page, "go test ./internal/docstest -rewrite")
}
