package dataset

import (
	"maps"
	"strconv"
)

// NoSnapshot is the snapshot id of an empty table that has no snapshot yet.
const NoSnapshot = -1

// TablePin fixes the state of one table, regardless of later commits. In a query, it may
// have only a snapshot or be zero; planning then looks up the rest.
type TablePin struct {
	UUID     string `json:"uuid"`
	Snapshot int64  `json:"snapshot"` // NoSnapshot for an empty table
	Schema   int    `json:"schema"`
	// Mapping identifies the table's name mapping, which resolves columns of files without
	// field ids: NoMapping, OwnNames or a digest of the mapping.
	Mapping string `json:"mapping,omitempty"`
}

// The values of TablePin.Mapping that are not digests.
const (
	NoMapping = ""      // the table has no mapping, and files without field ids are rejected
	OwnNames  = "names" // the column names of the pinned schema resolve columns of files without field ids
)

// Whole reports whether the pin is complete, so that planning need not look up the table.
func (p TablePin) Whole() bool { return p.UUID != "" }

// agrees reports whether every field that p sets equals the same field of a whole pin.
func (p TablePin) agrees(whole TablePin) bool {
	return p == whole || !p.Whole() && (p.Snapshot == 0 || p.Snapshot == whole.Snapshot)
}

// Pin fixes every table of a dataset; staging tables are keyed by the names of their
// entries. In a query, tables may be left out. The zero Pin fixes no table.
type Pin struct {
	Training TablePin            `json:"training"`
	Staging  map[string]TablePin `json:"staging"`
}

// Whole reports whether the pins of the training table and of every staging table in the
// pin are complete.
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

// normal returns the normal form of a pin, in which Staging is nil only if the pin is
// zero.
func (p Pin) normal() Pin {
	switch {
	case p.IsZero():
		return Pin{}
	case p.Staging == nil:
		p.Staging = map[string]TablePin{}
	}
	return p
}

// Agrees reports whether the pin is consistent with a whole pin: no table that both pins name is
// pinned differently.
func (p Pin) Agrees(whole Pin) bool {
	for name, s := range p.Staging {
		if one, ok := whole.Staging[name]; ok && !s.agrees(one) {
			return false
		}
	}
	return p.Training.agrees(whole.Training)
}

// within reports whether whole fixes every table that p fixes, at the same snapshots.
func (p Pin) within(whole Pin) bool {
	for name := range p.Staging {
		if _, ok := whole.Staging[name]; !ok {
			return false
		}
	}
	return p.Agrees(whole)
}

// filledFrom completes the pin of a query with had, which is the whole pin of the query's cursor. A
// pin that contradicts had is returned unchanged.
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

// Position is the position of one lane: Row rows of range number Range have been returned. Rows are
// counted after filters and joins, and before the cut. If rows are permuted within windows, all
// windows of the range before number Window, and Row rows of that window, have been returned.
// Ranges of a lane, and windows of a range, are numbered from 0. If a lane has ended, Range is its
// number of ranges and Row is 0.
type Position struct {
	Lane   int
	Range  int
	Window int64
	Row    int64
}

// CursorVersion is the version of the cursor format that this code writes.
const CursorVersion = 1

// Cursor is the position of a stream after a batch (docs/spec/cursor.md). Clients save it with the
// model's checkpoint. It includes the Rows of its plan, so that the error for a cursor that belongs
// to other rows can list the differences. At has only the lanes of the shard, in ascending order.
type Cursor struct {
	Version   int
	Plan      string
	Algorithm int
	Rows            // of the plan
	Shard     Shard // the shard of the stream
	Step      int64 // steps returned so far
	// Given is the number of rows (requests if Rows.Requests is set) that each lane that has not
	// ended has returned so far.
	Given int64
	// Uneven reports whether lanes have returned different numbers of rows since the start of the
	// plan. Given is then the largest number of rows that any lane returned, or is counted from the
	// start of an endpoint.
	Uneven bool
	At     []Position
	// Counted is nil if the rows of the plan were not counted.
	Counted *Counted
}

// Cursors is the position from which a query resumes: a single cursor, or a list of cursors that
// covers all lanes, where each lane has returned the same number of rows. JSON allows either form.
type Cursors []Cursor

// SnapshotID is the id of a snapshot in a report. Its JSON form is a string, because many programs
// round integers above 2^53. Pins and cursors have ids as numbers: clients return them unchanged.
type SnapshotID int64

// MarshalText implements encoding.TextMarshaler.
func (s SnapshotID) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(s), 10), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *SnapshotID) UnmarshalText(text []byte) error {
	id, err := strconv.ParseInt(string(text), 10, 64)
	*s = SnapshotID(id)
	return err
}
