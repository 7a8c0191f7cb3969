package engine

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
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
	Label           string
	Exact, NoValues bool
	Progress        func(read, all int64)
	// Unkept is called if the parts of files cannot be kept in `cache_dir`, with the reason.
	Unkept func(error)
	// Keep keeps the result with the table. CreatedBy names the program and its version.
	Keep      bool
	CreatedBy string
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
	request := statistics.Request{History: snapshots, At: s.At, Columns: s.Columns, Label: s.Label, Exact: s.Exact, NoValues: s.NoValues, Progress: s.Progress}
	if s.Keep {
		if request.Keep, err = e.keepStatistics(s); err != nil {
			return nil, err
		}
	}
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
	request := entries.Request{Dataset: s.Table, Columns: s.Columns, Label: s.Label, Exact: s.Exact, NoValues: s.NoValues, Progress: s.Progress}
	if s.Against == "" {
		return entries.Describe(ctx, o, request)
	}
	return entries.Compare(ctx, o, request, s.Against)
}

// keepStatistics returns the function that keeps a result with its table. It returns Forbidden for a table that may not be changed.
func (e *Engine) keepStatistics(s Statistics) (func(context.Context, statistics.ToKeep) (string, error), error) {
	tables, name, err := e.Tables.catalogOf(s.Table)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, of statistics.ToKeep) (string, error) {
		report, err := json.Marshal(of.Result)
		if err != nil {
			return "", fault.New(fault.Internal, "encode the statistics of table %s: %w", s.Table, err)
		}
		keep := tablecommit.SnapshotStatistics{
			Table: name, UUID: of.UUID, Snapshot: of.Result.Snapshot, Time: time.Now(), Rows: of.Result.Rows, CreatedBy: s.CreatedBy,
			Report: tablecommit.StatisticsBlob{Fields: of.Fields, Content: report},
		}
		for _, k := range of.Sketches {
			keep.Sketches = append(keep.Sketches, tablecommit.StatisticsBlob{
				Fields: []int{k.Field}, Properties: map[string]string{tablecommit.BlobDistinct: strconv.FormatInt(k.Distinct, 10)}, Content: k.Bytes,
			})
		}
		return tables.KeepStatistics(ctx, keep)
	}, tables.MayWrite(name)
}
