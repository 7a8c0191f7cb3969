package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// If a table is dropped and created again with a file of the same name and length, it is read with
// the footer of the new file.
func TestRecreatedTables(t *testing.T) {
	dir := t.TempDir()
	c, done := newCatalog(t, dir)
	defer done()
	path := filepath.Join(dir, "part.parquet")
	e := assembled(t, loaded(t, dir, `
catalogs: {default: {type: sql, uri: "sqlite:///catalog.db", allowed_prefixes: ["."]}}
datasets: {d: {training: {table: ml.ids}, key: [id]}}
`, nil))
	length := int64(0)
	for first := 0; first < 3000; first += 1000 {
		createIDs(t, c, "ml.ids", path, first)
		file, err := os.Stat(path)
		require.NoError(t, err)
		require.True(t, length == 0 || length == file.Size(), "the files differ in length")
		length = file.Size()
		require.Equal(t, int64(5), rowsOf(t, e, fmt.Sprintf("id >= %d", first+5)), "ids from %d on", first)
		require.NoError(t, c.DropTable(t.Context(), icetable.Identifier{"ml", "ids"}))
	}
}
