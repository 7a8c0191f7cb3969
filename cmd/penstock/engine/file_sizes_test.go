package engine_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	icesql "github.com/apache/iceberg-go/catalog/sql"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/telemetry"
)

// wrongSizes creates a table of three files. The manifest states a size that is too small, one that
// is too large, and a correct one, and the given number of rows for each.
func wrongSizes(t *testing.T, c *icesql.Catalog, table, dir string, rows int64) {
	t.Helper()
	var files []listed
	for i, by := range []int64{-7, 5000, 0} {
		path, content := filepath.Join(dir, table+string(rune('a'+i))+".parquet"), idsFrom(t, 0, parquettest.Options{CreatedBy: strings.Repeat("x", 50*i)})
		require.NoError(t, os.WriteFile(path, content, 0o600))
		files = append(files, listed{path, int64(len(content)) + by, rows})
	}
	create(t, c, table, files...)
}

// TestFileSizes reads tables whose manifests state wrong file sizes. They are refused unless the
// catalog sets file_sizes to storage. In that case, one warning per table is logged, and a file
// whose row count differs from its manifest is still refused.
//
// spec: catalog-34, catalog-35
func TestFileSizes(t *testing.T) {
	dir := t.TempDir()
	c, done := newCatalog(t, dir)
	wrongSizes(t, c, "ml.ids", dir, 10)
	wrongSizes(t, c, "ml.more", dir, 10)
	wrongSizes(t, c, "ml.rows", dir, 11)
	done()
	for name, field := range map[string]string{"default": "", "manifest": "file_sizes: manifest, ", "storage": "file_sizes: storage, "} {
		t.Run(name, func(t *testing.T) {
			e := assembled(t, loaded(t, dir, `
catalogs: {default: {type: sql, uri: "sqlite:///catalog.db", `+field+`allowed_prefixes: ["."]}}
datasets: {ids: {training: {table: ml.ids}, key: [id]}, more: {training: {table: ml.more}, key: [id]}, rows: {training: {table: ml.rows}, key: [id]}}
`, nil))
			var log bytes.Buffer
			e.Observe(telemetry.NewMetrics("test"), slog.New(slog.NewTextHandler(&log, nil)))
			if name != "storage" {
				for _, of := range []string{"ids", "more", "rows"} {
					_, err := read(t, e, of, "")
					require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
					require.ErrorContains(t, err, "the table's metadata says")
					require.ErrorContains(t, err, "file_sizes: storage")
				}
				require.NotContains(t, log.String(), "another size")
				return
			}
			for range 2 { // with and without cached footers
				for _, of := range []string{"ids", "more"} {
					rows, err := read(t, e, of, "")
					require.NoError(t, err)
					require.Equal(t, int64(30), rows)
				}
				_, err := read(t, e, "rows", "")
				require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
				require.ErrorContains(t, err, "the file's footer counts 10 rows, the manifest 11")
			}
			for _, table := range []string{"ml.ids", "ml.more", "ml.rows"} {
				require.Equal(t, 1, strings.Count(log.String(), "table="+table+" "), log.String())
			}
			require.Equal(t, 3, strings.Count(log.String(), "the size of a file differs from the size in its manifest"), log.String())
			// A file is read again after it was replaced with one of another size.
			require.NoError(t, os.WriteFile(filepath.Join(dir, "ml.idsb.parquet"), idsFrom(t, 0, parquettest.Options{CreatedBy: "another"}), 0o600))
			rows, err := read(t, e, "ids", "")
			require.NoError(t, err)
			require.Equal(t, int64(30), rows)
		})
	}
	path := filepath.Join(dir, "penstock.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`catalogs: {default: {type: sql, uri: "sqlite:///catalog.db", file_sizes: disk}}`), 0o600))
	_, err := config.Load(config.Origin{File: path})
	require.ErrorContains(t, err, "catalogs.default.file_sizes: must be manifest or storage")
}
