// Package history describes the snapshots of a table and the changes that made them, as a log for
// people and programs, and finds the changes that can be undone. Counts come from the snapshots'
// summaries and are not verified. It does no I/O.
package history

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// Table is the snapshot metadata of a table. It is immutable.
type Table struct {
	Name string
	// Snapshots are all snapshots in the metadata, in its order.
	Snapshots []Snapshot
	Refs      map[string]Ref // by name; main of a table without snapshots is not among them
	// Moves are the snapshots that main was moved to, oldest first. The metadata may keep only the
	// latest.
	Moves []int64
	// Partition are the fields of the current partition spec, such as bucket[16](request_id) or day(ts).
	Partition []string
	// Columns are those of the current schema.
	Columns []Column
}

// Column is a column, with the comment of its writer.
type Column struct{ Name, Doc string }

// Snapshot is one snapshot, with the summary of its writer.
type Snapshot struct {
	ID, Parent int64 // Parent is 0 if there was none
	Time       time.Time
	Operation  string // "" is unknown
	Summary    map[string]string
}

// Ref is a branch or a tag.
type Ref struct {
	Snapshot int64
	Tag      bool
	Until    time.Time // when the ref expires; zero: never
}

// Pin is a tag by which Penstock keeps a snapshot for streams that read it.
type Pin struct {
	Tag   string    `json:"tag"`
	Until time.Time `json:"until,omitzero"` // when the tag expires; zero: never
}

// Entry is one snapshot of a log, as JSON. A count is absent if the summary does not have it.
type Entry struct {
	Snapshot  int64     `json:"snapshot"`
	Parent    int64     `json:"parent,omitempty"`
	Time      time.Time `json:"time"`
	Operation string    `json:"operation,omitempty"`
	// Writer is the Penstock command that made the change, such as "penstock stage", or else the
	// engine; "" is unknown.
	Writer       string `json:"writer,omitempty"`
	Token        string `json:"token,omitempty"` // of a change of Penstock
	RowsAdded    *int64 `json:"rows_added,omitempty"`
	RowsRemoved  *int64 `json:"rows_removed,omitempty"`
	BytesAdded   *int64 `json:"bytes_added,omitempty"`
	BytesRemoved *int64 `json:"bytes_removed,omitempty"`
	// Rows is the number of rows in all data files. Rows deleted by delete files are not
	// subtracted.
	Rows     *int64   `json:"rows,omitempty"`
	Branches []string `json:"branches,omitempty"` // at this snapshot
	Tags     []string `json:"tags,omitempty"`     // without pins
	Pins     []Pin    `json:"pins,omitempty"`
	// Undo undoes the change and all later ones of the branch. It is nil if that would undo changes
	// of others, or if moving the branch cannot undo the change.
	Undo *Undo `json:"undo,omitempty"`
	// Demote is a column of the promotion that made the snapshot; demoting it undoes the promotion.
	// It is "" for other snapshots.
	Demote string `json:"demote,omitempty"`
}

// Undo is a move of a branch that undoes changes.
type Undo struct {
	Branch string `json:"branch,omitempty"` // "" is main
	From   int64  `json:"from"`             // the snapshot to move back to; 0: none
	To     int64  `json:"to"`               // the snapshot that the branch is at
}

// Log is the history of a branch, as JSON.
type Log struct {
	Table  string `json:"table"`
	Branch string `json:"branch"`
	// Snapshots are the snapshots of the branch, newest first.
	Snapshots []Entry `json:"snapshots"`
	// Older is the number of snapshots of the branch that the limit leaves out.
	Older int `json:"older,omitempty"`
}

