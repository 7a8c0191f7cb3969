package history

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
)

// LastChange returns the move that Penstock made with its last change of a branch ("" is main), and
// the snapshots of this change, newest first. The caller passes the move to Undo. A publication can
// move main over several snapshots, which are undone together.
//
// LastChange returns NotFound if Penstock made no change. It returns Conflict if other writers
// committed since, with their snapshots. It also returns Conflict if main's last move went back, so
// that a repeated call does not undo one change more; the remedy then names the snapshots of the
// change before. It also returns Conflict if the last change is a promotion. If the schema has no
// columns of the promotion, the remedy again names the snapshots of the change before.
func (t *Table) LastChange(branch string, demotable Demotable) (commit.Move, []Entry, error) {
	branch = cmp.Or(branch, commit.Main)
	made := commit.Move{Table: t.Name, Ref: branch}
	var err error
	if made.To, err = t.head(branch); err != nil {
		return made, nil, err
	}
	if t.Refs[branch].Tag {
		return made, nil, fault.InvalidField("branch", "%s is a tag of table %s, and does not move", branch, t.Name).In(t.Name, "").WithRemedy("name a branch")
	}
	byID := t.byID()
	made.From = t.movedFrom(byID, branch, made.To)
	var taken, others, demoted []Entry
	for s := range byID.ancestors(made.To) {
		e := entryOf(s)
		switch {
		case s.Summary[commit.SummaryPromotion] != "" && demotable(s.Summary[commit.SummaryPromotion]) != "":
			return made, nil, t.promotedLast(byID, made.To, s, others, demotable)
		case s.Summary[commit.SummaryPromotion] != "" && len(others) == 0:
			if demoted = append(demoted, e); s.Parent == made.From {
				made.From = t.movedFrom(byID, branch, s.Parent)
			}
			continue
		case e.Token == "":
			others = append(others, e)
			continue
		case len(others) > 0:
			return made, nil, t.othersSince(branch, e, others)
		}
		taken = append(taken, e)
		if s.Parent == made.From || made.From == 0 {
			return made, taken, cmp.Or(t.demotedLast(byID, demoted, made), t.undoable(byID, made), t.movedBack(byID, made))
		}
	}
	if len(others) > 0 {
		return made, nil, t.othersSince(branch, Entry{}, others)
	}
	return made, nil, fault.New(fault.NotFound, "branch %s of table %s has no change of Penstock to take back", branch, t.Name).In(t.Name, "").
		WithRemedy("list its snapshots: penstock log")
}

// movedFrom returns the snapshot that a branch was at before it moved to snapshot to. For main, it
// looks in the moves of main. If these do not tell, and for other branches, it returns the snapshot
// that undoTo returns.
func (t *Table) movedFrom(byID snapshotsByID, branch string, to int64) int64 {
	head := byID[to]
	if head == nil {
		return 0
	}
	from, _ := byID.undoTo(branch, head)
	if branch != commit.Main {
		return from
	}
	before := map[int64]bool{}
	for s := range byID.ancestors(head.Parent) {
		before[s.ID] = true
	}
	for i := len(t.Moves) - 1; i > 0; i-- {
		if t.Moves[i] == to && before[t.Moves[i-1]] {
			return t.Moves[i-1]
		}
	}
	return from
}

// movedBack returns an error if the last move of main went back, from a later snapshot to the one
// that main is at now.
func (t *Table) movedBack(byID snapshotsByID, made commit.Move) error {
	last := len(t.Moves) - 1
	if made.Ref != commit.Main || last < 1 || t.Moves[last] != made.To || t.Moves[last-1] == made.To {
		return nil
	}
	for s := range byID.ancestors(t.Moves[last-1]) {
		if s.ID != made.To {
			continue
		}
		at := ""
		if !t.Moved.IsZero() {
			at = " at " + t.Moved.UTC().Format(time.RFC3339)
		}
		return fault.New(fault.Conflict, "the last change of table %s was taken back already: main was moved back%s from snapshot %d to snapshot %d", t.Name, at, t.Moves[last-1], made.To).
			In(t.Name, "").WithRemedy("%s", beforeIt(made))
	}
	return nil
}

// beforeIt returns the remedy for a last change that was already taken back. Made is the move of
// the change before that.
func beforeIt(made commit.Move) string {
	from, confirmed := strconv.FormatInt(made.From, 10), ""
	if made.From == 0 {
		from, confirmed = "none", " --yes" // --yes: the change may have created the table, which is then dropped
	}
	return fmt.Sprintf("to take the change before it back too, name its snapshots: --from %s --to %d%s", from, made.To, confirmed)
}

