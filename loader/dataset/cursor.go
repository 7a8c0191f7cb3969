package dataset

import "maps"

// NoSnapshot is the snapshot id of a table that has none yet: an empty table.
const NoSnapshot = -1

// TablePin fixes one table: what was read, whatever is committed later. That of a query may
// say the snapshot alone, or be zero: then the rest is looked up when it is planned.
type TablePin struct {
	UUID     string `json:"uuid"`
	Snapshot int64  `json:"snapshot"` // NoSnapshot for an empty table
	Schema   int    `json:"schema"`
	// Mapping is the table's name mapping, by which files are read that were written
	// without field ids: NoMapping, OwnNames, or a digest of it.
	Mapping string `json:"mapping,omitempty"`
}

// The mappings that a pin says without a digest.
const (
	NoMapping = ""      // the table has none, and such files are refused
	OwnNames  = "names" // that by the names which the columns of the pinned schema have
)

// Whole says whether nothing of a table is left to be looked up.
func (p TablePin) Whole() bool { return p.UUID != "" }

// agrees says whether a pin says nothing else than a whole one.
func (p TablePin) agrees(whole TablePin) bool {
	return p == whole || !p.Whole() && (p.Snapshot == 0 || p.Snapshot == whole.Snapshot)
}

// Pin fixes every table of a dataset, the staging ones by their entry's name. That of a
// query may leave tables out; the zero Pin fixes none.
type Pin struct {
	Training TablePin            `json:"training"`
	Staging  map[string]TablePin `json:"staging"`
}

// Whole says whether nothing is left to be looked up of the tables that a pin names.
func (p Pin) Whole() bool {
	for _, s := range p.Staging {
		if !s.Whole() {
			return false
		}
	}
	return p.Training.Whole()
}

// IsZero reports whether no table is pinned.
func (p Pin) IsZero() bool { return p.Training == TablePin{} && len(p.Staging) == 0 }

// normal returns the one form of a pin: Staging is nil in the zero Pin and nowhere else.
func (p Pin) normal() Pin {
	switch {
	case p.IsZero():
		return Pin{}
	case p.Staging == nil:
		p.Staging = map[string]TablePin{}
	}
	return p
}

// Agrees reports whether a pin contradicts a whole one nowhere: each table that both
// name has the same snapshot.
func (p Pin) Agrees(whole Pin) bool {
	for name, s := range p.Staging {
		if one, ok := whole.Staging[name]; ok && !s.agrees(one) {
			return false
		}
	}
	return p.Training.agrees(whole.Training)
}

// within reports whether a whole pin fixes all that p fixes, at the same snapshots.
func (p Pin) within(whole Pin) bool {
	for name := range p.Staging {
		if _, ok := whole.Staging[name]; !ok {
			return false
		}
	}
	return p.Agrees(whole)
}

// filledFrom returns the pin of a query with what it leaves out taken from the whole pin
// of its cursor. A pin that contradicts the cursor's stays as it is.
func (p Pin) filledFrom(had Pin) Pin {
	if !p.Agrees(had) {
		return p
	}
	out := Pin{Training: p.Training.filled(had.Training), Staging: maps.Clone(had.Staging)}
	for name, s := range p.Staging {
		if out.Staging == nil {
			out.Staging = map[string]TablePin{}
		}
		out.Staging[name] = s.filled(had.Staging[name])
	}
	return out
}

// Position is where one lane stands: Row rows of the final sequence (after
// filters and joins, before the cut) of range number Range of the lane were
// given; where rows are permuted within windows, all of the windows before Window,
// and Row rows of that one. Range counts the lane's ranges of splits from 0, and
// Window the windows of the range; a finished lane stands at (number of ranges, 0).
type Position struct {
	Lane   int
	Range  int
	Window int64
	Row    int64
}

// CursorVersion is the version of the cursor's form that this code writes.
const CursorVersion = 1

// Cursor is the position of a stream after a batch (docs/spec/cursor.md). Clients save
// it with the model's checkpoint. It holds the rows of its plan, so that a cursor of
// other rows is refused with a list of what differs. At has the shard's lanes only, in
// ascending order.
type Cursor struct {
	Version   int
	Plan      string
	Algorithm int
	Rows            // of the plan
	Shard     Shard // one of them
	Step      int64 // steps given so far
	// Given is the rows that each lane gave so far that still runs; requests, if
	// Rows.Requests is set.
	Given int64
	// Uneven reports that no number is the rows that each lane gave since the plan's
	// start: Given is the most that one gave, or counts from where an endpoint began.
	Uneven bool
	At     []Position
	// Counted is there where the rows of the plan were counted.
	Counted *Counted
}

// Cursors is what a query resumes from: one cursor, or a list that covers all
// lanes with equal rows given per lane. JSON takes either form.
type Cursors []Cursor
