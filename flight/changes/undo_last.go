package changes

import (
	"context"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/history"
)

// lastChange returns the move that undoes Penstock's last change to a branch of a table ("" is
// main), and the snapshots that it undoes.
func (w *Service) lastChange(ctx context.Context, table, branch string) (commit.Move, []history.Entry, error) {
	if w.options.History == nil {
		return commit.Move{}, nil, fault.InvalidField("from", "is required by this server").WithRemedy("name the snapshots from and to, as the stage or the publish printed them")
	}
	var made commit.Move
	var undone []history.Entry
	err := w.withHistory(ctx, table, func(t *history.Table) (err error) {
		made, undone, err = t.LastChange(branch, t.Demotable())
		return err
	})
	return made, undone, err
}

// drops reports whether the table is dropped to undo a move.
func (w *Service) drops(ctx context.Context, made commit.Move) (drops bool, err error) {
	if made.Ref != commit.Main || made.From != 0 || w.options.History == nil {
		return false, nil
	}
	err = w.withHistory(ctx, made.Table, func(t *history.Table) error {
		drops = t.MayDrop(made.To) == nil
		return nil
	})
	return drops, err
}

// withHistory calls use with the snapshots of a table that the configuration allows to change.
func (w *Service) withHistory(ctx context.Context, table string, use func(*history.Table) error) error {
	if err := w.options.Tables.Writable(table); err != nil {
		return err
	}
	held, err := w.options.Budget.Reserve("the snapshots of table "+table, 0)
	if err != nil {
		return err
	}
	defer held.Release()
	t, err := w.options.History.History(ctx, table, held)
	if err != nil {
		return err
	}
	return use(t)
}
