package commits

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
)

// Publish moves main to the snapshot of a branch. See commit.Brancher.
func (w *TableWriter) Publish(ctx context.Context, table, branch string) (commit.Move, error) {
	return w.PublishChecked(ctx, commit.Publication{Table: table, Branch: branch}, nil)
}

// PublishChecked moves main to the snapshot of a branch, as Publish does. It calls check with the move before it is made, unless check
// is nil or main is at the snapshot already. If check returns an error, main is not moved. If main or the branch is at another snapshot
// after the check, or at another one than the caller has seen, the error is Conflict.
//
// If main is at the snapshot that the caller has seen at the branch, the publication has been made: PublishChecked moves nothing, and
// returns the move, whatever the branch is at. So a call can be repeated after its answer was lost.
func (w *TableWriter) PublishChecked(ctx context.Context, p commit.Publication, check func(context.Context, commit.Move) error) (commit.Move, error) {
	move, made, err := w.Publishing(ctx, p)
	if err == nil && !made {
		if check != nil {
			err = check(ctx, move)
			if err == nil {
				err = w.unmoved(ctx, p, move)
			}
		}
		if err == nil {
			err = w.Move(ctx, move)
		}
	}
	return move, fault.Op(err, "publish branch %s of table %s", p.Branch, p.Table)
}

// unmoved returns Conflict if a publication is not the given move any more.
func (w *TableWriter) unmoved(ctx context.Context, p commit.Publication, move commit.Move) error {
	now, _, err := w.Publishing(ctx, p)
	if err == nil && now != move {
		err = fault.New(fault.Conflict, "%s or branch %s of table %s has moved while the rows of the branch were checked", commit.Main, p.Branch, p.Table).
			In(p.Table, "").WithRemedy("publish again, which checks the current rows")
	}
	return err
}

// Publishing returns the move that a publication makes, and whether it has been made. It moves nothing. Errors are those of PublishChecked.
func (w *TableWriter) Publishing(ctx context.Context, p commit.Publication) (move commit.Move, made bool, err error) {
	move, err = w.look(ctx, p.Table, func(m *metadata.Loaded) (commit.Move, error) {
		main, err := m.At(commit.Main)
		if err != nil {
			return commit.Move{}, err
		}
		move := commit.Move{Table: p.Table, UUID: m.TableUUID().String(), Ref: commit.Main, From: main}
		if p.To != 0 && main == p.To {
			made, move.From, move.To = true, p.From, p.To
			if p.From == 0 {
				return move, nil
			}
			return move, leads(m, move)
		}
		head, err := m.Head(p.Branch)
		if err != nil {
			return commit.Move{}, err
		}
		move.To = head.SnapshotID
		if err := unseen(m, p, move); err != nil {
			return commit.Move{}, err
		}
		made = move.From == move.To
		for s := range m.Ancestors(head) {
			if s.SnapshotID == main || main == 0 {
				return move, nil
			}
		}
		return commit.Move{}, fault.New(fault.Conflict, "%s of table %s has snapshots that branch %s does not have: %s", commit.Main, p.Table, p.Branch, since(m, main, p.Branch)).
			In(p.Table, "").WithRemedy("commit the change to %s, or to a new branch that begins there", commit.Main)
	})
	return move, made, err
}

// unseen returns Conflict if main or the branch is not at the snapshot at which the caller has seen it.
func unseen(m *metadata.Loaded, p commit.Publication, now commit.Move) error {
	if p.To == 0 || now.From == p.From && now.To == p.To {
		return nil
	}
	var moved []string
	for _, one := range []struct {
		name      string
		now, seen int64
	}{{commit.Main, now.From, p.From}, {"branch " + p.Branch, now.To, p.To}} {
		if one.now != one.seen {
			moved = append(moved, fmt.Sprintf("%s is at %s, not at %s", one.name, metadata.SnapshotName(one.now), metadata.SnapshotName(one.seen)))
		}
	}
	published := ""
	if now.From != 0 && slices.Contains(ids(m, now.From), p.To) {
		published = fmt.Sprintf("; %s has snapshot %d already", commit.Main, p.To)
	}
	return fault.New(fault.Conflict, "table %s has moved: %s%s", p.Table, strings.Join(moved, ", and "), published).
		In(p.Table, "").WithRemedy("look at the table's current state, and decide again")
}

// ids returns the ids of a snapshot and its ancestors.
func ids(m *metadata.Loaded, from int64) (out []int64) {
	for s := range m.Ancestors(m.SnapshotByID(from)) {
		out = append(out, s.SnapshotID)
	}
	return out
}