// demotedLast returns an error if there are promotions whose columns the schema does not have and
// that are newer than the move. The list demoted has their snapshots, newest first.
func (t *Table) demotedLast(byID snapshotsByID, demoted []Entry, made commit.Move) error {
	if len(demoted) == 0 {
		return nil
	}
	of := byID[demoted[0].Snapshot].Summary[commit.SummaryPromotion]
	return fault.New(fault.Conflict, "the schema of table %s has no columns of the promotion of %s: it was interrupted, or demote took it back; it changed no row",
		t.Name, byID.ofPromotion(made.To, of)).
		In(t.Name, "").WithRemedy("to continue it, repeat promote; %s", beforeIt(made))
}

// ofPromotion names the snapshots of a promotion that are ancestors of a snapshot, newest first. It
// returns "" if there are none.
func (s snapshotsByID) ofPromotion(head int64, promotion string) string {
	var ids []string
	for one := range s.ancestors(head) {
		if one.Summary[commit.SummaryPromotion] == promotion {
			ids = append(ids, strconv.FormatInt(one.ID, 10))
		}
	}
	more := ""
	if n := len(ids) - maxListed; n > 0 {
		ids, more = ids[:maxListed], " and "+strconv.Itoa(n)+" more"
	}
	switch len(ids) {
	case 0:
		return ""
	case 1:
		return "snapshot " + ids[0]
	}
	return "snapshots " + strings.Join(ids, ", ") + more
}

// undoable returns an error if the snapshot that a move started from no longer exists.
func (t *Table) undoable(byID snapshotsByID, made commit.Move) error {
	if made.From == 0 || byID[made.From] != nil {
		return nil
	}
	return fault.New(fault.Expired, "snapshot %d of table %s, which was before the last change, no longer exists", made.From, t.Name).In(t.Name, "").
		WithRemedy("commit a change that removes the rows; restore brings partitions back as they were at a snapshot that still exists")
}

// promotedLast returns the error for a branch on which Penstock's last change is a promotion. s is
// the newest snapshot of a promotion whose columns the schema has, and head is that of the branch.
// The last promotion may have an older snapshot, if its files were complete when it was interrupted
// or taken back: a promotion that becomes current appends its columns to the schema.
func (t *Table) promotedLast(byID snapshotsByID, head int64, s *Snapshot, others []Entry, demotable Demotable) error {
	if len(others) > 0 {
		return t.othersSince(commit.Main, entryOf(s), others)
	}
	last := t.lastPromotion()
	names := byID.ofPromotion(head, last)
	if names == "" { // its snapshots have expired
		last = s.Summary[commit.SummaryPromotion]
		names = byID.ofPromotion(head, last)
	}
	return fault.New(fault.Conflict, "the last change of table %s, %s, is a promotion, whose columns the schema has", t.Name, names).In(t.Name, "").
		WithRemedy("take it back by its column %s: penstock demote; penstock log prints the command", demotable(last))
}

// lastPromotion returns the id of the promotion whose columns are the last ones of promotions in the
// schema, or "".
func (t *Table) lastPromotion() string {
	for _, c := range slices.Backward(t.Columns) {
		if o, ok := dataset.OriginOf(c.Doc); ok {
			return o.Promotion
		}
	}
	return ""
}

// maxListed bounds the snapshots that an error lists.
const maxListed = 10

// othersSince returns the error for a branch to which other writers committed after Penstock's last
// change. Last is the zero Entry if Penstock made no change.
func (t *Table) othersSince(branch string, last Entry, others []Entry) error {
	var listed []string
	for _, e := range others[:min(len(others), maxListed)] {
		listed = append(listed, strings.TrimSpace(strconv.FormatInt(e.Snapshot, 10)+" of "+e.Time.Format(time.RFC3339)+" "+e.Writer))
	}
	text := strings.Join(listed, ", ")
	if more := len(others) - len(listed); more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	if last.Snapshot == 0 {
		return fault.New(fault.NotFound, "branch %s of table %s has no change of Penstock to take back: its snapshots are of others: %s", branch, t.Name, text).
			In(t.Name, "").WithRemedy("take them back with the engine that made them")
	}
	return fault.New(fault.Conflict, "others have committed to branch %s of table %s since the last change of Penstock, snapshot %d of %s: %s",
		branch, t.Name, last.Snapshot, last.Time.Format(time.RFC3339), text).In(t.Name, "").
		WithRemedy("restore brings partitions back as they were at a snapshot, and takes the place of all that was committed to them since")
}
