package engine_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/iceberg-go"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// moved replaces the only file of a table with a copy, and expires all older snapshots and their
// files.
func moved(t *testing.T, c *icesql.Catalog, table, path, to string) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, content, 0o600))
	file := func(path string) []iceberg.DataFile {
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, "file://"+path,
			iceberg.ParquetFile, nil, nil, nil, 10, int64(len(content)))
		require.NoError(t, err)
		return []iceberg.DataFile{b.Build()}
	}
	at, err := c.LoadTable(t.Context(), icetable.Identifier{"ml", table})
	require.NoError(t, err)
	first := at.CurrentSnapshot()
	tx := at.NewTransaction()
	require.NoError(t, tx.ReplaceDataFilesWithDataFiles(t.Context(), file(path), file(to), nil, icetable.WithoutAutoNameMapping()))
	at, err = tx.Commit(t.Context())
	require.NoError(t, err)
	tx = at.NewTransaction()
	require.NoError(t, tx.ExpireSnapshots(icetable.WithOlderThan(0), icetable.WithRetainLast(1)))
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
	_, err = os.Stat(path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = os.Stat(strings.TrimPrefix(first.ManifestList, "file://"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// meanwhile is a catalog that calls a function after a table is pinned and before its files are
// listed.
type meanwhile struct {
	*catalog.Set
	happens func()
}

func (m meanwhile) Files(ctx context.Context, t *catalog.Table, columns, bounds []int) ([]catalog.File, error) {
	m.happens()
	return m.Set.Files(ctx, t, columns, bounds)
}

// Planning, counting and verifying fail as Expired if the files of the snapshot are deleted before
// they are listed or read.
//
// spec: pin-13
func TestExpiredSnapshotsFailAsExpired(t *testing.T) {
	query := dataset.Query{Rows: dataset.Rows{Dataset: "d", Filter: datasettest.Filter("id >= 5")}, Reading: dataset.Reading{Count: dataset.CountExact, Shard: dataset.Shard{Of: 1}}}
	for what, read := range map[string]func(*loader.Loader) error{
		"count": func(l *loader.Loader) error {
			p, err := l.Plan(t.Context(), query)
			if err != nil {
				return err
			}
			_, err = l.Count(t.Context(), p, loader.StreamOptions{}, func(ctx context.Context) (context.Context, func(), error) { return ctx, func() {}, nil })
			return err
		},
		"verify": func(l *loader.Loader) error {
			_, err := l.Verify(t.Context(), loader.PlanRequest{Query: query}, nil)
			return err
		},
	} {
		for _, table := range []string{"ids", "users"} {
			for _, when := range []string{"before files are listed", "before files are read"} {
				t.Run(what+", "+table+", "+when, func(t *testing.T) {
					dir := t.TempDir()
					c, done := newCatalog(t, dir)
					defer done()
					path := func(name string) string { return filepath.Join(dir, name+".parquet") }
					createIDs(t, c, "ml.ids", path("ids"), 0)
					createIDs(t, c, "ml.users", path("users"), 0)
					settings := loaded(t, dir, `
catalogs: {default: {type: sql, uri: "sqlite:///catalog.db", allowed_prefixes: ["."]}}
datasets: {d: {training: {table: ml.ids}, key: [id], staging: [{table: ml.users, prefix: u_, join: inner}]}}
`, nil)
					before, err := c.LoadTable(t.Context(), icetable.Identifier{"ml", table})
					require.NoError(t, err)
					expires := sync.OnceFunc(func() { moved(t, c, table, path(table), path(table+"-later")) })
					listed, opened := expires, func() {}
					if when == "before files are read" {
						listed, opened = opened, listed
					}
					err = read(watched(t, settings, listed, opened))
					require.Equal(t, fault.Expired.String(), fault.KindOf(err).String(), "%v", err)
					require.ErrorContains(t, err, "snapshot "+strconv.FormatInt(before.CurrentSnapshot().SnapshotID, 10)+" of table ml."+table+" no longer exists")
					require.Equal(t, "ml."+table, fault.As(err).Table)
				})
			}
		}
	}
}

// watched returns the loader of a config. The loader calls listed before it lists files, and
// opened before it opens them.
func watched(t *testing.T, settings *config.Config, listed, opened func()) *loader.Loader {
	t.Helper()
	e := assembled(t, settings)
	footers, err := cache.New[*parquet.Footer](1 << 20)
	require.NoError(t, err)
	t.Cleanup(footers.Close)
	scanner, err := scan.New(scan.Options{Files: e.Tables.Catalogs, Footers: footers, Budget: e.Budget})
	require.NoError(t, err)
	return loader.New(loader.Options{
		Datasets: settings.Datasets, Catalog: meanwhile{e.Tables.Catalogs, listed}, Budget: e.Budget,
		Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
			opened()
			rows, err := scanner.Open(ctx, source, columns)
			if err != nil {
				return nil, err
			}
			return rows, nil
		},
	})
}
