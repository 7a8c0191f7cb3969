package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The list of versions has the folders that are sites, the newest first, and the first page leads to that one.
func TestVersionsOfTheSite(t *testing.T) {
	folder := t.TempDir()
	for _, version := range []string{"0.9.0", "0.10.0", "0.2.11"} {
		require.NoError(t, writeText(filepath.Join(folder, version, "search", "search_index.json"), []byte("{}")))
	}
	require.NoError(t, os.Mkdir(filepath.Join(folder, "notes"), 0o755))
	require.NoError(t, writeVersions(folder))
	list, err := os.ReadFile(filepath.Join(folder, "versions.json"))
	require.NoError(t, err)
	require.Regexp(t, `(?s)"0.10.0".*"0.9.0".*"0.2.11"`, string(list))
	require.NotContains(t, string(list), "notes")
	first, err := os.ReadFile(filepath.Join(folder, "index.html"))
	require.NoError(t, err)
	require.Contains(t, string(first), `href="0.10.0/index.html"`)
}
