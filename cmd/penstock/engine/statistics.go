package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/statistics"
	"github.com/penstock/penstock/loader/statistics/entries"
)

// Statistics is a request to describe a table. statistics.Request describes its fields.
type Statistics struct {
	Table, At string
	// Against selects the snapshot to compare with, as At does; "": nothing is compared.
	Against         string
	Columns         []string
	Exact, NoValues bool
	Progress        func(read, all int64)
	// Unkept is called if the parts of files cannot be kept in `cache_dir`, with the reason.
	Unkept func(error)
}

// Statistics describes the columns of a table.
func (e *Engine) Statistics(ctx context.Context, s Statistics) (*statistics.Result, error) {
	ctx, entered := e.Budget.Enter(ctx, "stats")
	defer entered.Release()
	snapshots, held, err := e.snapshots(ctx, s.Table)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	o := statistics.Options{Tables: e.Tables.Catalogs, Read: e.readFiles, Budget: e.Budget, Cores: e.Cores, RequireChecksums: e.server.RequireChecksums}
	switch parts, err := e.openParts(ctx); {
	case err != nil:
		s.Unkept(err)
	case parts != nil:
		defer closeParts(ctx, parts)
		o.Kept = parts
	}
	request := statistics.Request{History: snapshots, At: s.At, Columns: s.Columns, Exact: s.Exact, NoValues: s.NoValues, Progress: s.Progress}
	if s.Against == "" {
		return statistics.New(o).Describe(ctx, request)
	}
	return statistics.New(o).Compare(ctx, request, statistics.Request{History: snapshots, At: s.Against, Progress: s.Progress})
}

// IsDataset reports whether stats describes a dataset, given the name of a dataset or of a table. The names of tables have a
// namespace, and so a point.
func (e *Engine) IsDataset(name string) bool {
	return !strings.Contains(name, ".") || slices.ContainsFunc(e.Loader.Datasets(), func(d dataset.Dataset) bool { return d.Name == name })
}

// DatasetStatistics describes the rows of a dataset and its staging entries. Against is the name of another dataset to compare with.
func (e *Engine) DatasetStatistics(ctx context.Context, s Statistics) (*entries.Result, error) {
	ctx, entered := e.Budget.Enter(ctx, "stats")
	defer entered.Release()
	o := entries.Options{Loader: e.Loader, Budget: e.Budget}
	request := entries.Request{Dataset: s.Table, Columns: s.Columns, Exact: s.Exact, NoValues: s.NoValues, Progress: s.Progress}
	if s.Against == "" {
		return entries.Describe(ctx, o, request)
	}
	return entries.Compare(ctx, o, request, s.Against)
}
