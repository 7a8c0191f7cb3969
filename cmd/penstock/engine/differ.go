package engine

import (
	"context"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/tablediff"
)

// Differ compares snapshots of an engine's tables.
type Differ struct {
	engine *Engine
	calls  int
}

// Differ returns a Differ that at most the given number of calls use at the same time.
func (e *Engine) Differ(calls int) Differ { return Differ{engine: e, calls: calls} }

// Diff implements flight.Differ. If the request names no key, the key is the result of joinKey.
func (d Differ) Diff(ctx context.Context, request decode.DiffCommand, progress func(read, all int64)) (*tablediff.Result, error) {
	e := d.engine
	snapshots, held, err := e.snapshots(ctx, request.Table)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	return tablediff.New(tablediff.Options{Tables: e.Tables.Catalogs, Read: e.readFiles, Rows: e.rowFiles(d.calls)}).Compare(ctx, tablediff.Request{
		History: snapshots, From: request.From, To: request.To, Key: request.Key, UsualKey: e.joinKey(request.Table), OnlyFiles: request.OnlyFiles, Progress: progress,
	})
}

// snapshots returns the snapshots of a table, and the reservation of their memory, which the caller releases.
func (e *Engine) snapshots(ctx context.Context, table string) (*history.Table, *budget.Reservation, error) {
	held, err := e.Budget.Reserve("the snapshots of table "+table, 0)
	if err != nil {
		return nil, nil, err
	}
	all, err := e.Tables.History(ctx, table, held)
	if err != nil {
		held.Release()
		return nil, nil, err
	}
	return all, held, nil
}

// joinKey returns the columns by which the first dataset that joins a staging table finds the row
// for a training row. These are the columns of the key and, if the join has a time rule, the column
// with the time of the rows. It returns nil if no dataset joins the table.
func (e *Engine) joinKey(table string) (columns []string) {
	for _, r := range e.Datasets().Readers(table, nil) {
		for _, pair := range r.Key {
			columns = append(columns, pair.Staging)
		}
		if r.Time != "" {
			columns = append(columns, r.Time)
		}
		if len(columns) > 0 {
			return columns
		}
	}
	return nil
}
