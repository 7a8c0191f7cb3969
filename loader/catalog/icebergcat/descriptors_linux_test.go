package icebergcat_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// No connection outlives its call: the catalog's file is closed, and its shared memory
// unmapped.
func TestNothingStaysOpen(t *testing.T) {
	metadata, _ := tables(t, 1)
	path := filepath.Join(t.TempDir(), "catalog.db")
	icebergtest.CatalogFile(t, path, "WAL", metadata[0])
	c := openFile(t, path)
	table, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	_, err = c.Files(t.Context(), table, []int{1}, nil)
	require.NoError(t, err)
	_, err = c.Table(t.Context(), "ml.unknown", dataset.Ref{})
	require.Error(t, err)
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, entry := range open {
		target, err := os.Readlink(filepath.Join("/proc/self/fd", entry.Name()))
		if err == nil { // the folder's own is closed by now
			require.False(t, strings.HasPrefix(target, path), target)
		}
	}
	mapped, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	require.NotContains(t, string(mapped), path)
}
