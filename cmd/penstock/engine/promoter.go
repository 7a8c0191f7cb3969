package engine

import (
	"context"
	"runtime"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/clock"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/deletes"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/promote"
)

// promotable adapts a catalog to promote.PromotedTables.
type promotable struct{ *icebergcat.Catalog }

// FileStore implements promote.PromotedTables.
func (p promotable) FileStore(ctx context.Context, table, folder string) (promote.PromotedFiles, error) {
	files, err := p.Catalog.FileStore(ctx, table, folder)
	if err != nil {
		return nil, err
	}
	return files, nil
}

// promotes returns the catalog that can promote columns into a training table, and the table's name
// in the catalog.
func (t *Tables) promotes(table string) (promote.PromotedTables, string, error) {
	c, name, err := t.catalogOf(table)
	if err != nil {
		return nil, "", err
	}
	return promotable{c}, name, nil
}

// deletes returns the pool that reads delete files of the engine's tables.
func (e *Engine) deletes() *deletes.Pool {
	return deletes.New(deletes.Options{
		Files: e.Tables.Catalogs, Budget: e.Budget,
		Read: func(ctx context.Context, source plan.Source, columns []catalog.Field) (array.RecordReader, error) {
			return e.reads.Scan(ctx, source, columns)
		},
	})
}

// Promoter returns a promoter that copies columns of staging tables into the training tables of the
// engine.
func (e *Engine) Promoter() *promote.Promoter {
	return promote.New(promote.Options{
		Route: e.Tables.promotes, Catalog: e.Tables.Catalogs, Hold: e.Tables.Catalogs.Hold, Effects: e.Datasets().SchemaEffects,
		Deletes: e.deletes(), Clock: clock.Now, Budget: e.Budget, Threads: runtime.GOMAXPROCS(0),
		Loader: func(of catalog.Catalog) *loader.Loader {
			options := e.reads
			options.Catalog, options.Datasets, options.Plans, options.Listings = of, nil, nil, nil
			return loader.New(options)
		},
	})
}
