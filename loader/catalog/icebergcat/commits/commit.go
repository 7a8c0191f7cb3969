package commits

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/locator"
)

var (
	_ commit.Committer = (*TableWriter)(nil)
	_ commit.Brancher  = (*TableWriter)(nil)
)

// committing is one call of Commit. All attempts use the same snapshot id. So a later attempt finds
// the snapshot if an earlier attempt was committed after all, and no catalog can apply two
// attempts.
type committing struct {
	writing
	tables *TableWriter // creates the table; nil if the call only looks for the change
	change commit.Change
	id     int64
}

// Commit makes a change. See commit.Committer.
//
// Each attempt loads the table. If the branch already has the change, which it recognizes by the
// token, the snapshot id or the digest of the rows, the call is done. Otherwise, it writes the
// files of a new snapshot and commits, on the condition that the branch has not moved. If the
// branch has moved, or if the outcome is unknown, another attempt follows.
func (w *TableWriter) Commit(ctx context.Context, change commit.Change) (commit.Committed, error) {
	change.Branch = cmp.Or(change.Branch, commit.Main)
	err := w.MayWrite(change.Table)
	if err == nil {
		err = change.Check(w.source.Now())
	}
	if err != nil {
		return commit.Committed{}, err
	}
	ctx, done, err := w.takeTurn(ctx, change.Table)
	if err != nil {
		return commit.Committed{}, err
	}
	defer done()
	p := &committing{tables: w, change: change, id: rand.Int64N(1<<62) + 1} //nolint:gosec,mnd // an id, not a secret
	p.source, p.table = w.source, change.Table
	p.prefix = commit.FilePrefix(cmp.Or(change.Token, strconv.FormatInt(p.id, 10)))
	var out commit.Committed
	err = p.repeat(ctx, fmt.Sprintf("branch %s of table %s was not changed", change.Branch, change.Table), func(ctx context.Context) (done bool, err error) {
		out, done, err = p.once(ctx)
		return done, err
	})
	return out, fault.Op(err, "commit to table %s", change.Table)
}

// once makes one attempt. It returns done = false without an error if another attempt should
// follow.
func (p *committing) once(ctx context.Context) (out commit.Committed, done bool, err error) {
	held := p.source.Hold(p.table)
	defer held.Release()
	meta, err := p.source.Load(ctx, p.table, held)
	if p.change.Creates != nil && fault.KindOf(err) == fault.NotFound {
		meta, err = p.tables.unsaved(*p.change.Creates, p.change.Token, held)
	}
	if err != nil {
		return out, false, p.unloaded(ctx, err)
	}
	p.last = meta
	if uuid := meta.TableUUID().String(); p.change.UUID != "" && uuid != p.change.UUID {
		return out, false, catalog.RecreatedTable(p.table, p.change.UUID, uuid)
	}
	head, at, err := p.begins(meta)
	if err != nil {
		return out, false, err
	}
	found, err := p.find(meta, head)
	if found != nil && at == 0 && p.change.Begin != 0 && found.SnapshotID != p.id {
		return out, false, fault.New(fault.Conflict, "%s of table %s has the change of token %s since, and branch %s does not exist", commit.Main, p.table, p.change.Token, p.change.Branch).
			In(p.table, "").WithRemedy("repeat the call, which creates the branch, or use a new token for another change")
	}
	if found != nil || err != nil {
		return p.result(found), err == nil, err
	}
	p.settle(at)
	if p.change.Creates != nil && !meta.Unsaved {
		return out, false, fault.New(fault.Conflict, "table %s already exists", p.table).In(p.table, "").WithRemedy("repeat the call, which then adds to the table")
	}
	if p.refused != nil && p.at == state(meta) {
		return out, false, p.refused
	}
	if p.change.Unmoved && metadata.IDOf(head) != p.change.Base {
		return out, false, fault.New(fault.Conflict, "branch %s of table %s is at %s, and the change was derived from %s",
			p.change.Branch, p.table, metadata.SnapshotName(metadata.IDOf(head)), metadata.SnapshotName(p.change.Base)).In(p.table, "").WithRemedy("make the change again from the branch's current snapshot")
	}
	a := p.begin(at)
	r, err := p.prepare(ctx, meta, head, a)
	if err != nil {
		return out, false, err
	}
	outcome, err := p.send(ctx, meta, a, r)
	made, err := p.outcome(meta, a, outcome, err)
	if made {
		out = commit.Committed{Snapshot: p.id, Parent: metadata.IDOf(head), Began: at == 0 && p.change.Begin != 0, Tries: len(p.attempts), Time: time.UnixMilli(r.Snapshot.Time)}
		p.found(&icetable.Snapshot{ManifestList: a.list})
	}
	return out, made, err
}

// begins returns the parent of the new snapshot, and the id of the snapshot that the branch is at,
// which is 0 if the branch does not exist.
func (p *committing) begins(meta *metadata.Loaded) (*icetable.Snapshot, int64, error) {
	head, err := meta.Head(p.change.Branch)
	if p.change.Begin == 0 || fault.KindOf(err) != fault.NotFound {
		return head, metadata.IDOf(head), err
	}
	if head = meta.SnapshotByID(p.change.Begin); head == nil {
		return nil, 0, fault.New(fault.Expired, "branch %s of table %s does not exist, and snapshot %d, at which it would begin, no longer does", p.change.Branch, p.table, p.change.Begin).
			In(p.table, "").WithRemedy("make the change again from the current snapshot of %s", commit.Main)
	}
	return head, 0, nil
}

