package commits

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/revision"
)

// Move moves, creates or removes a branch. See commit.Brancher.
func (w *TableWriter) Move(ctx context.Context, move commit.Move) error {
	if move.Ref == "" || move.Ref == commit.Main && move.To == 0 {
		return fault.InvalidField("ref", "branch %q cannot be removed", move.Ref).In(move.Table, "").WithRemedy("name a branch other than %s", commit.Main)
	}
	return w.moveRef(ctx, move)
}

// moveRef moves, creates or removes a branch, which may be main.
func (w *TableWriter) moveRef(ctx context.Context, move commit.Move) error {
	if err := w.MayWrite(move.Table); err != nil {
		return err
	}
	ctx, done, err := w.takeTurn(ctx, move.Table)
	if err != nil {
		return err
	}
	defer done()
	call := &writing{source: w.source, table: move.Table}
	err = call.repeat(ctx, fmt.Sprintf("branch %s of table %s was not moved", move.Ref, move.Table), func(ctx context.Context) (bool, error) {
		return call.moveOnce(ctx, move)
	})
	return fault.Op(err, "move branch %s of table %s", move.Ref, move.Table)
}

// moveOnce makes one attempt. It returns true if the branch is at the wanted snapshot.
func (w *writing) moveOnce(ctx context.Context, move commit.Move) (bool, error) {
	held := w.source.Hold(w.table)
	defer held.Release()
	meta, err := w.source.Load(ctx, w.table, held)
	if err != nil {
		return false, err
	}
	w.last = meta
	if uuid := meta.TableUUID().String(); move.UUID != "" && uuid != move.UUID {
		return false, catalog.RecreatedTable(w.table, move.UUID, uuid)
	}
	at, err := meta.At(move.Ref)
	if err != nil {
		return false, err
	}
	if at == move.To {
		w.moved(meta)
		return true, nil
	}
	w.settle(at)
	switch {
	case at != move.From:
		return false, fault.New(fault.Conflict, "branch %s of table %s is at %s, not at %s", move.Ref, w.table, metadata.SnapshotName(at), metadata.SnapshotName(move.From)).
			In(w.table, "").WithRemedy("look at the table's current state, and decide again")
	case move.To != 0 && meta.SnapshotByID(move.To) == nil:
		return false, catalog.UnknownSnapshot(w.table, move.To, meta.SnapshotTimes())
	case w.refused != nil && w.at == state(meta):
		return false, w.refused
	}
	a := w.begin(at)
	outcome, err := w.send(ctx, meta, a, revision.Revision{Branch: move.Ref, From: at, To: move.To})
	made, err := w.outcome(meta, a, outcome, err)
	if made {
		w.settle(move.To)
	}
	return made, err
}

// moved settles the attempts of a change that was made: attempts whose metadata file is not in the
// table's metadata log were not committed.
func (w *writing) moved(meta *metadata.Loaded) {
	made := map[string]bool{meta.File.Location: true}
	for entry := range meta.PreviousFiles() {
		made[entry.MetadataFile] = true
	}
	for _, a := range w.attempts {
		a.settled = !slices.ContainsFunc(a.files, func(location string) bool { return made[location] })
	}
}

// look loads a table and returns the move that decide returns for its metadata.
func (w *TableWriter) look(ctx context.Context, table string, decide func(*metadata.Loaded) (commit.Move, error)) (commit.Move, error) {
	if err := w.MayWrite(table); err != nil {
		return commit.Move{}, err
	}
	held := w.source.Hold(table)
	defer held.Release()
	meta, err := w.source.Load(ctx, table, held)
	if err != nil {
		return commit.Move{}, err
	}
	return decide(meta)
}

// maxNamed is the maximum number of snapshots that an error names.
const maxNamed = 10