// byID returns a snapshot, or nil.
func (t *Table) byID(id int64) *Snapshot {
	i := slices.IndexFunc(t.Snapshots, func(s Snapshot) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return &t.Snapshots[i]
}

// ancestors returns a snapshot and its parents, as far as they are kept.
func (t *Table) ancestors(id int64) iter.Seq[*Snapshot] {
	return func(yield func(*Snapshot) bool) {
		index := make(map[int64]int, len(t.Snapshots))
		for i, s := range t.Snapshots {
			index[s.ID] = i
		}
		for range t.Snapshots { // a cycle ends too
			i, ok := index[id]
			if id == 0 || !ok || !yield(&t.Snapshots[i]) {
				return
			}
			id = t.Snapshots[i].Parent
		}
	}
}

// head returns the snapshot that a branch is at: 0 for main of a table without snapshots.
func (t *Table) head(branch string) (int64, error) {
	ref, ok := t.Refs[branch]
	switch {
	case !ok && branch == commit.Main:
		return 0, nil
	case !ok:
		return 0, catalog.UnknownRef(t.Name, branch, slices.Sorted(maps.Keys(t.Refs)))
	}
	return ref.Snapshot, nil
}

// Demotable returns, for the id of a promotion, the name of one of its columns in the current schema, or "".
type Demotable func(promotion string) string

// LogOf returns the log of a branch ("" is main) or tag, with at most limit snapshots; 0 is no limit.
func (t *Table) LogOf(branch string, limit int, demotable Demotable) (Log, error) {
	branch = cmp.Or(branch, commit.Main)
	out := Log{Table: t.Name, Branch: branch, Snapshots: []Entry{}}
	head, err := t.head(branch)
	if err != nil {
		return out, err
	}
	names := t.refsBySnapshot()
	own := !t.Refs[branch].Tag // all snapshots so far are changes of Penstock that can be taken back
	for s := range t.ancestors(head) {
		if limit > 0 && len(out.Snapshots) == limit {
			out.Older++
			continue
		}
		e := entryOf(s)
		e.Branches, e.Tags, e.Pins = names[s.ID].Branches, names[s.ID].Tags, names[s.ID].Pins
		if promotion := s.Summary[commit.SummaryPromotion]; promotion != "" {
			e.Demote = demotable(promotion)
			own = false
		}
		if own = own && e.Token != "" && (s.Parent == 0 || t.byID(s.Parent) != nil); own {
			e.Undo = &Undo{From: s.Parent, To: head}
			if branch != commit.Main {
				e.Undo.Branch = branch
			}
		}
		out.Snapshots = append(out.Snapshots, e)
	}
	return out, nil
}

// refsBySnapshot returns the refs at each snapshot, sorted by name.
func (t *Table) refsBySnapshot() map[int64]Entry {
	out := map[int64]Entry{}
	for _, name := range slices.Sorted(maps.Keys(t.Refs)) {
		ref := t.Refs[name]
		e := out[ref.Snapshot]
		switch {
		case !ref.Tag:
			e.Branches = append(e.Branches, name)
		case name == catalog.PinTag(ref.Snapshot):
			e.Pins = append(e.Pins, Pin{Tag: name, Until: ref.Until})
		default:
			e.Tags = append(e.Tags, name)
		}
		out[ref.Snapshot] = e
	}
	return out
}

// entryOf returns the log entry of a snapshot, from its summary.
func entryOf(s *Snapshot) Entry {
	return Entry{
		Snapshot: s.ID, Parent: s.Parent, Time: s.Time.UTC(), Operation: s.Operation, Writer: writerOf(s.Summary), Token: s.Summary[commit.SummaryToken],
		RowsAdded: countOf(s, "added-records"), RowsRemoved: countOf(s, "deleted-records"),
		BytesAdded: countOf(s, "added-files-size"), BytesRemoved: countOf(s, "removed-files-size"), Rows: countOf(s, "total-records"),
	}
}

// countOf returns a count of a snapshot's summary, or nil.
func countOf(s *Snapshot, name string) *int64 {
	n, err := strconv.ParseInt(s.Summary[name], 10, 64)
	if err != nil || n < 0 {
		return nil
	}
	return &n
}

// writerOf returns the program that wrote a snapshot, from its summary.
func writerOf(summary map[string]string) string {
	if command := summary[commit.SummaryCommand]; command != "" {
		return "penstock " + command
	}
	if summary[commit.SummaryToken] != "" || summary[commit.SummaryPromotion] != "" {
		return "penstock"
	}
	if name := summary["engine-name"]; name != "" {
		return strings.TrimSpace(name + " " + summary["engine-version"])
	}
	for _, known := range []struct{ entry, engine string }{{"trino_query_id", "trino"}, {"flink.job-id", "flink"}, {"spark.app.id", "spark"}} {
		if summary[known.entry] != "" {
			return known.engine
		}
	}
	return ""
}

// LastChange returns the move that undoes Penstock's last change to a branch ("" is main), and the
// snapshots that it undoes, newest first. A publication can move main over several snapshots, which
// are undone together.
//
// It returns Conflict with the snapshots of others if they committed since, and NotFound if
// Penstock made no change.
func (t *Table) LastChange(branch string) (commit.Move, []Entry, error) {
	branch = cmp.Or(branch, commit.Main)
	made := commit.Move{Table: t.Name, Ref: branch}
	var err error
	if made.To, err = t.head(branch); err != nil {
		return made, nil, err
	}
	if t.Refs[branch].Tag {
		return made, nil, fault.InvalidField("branch", "%s is a tag of table %s, and does not move", branch, t.Name).In(t.Name, "").WithRemedy("name a branch")
	}
	made.From = t.movedFrom(branch, made.To)
	var taken, others []Entry
	for s := range t.ancestors(made.To) {
		e := entryOf(s)
		switch {
		case s.Summary[commit.SummaryPromotion] != "":
			return made, nil, t.promotedLast(e, others)
		case e.Token == "":
			others = append(others, e)
			continue
		case len(others) > 0:
			return made, nil, t.othersSince(branch, e, others)
		}
		taken = append(taken, e)
		if s.Parent == made.From {
			return made, taken, t.undoable(made)
		}
	}
	if len(others) > 0 {
		return made, nil, t.othersSince(branch, Entry{}, others)
	}
	return made, nil, fault.New(fault.NotFound, "branch %s of table %s has no change of Penstock to take back", branch, t.Name).In(t.Name, "").
		WithRemedy("list its snapshots: penstock log")
}

// movedFrom returns the snapshot that a branch had before it moved to a snapshot: from the moves of
// main if known, or else the snapshot's parent.
func (t *Table) movedFrom(branch string, to int64) int64 {
	parent := int64(0)
	before := map[int64]bool{}
	for s := range t.ancestors(to) {
		if s.ID == to {
			parent = s.Parent
		} else {
			before[s.ID] = true
		}
	}
	if branch != commit.Main {
		return parent
	}
	for i := len(t.Moves) - 1; i > 0; i-- {
		if t.Moves[i] == to && before[t.Moves[i-1]] {
			return t.Moves[i-1]
		}
	}
	return parent
}

// undoable returns an error if the snapshot that a move began at no longer exists.
func (t *Table) undoable(made commit.Move) error {
	if made.From == 0 || t.byID(made.From) != nil {
		return nil
	}
	return fault.New(fault.Expired, "snapshot %d of table %s, which was before the last change, no longer exists", made.From, t.Name).In(t.Name, "").
		WithRemedy("commit a change that removes the rows; restore brings partitions back as they were at a snapshot that still exists")
}

// promotedLast is the error for a branch whose last change of Penstock is a promotion.
func (t *Table) promotedLast(e Entry, others []Entry) error {
	if len(others) > 0 {
		return t.othersSince(commit.Main, e, others)
	}
	return fault.New(fault.Conflict, "the last change of table %s, snapshot %d, is a promotion, whose columns the schema has", t.Name, e.Snapshot).In(t.Name, "").
		WithRemedy("take it back by its columns: penstock demote; penstock log prints the command")
}

// maxListed bounds the snapshots that an error lists.
const maxListed = 10

// othersSince is the error for a branch that others committed to after the last change of Penstock, which is zero if there is none.
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
