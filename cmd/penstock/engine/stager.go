package engine

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
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

// catalogOf returns the catalog of a table, and the table's name in the catalog.
func (e *Engine) catalogOf(table string) (*icebergcat.Catalog, string, error) {
	of, name, err := e.Catalogs.Route(table)
	if err != nil {
		return nil, "", err
	}
	c, ok := e.byName[of]
	if !ok {
		return nil, "", fault.New(fault.Internal, "catalog %s was not opened", of)
	}
	return c, name, nil
}

// writes returns the catalog of a table for writing, and the table's name in the catalog.
func (e *Engine) writes(table string) (writable, string, error) {
	c, name, err := e.catalogOf(table)
	return writable{c}, name, err
}

// InputStorage returns a function that opens the storage of files to be staged to a table. It uses
// the properties of the table's catalog.
func (e *Engine) InputStorage(table string) func(context.Context, string) (store.Store, error) {
	return func(ctx context.Context, location string) (store.Store, error) {
		c, _, err := e.catalogOf(table)
		if err != nil {
			return nil, err
		}
		return c.Storage(ctx, location)
	}
}

// ColumnTypes returns the types of a table's columns by name. It returns nil if the table does not
// exist.
func (e *Engine) ColumnTypes(ctx context.Context, table string) (map[string]arrow.DataType, error) {
	c, name, err := e.catalogOf(table)
	if err != nil {
		return nil, err
	}
	state, err := c.State(ctx, name, "")
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil //nolint:nilnil // no column has a type
	}
	if err != nil {
		return nil, err
	}
	out := map[string]arrow.DataType{}
	for _, f := range state.Table.Fields {
		out[f.Name] = f.Type
	}
	return out, nil
}

// EnvironmentStorage returns a function that opens the storage of a location with only the settings
// of the process's environment, for clients without a config file.
func EnvironmentStorage() func(context.Context, string) (store.Store, error) {
	kinds, opened := stores(store.Environment{Clock: time.Now}), map[*store.Kind]store.Store{}
	var mu sync.Mutex
	return func(ctx context.Context, location string) (store.Store, error) {
		kind := kinds.Of(location)
		if kind == nil {
			return nil, kinds.Refuse(location)
		}
		mu.Lock()
		defer mu.Unlock()
		if opened[kind] != nil {
			return opened[kind], nil
		}
		files, err := kind.Open(context.WithoutCancel(ctx), nil, nil) // the store outlives the call
		if err == nil {
			opened[kind] = files
		}
		return files, err
	}
}

// rowFiles returns the options for writing data files in a number of concurrent calls.
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

// Stager returns a stager, which writes rows to the engine's tables in a number of concurrent
// calls.
func (e *Engine) Stager(calls int) *stage.Stager {
	return stage.New(stage.Options{
		Route: func(table string) (stage.WritableTables, string, error) { return e.writes(table) },
		Read:  e.readFiles, Clock: time.Now, Rows: e.rowFiles(calls),
	})
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

// rewriter returns a rewriter for files of the engine's tables, for a number of concurrent calls.
func (e *Engine) rewriter(calls int) *maintenance.Rewriter {
	return maintenance.New(maintenance.Options{
		Route: func(table string) (maintenance.Tables, string, error) { return e.writes(table) },
		Clock: time.Now, Rows: e.rowFiles(calls), Files: e.Catalogs, Named: e.deletes().Named,
		Read: e.readFiles,
	})
}