// since lists a snapshot and its ancestors up to the first one that the branch has, for an error.
func since(m *metadata.Loaded, from int64, branch string) string {
	has := map[int64]bool{}
	if head, err := m.Head(branch); err == nil {
		for s := range m.Ancestors(head) {
			has[s.SnapshotID] = true
		}
	}
	var names []string
	for s := range m.Ancestors(m.SnapshotByID(from)) {
		if has[s.SnapshotID] || len(names) == maxNamed {
			break
		}
		names = append(names, strconv.FormatInt(s.SnapshotID, 10))
	}
	return strings.Join(names, ", ")
}

// Undo reverses a move of a branch. See commit.Brancher.
func (w *TableWriter) Undo(ctx context.Context, made commit.Move) error {
	back, err := w.look(ctx, made.Table, func(m *metadata.Loaded) (commit.Move, error) {
		at, err := m.At(made.Ref)
		if err != nil {
			return commit.Move{}, err
		}
		if at != made.To && at != made.From {
			return commit.Move{}, committedSince(m, made, at)
		}
		if made.From != 0 && m.SnapshotByID(made.From) == nil {
			return commit.Move{}, catalog.ExpiredSnapshot(made.Table, made.From).WithRemedy("%s", listed(m))
		}
		if err := leads(m, made); err != nil {
			return commit.Move{}, err
		}
		return commit.Move{Table: made.Table, UUID: made.UUID, Ref: made.Ref, From: made.To, To: made.From}, nil
	})
	if err == nil {
		err = w.moveRef(ctx, back)
	}
	return fault.Op(err, "undo snapshot %d of table %s", made.To, made.Table)
}

// leads returns Conflict if a move cannot have happened. It can have happened if From is an
// ancestor of To; or, if From is 0, if the branch is not main or To has no parent. If To no longer
// exists, because it was undone and has expired, leads does not check the move.
func leads(m *metadata.Loaded, made commit.Move) error {
	to := m.SnapshotByID(made.To)
	if to == nil {
		return nil
	}
	before := "no snapshot before it"
	if made.From == 0 && (to.ParentSnapshotID == nil || made.Ref != commit.Main) {
		return nil
	}
	if to.ParentSnapshotID != nil {
		before = metadata.SnapshotName(*to.ParentSnapshotID) + " before it"
	}
	for s := range m.Ancestors(to) {
		if s.SnapshotID == made.From {
			return nil
		}
	}
	return fault.New(fault.Conflict, "%s of table %s does not come from %s: it has %s", metadata.SnapshotName(made.To), made.Table, metadata.SnapshotName(made.From), before).
		In(made.Table, "").WithRemedy("name the snapshots as the publish or the stage printed them; %s", listed(m))
}

// committedSince returns the error Conflict for a move that cannot be reversed. It lists the
// snapshots that were committed since, or the table's snapshots if the branch no longer descends
// from To.
func committedSince(m *metadata.Loaded, made commit.Move, at int64) error {
	var names []string
	for s := range m.Ancestors(m.SnapshotByID(at)) {
		if s.SnapshotID == made.To {
			return fault.New(fault.Conflict, "branch %s of table %s has later snapshots than %d: %s", made.Ref, made.Table, made.To, strings.Join(names, ", ")).
				In(made.Table, "").WithRemedy("undo these first, or commit a change that removes the files of snapshot %d", made.To)
		}
		if len(names) < maxNamed {
			names = append(names, strconv.FormatInt(s.SnapshotID, 10))
		}
	}
	return fault.New(fault.Conflict, "branch %s of table %s is at %s, which does not come from snapshot %d", made.Ref, made.Table, metadata.SnapshotName(at), made.To).In(made.Table, "").
		WithRemedy("%s", listed(m))
}

// listed lists the snapshots of a table, for the remedy of an error.
func listed(m *metadata.Loaded) string {
	known := m.SnapshotTimes()
	if len(known) == 0 {
		return "the table has no snapshots"
	}
	return "its snapshots are " + catalog.SnapshotTexts(known)
}
