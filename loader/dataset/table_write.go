package dataset

// WriteMode is what becomes of the rows that a table has when others are written to it.
type WriteMode string

// The modes.
const (
	// WriteAppend adds rows.
	WriteAppend WriteMode = "append"
	// WriteReplace replaces the rows of each partition that has new rows. Partitions are those of identity and time
	// fields; of a table that has none, nothing is replaced.
	WriteReplace WriteMode = "replace"
)

// WriteModes returns all modes.
func WriteModes() []WriteMode { return []WriteMode{WriteAppend, WriteReplace} }

// Replaces reports whether rows of partitions are replaced. "" is WriteAppend.
func (m WriteMode) Replaces() bool {
	switch m {
	case WriteReplace:
		return true
	case WriteAppend, "":
	}
	return false
}

// TableWrite is what to do with rows that are written to a table: the command of a stream of rows, as JSON.
type TableWrite struct {
	Table string    `json:"table"`
	Mode  WriteMode `json:"mode,omitempty"`
	// Token names the change; see commit.NewToken. "" is a new one, which the result has.
	Token  string `json:"token,omitempty"`
	Branch string `json:"branch,omitempty"` // "" is main; another branch that does not exist begins at main
	// Evolve adds columns that the table does not have, as optional ones.
	Evolve bool `json:"evolve,omitempty"`
	// Key has the names of the key's columns. Without them they are the columns of the table's buckets.
	Key []string `json:"key,omitempty"`
	// Sort has the columns that a new table is sorted by, each with a trailing " desc" for descending; without columns it is
	// the key.
	Sort []string `json:"sort,omitempty"`
	// Buckets is the number of buckets of the key's first column in a new table. Like is a table whose bucket count it takes
	// instead; without a Partition also the fields of times and columns that the rows have.
	Buckets int    `json:"buckets,omitempty"`
	Like    string `json:"like,omitempty"`
	// Partition has the partition fields of a new table in front of the buckets: a column, or year, month, day or hour of
	// one, as in day(ts), or truncate[4](column).
	Partition []string `json:"partition,omitempty"`
	// OnlyKeysOf is a dataset or a table: rows whose key none of its training rows has are dropped. "": no rows are.
	OnlyKeysOf string `json:"only_keys_of,omitempty"`
	// AllowShrink allows a replacement by less than half as many rows.
	AllowShrink bool `json:"allow_shrink,omitempty"`
	// DryRun reads and sorts the rows, and writes nothing to the table.
	DryRun bool `json:"dry_run,omitempty"`
	// Progress is whether messages tell a client how far the call is.
	Progress bool `json:"progress,omitempty"`
}
