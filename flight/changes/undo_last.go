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
	if err := w.options.Tables.Writable(table); err != nil {
		return commit.Move{}, nil, err
	}
	held, err := w.options.Budget.Reserve("the snapshots of table "+table, 0)
	if err != nil {
		return commit.Move{}, nil, err
	}
	defer held.Release()
	t, err := w.options.History.History(ctx, table, held)
	if err != nil {
		return commit.Move{}, nil, err
	}
	return t.LastChange(branch, t.Demotable())
}
