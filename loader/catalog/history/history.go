// Package history describes the snapshots of a table and the changes that made them, as a log for
// people and programs, and finds the changes that can be undone. The counts are those in the
// snapshots' summaries; the package does not verify them. It does no I/O.
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
	"github.com/penstock/penstock/loader/dataset"
)

// Table is the snapshot metadata of a table. It is immutable.
type Table struct {
	Name string
	// Snapshots are all snapshots in the metadata, in the order of the metadata.
	Snapshots []Snapshot
	Refs      map[string]Ref // by name; main of a table without snapshots is not among them
	// Moves are the snapshots that main was moved to, the oldest move first. The metadata may keep
	// only the latest moves.
	Moves []int64
	// Moved is the time of main's last move. It is zero if main was never moved or if the time is
	// unknown.
	Moved time.Time
	// Partition are the fields of the current partition spec, such as bucket[16](request_id) or day(ts).
	Partition []string
	// Columns are the columns of the current schema.
	Columns []Column
	// Key has the columns of the key that the table records; nil if it records none.
	Key []string
	// Statistics are the statistics of snapshots that Penstock kept with the table.
	Statistics []catalog.KeptStatistics
}

// Column is a column, with the documentation that its writer gave it.
type Column struct{ Name, Doc string }

// Snapshot is one snapshot, with the summary that its writer wrote.
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

// Entry is one snapshot of a log, as JSON. A count is absent if the snapshot's summary does not
// have it.
type Entry struct {
	Snapshot  int64     `json:"snapshot,string"`
	Parent    int64     `json:"parent,omitempty,string"`
	Time      time.Time `json:"time"`
	Operation string    `json:"operation,omitempty"`
	// Writer is the Penstock command that made the change, such as "penstock stage". If Penstock
	// did not make it, Writer is the engine that did; "" if that is unknown.
	Writer       string `json:"writer,omitempty"`
	Token        string `json:"token,omitempty"` // the token of the change, if Penstock made it
	RowsAdded    *int64 `json:"rows_added,omitempty"`
	RowsRemoved  *int64 `json:"rows_removed,omitempty"`
	BytesAdded   *int64 `json:"bytes_added,omitempty"`
	BytesRemoved *int64 `json:"bytes_removed,omitempty"`
	FilesAdded   *int64 `json:"files_added,omitempty"` // data files
	// Rows is the number of rows in all data files. Rows deleted by delete files are not
	// subtracted.
	Rows     *int64   `json:"rows,omitempty"`
	Branches []string `json:"branches,omitempty"` // branches that are at this snapshot
	Tags     []string `json:"tags,omitempty"`     // tags that are at this snapshot, without pins
	Pins     []Pin    `json:"pins,omitempty"`
	// Undo is the move that undoes this change and all later changes of the branch. It is nil if
	// the move would also undo changes that Penstock did not make, or if moving the branch cannot
	// undo the change.
	Undo *Undo `json:"undo,omitempty"`
	// Demote is the name of a column to demote in order to undo the change, if the snapshot was
	// made by a promotion whose columns the schema still has. It is "" for other snapshots.
	Demote string `json:"demote,omitempty"`
}

// Undo is a move of a branch that undoes changes.
type Undo struct {
	Branch string `json:"branch,omitempty"`      // "" is main
	From   int64  `json:"from,omitempty,string"` // the snapshot to move back to; 0: none
	To     int64  `json:"to,string"`             // the snapshot that the branch is at
}

// Log is the history of a branch, as JSON.
type Log struct {
	Table  string `json:"table"`
	Branch string `json:"branch"`
	// Snapshots are the snapshots of the branch, newest first.
	Snapshots []Entry `json:"snapshots"`
	// Older is the number of snapshots of the branch that the limit leaves out.
	Older int `json:"older,omitempty"`
	// OtherRefs are the branches and tags whose snapshots are not in Snapshots, sorted by name. Tags
	// of pins are left out.
	OtherRefs []NamedRef `json:"other_refs,omitempty"`
	// Statistics are the statistics of a snapshot of the table that were kept last; nil if none are kept.
	Statistics *catalog.KeptStatistics `json:"statistics,omitempty"`
}

// NamedRef is a branch or a tag, as JSON.
type NamedRef struct {
	Name     string `json:"name"`
	Tag      bool   `json:"tag,omitempty"`
	Snapshot int64  `json:"snapshot,string"`
}

// snapshotsByID are the snapshots of a table by id.
type snapshotsByID map[int64]*Snapshot

func (t *Table) byID() snapshotsByID {
	out := make(snapshotsByID, len(t.Snapshots))
	for i := range t.Snapshots {
		out[t.Snapshots[i].ID] = &t.Snapshots[i]
	}
	return out
}

// ancestors returns a snapshot and its parents, as far as they are kept.
func (s snapshotsByID) ancestors(id int64) iter.Seq[*Snapshot] {
	return func(yield func(*Snapshot) bool) {
		for range s { // a cycle ends too
			one, ok := s[id]
			if id == 0 || !ok || !yield(one) {
				return
			}
			id = one.Parent
		}
	}
}

