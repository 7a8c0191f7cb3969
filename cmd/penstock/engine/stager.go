package engine

import (
	"context"
	"runtime"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/cmd/penstock/duckdb"
	"github.com/penstock/penstock/internal/clock"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/maintenance"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/stage"
)

// writable adapts a catalog to stage.WritableTables and maintenance.Tables.
type writable struct{ *icebergcat.Catalog }

// FileStore implements stage.WritableTables and maintenance.Tables.
func (w writable) FileStore(ctx context.Context, table, folder string) (datafile.FileStore, error) {
	files, err := w.Catalog.FileStore(ctx, table, folder)
	if err != nil {
		return nil, err
	}
	return files, nil
}

// rowFiles returns the options for writing data files, if at most the given number of calls write
// at the same time.
func (e *Engine) rowFiles(calls int) datafile.Options {
	return datafile.Options{
		Calls: calls, Budget: e.Budget, Memory: e.memory, Threads: runtime.GOMAXPROCS(0),
		Disk: func(what string) (extsort.RunStore, error) {
			file, err := e.disk.Create(what)
			if err != nil {
				return nil, err
			}
			return file, nil
		},
	}
}

// Stager returns a stager that writes rows to the engine's tables. At most the given number of
// calls may use the stager at the same time.
func (e *Engine) Stager(calls int) *stage.Stager {
	return stage.New(stage.Options{
		Route: func(table string) (stage.WritableTables, string, error) { return e.Tables.writes(table) },
		Read:  e.readFiles, Clock: clock.Now, Rows: e.rowFiles(calls),
	})
}

// SQL returns the options of SQL whose rows are staged. DuckDB may use as much memory as the budget,
// because Penstock needs little of the budget while DuckDB works.
func (e *Engine) SQL(opened func(rows int64, left int)) duckdb.RowsOptions {
	return duckdb.RowsOptions{Spool: e.disk, Budget: e.Budget, Memory: e.server.Memory, Disk: e.server.SpoolLimit, Opened: opened}
}

// readFiles reads columns of the files of a table, without the cache of decoded columns.
func (e *Engine) readFiles(ctx context.Context, source plan.Source, columns []catalog.Field) (array.RecordReader, error) {
	source.Cache = dataset.CacheOff
	rows, err := e.scanner.Open(ctx, source, columns)
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// rewriter returns a rewriter of the files of the engine's tables. At most the given number of
// calls may use the rewriter at the same time.
func (e *Engine) rewriter(calls int) *maintenance.Rewriter {
	return maintenance.New(maintenance.Options{
		Route: func(table string) (maintenance.Tables, string, error) { return e.Tables.writes(table) },
		Clock: clock.Now, Rows: e.rowFiles(calls), Files: e.Tables.Catalogs, Named: e.deletes().Named,
		Read: e.readFiles,
	})
}
