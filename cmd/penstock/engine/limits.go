package engine

import (
	"context"
	"strconv"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/statistics"
)

// checkLimits implements verify.CheckLimits. The base of changes is the one that the limits name.
func (e *Engine) checkLimits(ctx context.Context, table string, snapshot int64, limits dataset.Limits) (*drift.Checked, error) {
	return e.checkLimitsAgainst(ctx, table, snapshot, limits.Against, limits)
}

// checkLimitsAgainst checks limits of a table's values at a snapshot. Changes are measured with the snapshot that against selects.
func (e *Engine) checkLimitsAgainst(ctx context.Context, table string, snapshot int64, against string, limits dataset.Limits) (*drift.Checked, error) {
	ctx, entered := e.Budget.Enter(ctx, "limits")
	defer entered.Release()
	snapshots, held, err := e.snapshots(ctx, table)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	describer, closeKept := e.describer(ctx, func(error) {}) // then all files are read
	defer closeKept()
	at := statistics.Request{History: snapshots, At: strconv.FormatInt(snapshot, 10)}
	return describer.Check(ctx, at, &statistics.Request{History: snapshots, At: against}, limits)
}