// undoTo returns the snapshot that a branch must be moved back to, to undo the given snapshot: its
// parent, or 0 if it has no parent or if its change created the branch. A branch that is moved to 0
// is removed. undoTo returns false if the parent no longer exists.
func (s snapshotsByID) undoTo(branch string, one *Snapshot) (int64, bool) {
	if one.Parent == 0 || branch != commit.Main && one.Summary[commit.SummaryBegan] == branch {
		return 0, true
	}
	return one.Parent, s[one.Parent] != nil
}

// Ref returns the Ref that a text names: the id of a snapshot, or the name of a branch or tag. "" is main. If a branch or tag
// has a number as its name, it wins over a snapshot with that id.
func (t *Table) Ref(text string) dataset.Ref {
	if _, named := t.Refs[text]; !named {
		if id, ok := SnapshotID(text); ok {
			return dataset.Ref{Snapshot: id}
		}
	}
	return dataset.Ref{Name: text}
}

// Time returns the time of a snapshot in UTC; zero if the table does not have it.
func (t *Table) Time(snapshot int64) time.Time {
	for _, s := range t.Snapshots {
		if s.ID == snapshot {
			return s.Time.UTC()
		}
	}
	return time.Time{}
}

// SnapshotID parses the id of a snapshot.
func SnapshotID(text string) (int64, bool) {
	id, err := strconv.ParseInt(text, 10, 64)
	return id, err == nil && id > 0
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

// A Demotable function returns, for the id of a promotion, the name of a column in the current
// schema that this promotion made, or "" if there is none.
type Demotable func(promotion string) string

// Demotable returns the function that looks for such columns in the table's current schema.
func (t *Table) Demotable() Demotable {
	return func(promotion string) string {
		for _, c := range t.Columns {
			if origin, ok := dataset.OriginOf(c.Doc); ok && origin.Promotion == promotion {
				return c.Name
			}
		}
		return ""
	}
}

// LogOf returns the log of a branch ("" is main) or tag, with at most limit snapshots; 0 is no limit.
func (t *Table) LogOf(branch string, limit int, demotable Demotable) (Log, error) {
	branch = cmp.Or(branch, commit.Main)
	out := Log{Table: t.Name, Branch: branch, Snapshots: []Entry{}}
	head, err := t.head(branch)
	if err != nil {
		return out, err
	}
	names, byID := t.refsBySnapshot(), t.byID()
	own := !t.Refs[branch].Tag // whether all snapshots so far are changes of Penstock that can be undone
	for s := range byID.ancestors(head) {
		if limit > 0 && len(out.Snapshots) == limit {
			out.Older++
			continue
		}
		e := entryOf(s)
		e.Branches, e.Tags, e.Pins = names[s.ID].Branches, names[s.ID].Tags, names[s.ID].Pins
		if promotion := s.Summary[commit.SummaryPromotion]; promotion != "" {
			e.Demote = demotable(promotion)
			if own = own && e.Demote == ""; own { // demote took the promotion back, and the promotion did not change rows
				out.Snapshots = append(out.Snapshots, e)
				continue
			}
		}
		from, kept := byID.undoTo(branch, s)
		if own = own && e.Token != "" && kept; own {
			e.Undo = &Undo{From: from, To: head}
			if branch != commit.Main {
				e.Undo.Branch = branch
			}
		}
		own = own && from != 0 // snapshots before the change that created the branch are not changes of this branch
		out.Snapshots = append(out.Snapshots, e)
	}
	out.OtherRefs, out.Statistics = t.refsExcept(out.Snapshots), catalog.LastKept(t.Statistics)
	return out, nil
}

// refsExcept returns the branches and tags, without pins, that are at none of the listed snapshots.
func (t *Table) refsExcept(listed []Entry) []NamedRef {
	var out []NamedRef
	for _, name := range slices.Sorted(maps.Keys(t.Refs)) {
		ref := t.Refs[name]
		isListed := slices.ContainsFunc(listed, func(e Entry) bool { return e.Snapshot == ref.Snapshot })
		if !isListed && name != catalog.PinTag(ref.Snapshot) {
			out = append(out, NamedRef{Name: name, Tag: ref.Tag, Snapshot: ref.Snapshot})
		}
	}
	return out
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
		BytesAdded: countOf(s, "added-files-size"), BytesRemoved: countOf(s, "removed-files-size"),
		FilesAdded: countOf(s, "added-data-files"), Rows: countOf(s, "total-records"),
	}
}

// countOf returns a count from a snapshot's summary, or nil if the summary does not have it.
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

// RefAt is like Ref, but the text may also be a time, or a day, which stands for its beginning in UTC: then it selects the newest
// snapshot of main that was committed until then. The error is NotFound if there is none.
func (t *Table) RefAt(text string) (dataset.Ref, error) {
	if _, named := t.Refs[text]; named {
		return dataset.Ref{Name: text}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at, err = time.Parse(time.DateOnly, text)
	}
	if err != nil {
		return t.Ref(text), nil
	}
	for s := range t.byID().ancestors(t.Refs[commit.Main].Snapshot) {
		if !s.Time.After(at) {
			return dataset.Ref{Snapshot: s.ID}, nil
		}
	}
	return dataset.Ref{}, fault.New(fault.NotFound, "main of table %s has no snapshot from before %s", t.Name, at.UTC().Format(time.RFC3339)).In(t.Name, "").
		WithRemedy("penstock log %s lists the snapshots", t.Name)
}
