package engine

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/penstock/penstock/flight/describe"
	"github.com/penstock/penstock/internal/clock"
	"github.com/penstock/penstock/internal/fault"
	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/statistics"
	"github.com/penstock/penstock/loader/statistics/entries"
)

// Describer describes the tables and datasets of an engine.
type Describer struct {
	engine     *Engine
	maxColumns int
	createdBy  string
	unkept     func(error)
}

// Describer returns a Describer that describes at most a number of columns in one call; 0: any number. createdBy names the program and its
// version in the files that it keeps with tables. unkept is called if the parts of files cannot be kept in `cache_dir`, with the reason.
func (e *Engine) Describer(maxColumns int, createdBy string, unkept func(error)) Describer {
	return Describer{engine: e, maxColumns: maxColumns, createdBy: createdBy, unkept: unkept}
}

// DescribeTable implements describe.Describer.
func (d Describer) DescribeTable(ctx context.Context, r describe.Request) (*statistics.Result, error) {
	e := d.engine
	if err := e.Loader.CheckName(ctx, r.Rights, r.Of); err != nil {
		return nil, err
	}
	snapshots, held, err := e.snapshots(ctx, r.Of)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	describer, closeKept := e.describer(ctx, d.unkept)
	defer closeKept()
	request := statistics.Request{
		History: snapshots, At: r.At, Columns: r.Columns, MaxColumns: d.maxColumns, Rights: r.Rights, Label: r.Label, Exact: r.Exact, NoValues: r.NoValues, Progress: r.Read,
	}
	if r.Keep {
		if request.Keep, err = e.keepStatistics(r.Of, d.createdBy); err != nil {
			return nil, err
		}
	}
	if r.Against == "" {
		return describer.Describe(ctx, request)
	}
	return describer.Compare(ctx, request, statistics.Request{History: snapshots, At: r.Against, Progress: r.Read})
}

// describer returns a Describer, and the function that the caller calls at the end. unkept is called if the parts of files cannot be
// kept, with the reason.
func (e *Engine) describer(ctx context.Context, unkept func(error)) (*statistics.Describer, func()) {
	o := statistics.Options{Tables: e.Tables.Catalogs, Read: e.readFiles, Budget: e.Budget, Cores: e.Cores, RequireChecksums: e.server.RequireChecksums}
	parts, err := e.parts.open(ctx)
	if err != nil {
		unkept(err)
	}
	if parts == nil {
		return statistics.New(o), func() {}
	}
	o.Kept = parts
	return statistics.New(o), func() { e.parts.close(ctx) }
}

// DescribeDataset implements describe.Describer.
func (d Describer) DescribeDataset(ctx context.Context, r describe.Request) (*entries.Result, error) {
	o := entries.Options{Loader: d.engine.Loader, Budget: d.engine.Budget}
	request := entries.Request{
		Dataset: r.Of, Columns: r.Columns, MaxColumns: d.maxColumns, Rights: r.Rights, BaseRights: r.BaseRights, Label: r.Label, Exact: r.Exact, NoValues: r.NoValues, Progress: r.Read, Pinned: r.Pinned,
	}
	if r.Against == "" {
		return entries.Describe(ctx, o, request)
	}
	return entries.Compare(ctx, o, request, r.Against)
}

// keepStatistics returns the function that keeps a result with its table. It returns Forbidden for a table that may not be changed.
func (e *Engine) keepStatistics(table, createdBy string) (func(context.Context, statistics.ToKeep) (string, error), error) {
	tables, name, err := e.Tables.catalogOf(table)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, of statistics.ToKeep) (string, error) {
		report, err := json.Marshal(of.Result)
		if err != nil {
			return "", fault.New(fault.Internal, "encode the statistics of table %s: %w", table, err)
		}
		keep := tablecommit.SnapshotStatistics{
			Table: name, UUID: of.UUID, Snapshot: of.Result.Snapshot, Time: clock.Now(), Rows: of.Result.Rows, CreatedBy: createdBy,
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
