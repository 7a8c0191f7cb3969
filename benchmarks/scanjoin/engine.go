package main

import (
	"context"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
	"github.com/penstock/penstock/loader/scan"
)

// remembered is the size limit of the plan cache and of the footer cache.
const remembered = 128 << 20

// question joins the training table with all three staging tables, all columns.
const question = `{"shard": {"index": 0, "of": 1}, "dataset": {
	"training": {"table": "bench.t"}, "key": ["request_id"],
	"staging": [{"table": "bench.history"}, {"table": "bench.context"}, {"table": "bench.recent"}]}}`

// engine has the components of cmd/penstock/engine, without a server.
type engine struct {
	loader  *loader.Loader
	scanner *scan.Scanner
	plans   *loader.Plans
	footers *cache.Cache[*parquet.Footer]
	catalog *icebergcat.Catalog

	query dataset.Query
	plan  loader.Planned
	rows  int64 // of the training table, and therefore of the join
}

// assemble creates the components and plans the question.
func assemble(ctx context.Context, folder string) (*engine, error) {
	home, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	e := &engine{}
	files, memory, limits := store.Local{}, batch.NewAllocator(), budget.New(limit)
	e.catalog, err = icebergcat.Open(ctx, icebergcat.Options{
		Name: "default", Type: "sql", URI: "sqlite:///" + filepath.Join(home, "catalog.db"), BaseDir: home, Store: files,
	})
	if err != nil {
		return nil, err
	}
	if e.footers, err = cache.New[*parquet.Footer](remembered); err != nil {
		return nil, err
	}
	if e.plans, err = loader.NewPlans(remembered); err != nil {
		return nil, err
	}
	e.scanner, err = scan.New(scan.Options{Files: e.catalog, Footers: e.footers, Memory: memory, Budget: limits})
	if err != nil {
		return nil, err
	}
	e.loader = loader.New(loader.Options{
		Catalog: e.catalog, Plans: e.plans, Budget: limits, Memory: memory,
		Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
			return e.scanner.Open(ctx, source, columns)
		},
	})
	if e.query, err = decode.Query([]byte(question)); err != nil {
		return nil, err
	}
	if e.plan, err = e.loader.Plan(ctx, e.query); err != nil {
		return nil, err
	}
	e.rows = e.plan.StoredRows
	return e, nil
}

// Close releases the engine's resources.
func (e *engine) Close() {
	e.plans.Close()
	e.footers.Close()
}

// join reads the joined stream to its end and returns its rows.
func (e *engine) join(ctx context.Context) (int64, error) {
	stream, err := e.loader.Open(ctx, e.plan, loader.StreamOptions{})
	if err != nil {
		return 0, err
	}
	return drain(stream)
}

// scan reads the sources of the join, one after the other, and returns the
// training rows.
func (e *engine) scan(ctx context.Context) (rows int64, err error) {
	outputs, err := e.plan.Relation.Select(nil)
	if err != nil {
		return 0, err
	}
	for _, lane := range e.plan.Lanes {
		for _, r := range lane.Ranges {
			n, err := e.read(ctx, e.plan.Training(r), columnsOf(outputs, resolve.TrainingTable))
			if err != nil {
				return 0, err
			}
			rows += n
		}
	}
	for i, staging := range e.plan.Relation.Staging {
		columns := columnsOf(outputs, i)
		for _, key := range staging.Keys {
			columns = append(columns, key.Staging)
		}
		for group := range e.plan.Staging[i].Groups {
			if _, err := e.read(ctx, e.plan.Group(i, group), columns); err != nil {
				return 0, err
			}
		}
	}
	return rows, nil
}

func (e *engine) read(ctx context.Context, source plan.Source, columns []catalog.Field) (int64, error) {
	reader, err := e.scanner.Open(ctx, source, columns)
	if err != nil {
		return 0, err
	}
	return drain(reader)
}

// columnsOf returns the columns of a table in the stream.
func columnsOf(outputs []resolve.Output, table int) []catalog.Field {
	var columns []catalog.Field
	for _, o := range outputs {
		if o.Table == table {
			columns = append(columns, o.Field)
		}
	}
	return columns
}

// drain reads to the end, discards the batches, and returns the number of rows.
func drain(reader array.RecordReader) (rows int64, err error) {
	defer reader.Release()
	for reader.Next() {
		rows += reader.RecordBatch().NumRows()
	}
	return rows, reader.Err()
}
