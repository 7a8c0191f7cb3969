package engine

import (
	"context"

	"github.com/penstock/penstock/loader/statistics"
)

// Statistics is a request to describe a table. statistics.Request describes its fields.
type Statistics struct {
	Table, At       string
	Columns         []string
	Exact, NoValues bool
	Progress        func(read, all int64)
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
	return statistics.New(statistics.Options{Tables: e.Tables.Catalogs, Read: e.readFiles, Budget: e.Budget, Cores: e.Cores}).Describe(ctx, statistics.Request{
		History: snapshots, At: s.At, Columns: s.Columns, Exact: s.Exact, NoValues: s.NoValues, Progress: s.Progress,
	})
}
