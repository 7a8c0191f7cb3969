package dataset

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
// query may leave tables out.
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

// Agrees says whether a pin, which may leave out what it likes, says nothing else than a
// whole one.
func (p Pin) Agrees(whole Pin) bool {
	for name, s := range p.Staging {
		if one, ok := whole.Staging[name]; !ok || !s.agrees(one) {
			return false
		}
	}
	return p.Training.agrees(whole.Training)
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

// Cursor is where a stream stands after a batch (docs/spec/cursor.md).
// Clients save it with the model's checkpoint. It holds what the plan was made
// of, so that a cursor of another plan can be refused with a list of what
// differs. At has the shard's lanes only, in ascending order.
type Cursor struct {
	Version   int     `json:"v"`
	Plan      string  `json:"plan"`
	Algorithm int     `json:"algorithm"`
	Dataset   string  `json:"dataset"`          // digest
	Filter    string  `json:"filter"`           // canonical
	Sample    string  `json:"sample,omitempty"` // canonical, as Sample.Canonical has it; left out if all rows count
	Since     int64   `json:"since,omitempty"`  // snapshot of the training table; left out if all rows count
	Order     Order   `json:"order"`
	Shuffle   Shuffle `json:"shuffle"`
	// ShuffleWindow is how many stored training rows a window has; left out if rows
	// come as stored.
	ShuffleWindow int64 `json:"shuffle_window,omitempty"`
	Seed          int64 `json:"seed"`
	Epoch         int64 `json:"epoch"`
	Lanes         int   `json:"lanes"`
	Pin           Pin   `json:"pin"`
	Shard         Shard `json:"shard"`
	Step          int64 `json:"step"` // steps given so far
	Rows          int64 `json:"rows"` // rows given per lane so far (of a lane that still runs); requests, if Requests is set
	// Requests says that lanes give equal requests, and so Rows and Counted are numbers of
	// requests.
	Requests bool `json:"-"`
	// Uneven says that no number is the rows that each lane gave since the plan's
	// start: Rows is the most that one gave, or counts from where an endpoint began.
	Uneven bool       `json:"uneven,omitempty"`
	At     []Position `json:"at"`
	// Counted is there where the rows of the plan were counted.
	Counted *Counted `json:"counted,omitempty"`
}

// Cursors is what a query resumes from: one cursor, or a list that covers all
// lanes with equal rows given per lane. JSON takes either form.
type Cursors []Cursor