// unloaded returns the error of an attempt that could not load the table because of err. If the
// outcome of an earlier attempt is unknown, it returns nil a few times, so that the table is loaded
// again.
func (p *committing) unloaded(ctx context.Context, err error) error {
	if fault.KindOf(err) != fault.Unavailable || ctx.Err() != nil || !p.uncertain() {
		return err
	}
	if p.unknown++; p.unknown >= MaxUnknown {
		return err
	}
	return nil
}

// result returns the Committed for the snapshot that has the change.
func (p *committing) result(s *icetable.Snapshot) commit.Committed {
	if s == nil {
		return commit.Committed{}
	}
	out := commit.Committed{Snapshot: s.SnapshotID, Existed: s.SnapshotID != p.id, Tries: len(p.attempts), Time: time.UnixMilli(s.TimestampMs)}
	if s.ParentSnapshotID != nil {
		out.Parent = *s.ParentSnapshotID
	}
	if out.Existed {
		out.Token = summaryOf(s, commit.SummaryToken)
	}
	return out
}

// summaryOf returns the value of an entry of a snapshot's summary, or "" if there is none.
func summaryOf(s *icetable.Snapshot, entry string) string {
	if s.Summary == nil {
		return ""
	}
	return s.Summary.Properties[entry]
}

// find looks for the snapshot that has the change, by the snapshot id, the token and the rows of
// the change. It returns nil if there is none. It returns the errors of byToken and byRows.
func (p *committing) find(meta *metadata.Loaded, head *icetable.Snapshot) (*icetable.Snapshot, error) {
	made := meta.SnapshotByID(p.id)
	var err error
	if made == nil && p.change.Token != "" {
		made, err = p.byToken(meta, head)
	}
	if made == nil && err == nil && p.change.Rows.Once && p.change.Rows.Digest != "" {
		made, err = p.byRows(meta, head)
	}
	if made != nil {
		p.found(made)
	}
	return made, err
}

// byToken returns the snapshot of the branch that has the change's token, or nil if no snapshot has
// it. It returns Conflict if only a snapshot outside the branch has the token, because the change
// is in another branch or was undone. It returns Expired if a snapshot with the token may have
// existed and expired.
func (p *committing) byToken(meta *metadata.Loaded, head *icetable.Snapshot) (*icetable.Snapshot, error) {
	oldest, cut := head, false
	for s := range meta.Ancestors(head) {
		if summaryOf(s, commit.SummaryToken) == p.change.Token {
			return s, nil
		}
		oldest, cut = s, s.ParentSnapshotID != nil
	}
	for _, s := range meta.Snapshots() {
		if summaryOf(&s, commit.SummaryToken) == p.change.Token {
			return nil, fault.New(fault.Conflict, "token %s is that of snapshot %d of table %s, which branch %s does not have: it was undone, or is of another branch",
				p.change.Token, s.SnapshotID, p.table, p.change.Branch).In(p.table, "").WithRemedy("use a new token for another change")
		}
	}
	at, timed := commit.TokenTime(p.change.Token)
	if !timed || !cut || at.After(latestForgotten(oldest)) || p.change.Fresh && !p.uncertain() {
		return nil, nil
	}
	return nil, fault.New(fault.Expired, "token %s is older than snapshot %d, the oldest that is kept of branch %s of table %s: the change may have been made in one that is gone",
		p.change.Token, oldest.SnapshotID, p.change.Branch, p.table).In(p.table, "").
		WithRemedy("check whether the table has the rows; if not, commit them with a new token")
}

// byRows returns the latest snapshot of the branch that added the rows of the change, if the branch
// still has them; otherwise nil. If the change replaces partitions, and a later snapshot added or
// removed any rows, byRows returns nil, so that the change is made again: afterwards, its
// partitions have only its rows. For any other change, byRows returns Conflict if a later snapshot
// removed rows, because some of the change's rows may be among them.
func (p *committing) byRows(meta *metadata.Loaded, head *icetable.Snapshot) (*icetable.Snapshot, error) {
	var removed *icetable.Snapshot // the latest snapshot that may have removed rows
	for s := range meta.Ancestors(head) {
		switch {
		case summaryOf(s, commit.SummaryRows) != p.change.Rows.Digest:
		case removed == nil:
			return s, nil
		default:
			return nil, fault.New(fault.Conflict, "snapshot %d of table %s added the same rows, and snapshot %d, which came later, may have removed some of them", s.SnapshotID, p.table, removed.SnapshotID).
				In(p.table, "").WithRemedy("look whether the table has the rows; if not, write them once more with again (--again)")
		}
		adds, removes := changesRows(s)
		if p.change.Rows.Replaces && (adds || removes) {
			return nil, nil
		}
		if removes && removed == nil {
			removed = s
		}
	}
	return nil, nil
}

// changesRows reports whether a snapshot may have added or removed rows.
func changesRows(s *icetable.Snapshot) (adds, removes bool) {
	if s.Summary == nil {
		return true, true
	}
	switch s.Summary.Operation {
	case icetable.OpAppend:
		return true, false
	case icetable.OpReplace:
		return false, false
	case icetable.OpOverwrite, icetable.OpDelete:
	}
	return true, true
}

// latestForgotten returns the latest time that a token of an expired snapshot can have, given the
// oldest snapshot that still exists. The reasons are that no snapshot is older than its token, and
// that no snapshot with a token is older than its parent.
func latestForgotten(oldest *icetable.Snapshot) time.Time {
	at := time.UnixMilli(oldest.TimestampMs)
	if oldest.Summary == nil || oldest.Summary.Properties[commit.SummaryToken] == "" {
		at = at.Add(commit.MaxBehind)
	}
	return at
}

// found settles all attempts, given the snapshot that has the change.
func (p *committing) found(made *icetable.Snapshot) {
	for _, a := range p.attempts {
		if a.list == made.ManifestList {
			a.outcome = locator.Committed
		} else {
			a.settled = true
		}
	}
}
