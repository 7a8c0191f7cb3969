package dataset

import (
	"cmp"

	"github.com/penstock/penstock/internal/fault"
)

// WriteMode determines what happens to the existing rows of a table when new rows are written.
type WriteMode string

// The modes.
const (
	// WriteAppend adds rows.
	WriteAppend WriteMode = "append"
	// WriteReplace replaces the rows of each partition that has new rows. Only identity and time
	// fields of the partition spec define these partitions; in a table without such fields, nothing
	// is replaced.
	WriteReplace WriteMode = "replace"
)

// Replaces reports whether rows of partitions are replaced. "" is WriteAppend.
func (m WriteMode) Replaces() bool {
	switch m {
	case WriteReplace:
		return true
	case WriteAppend, "":
	}
	return false
}

// TableWrite describes a write of rows to a table. As JSON, it is the command that a client sends
// with the stream of rows. WriteFields describes its fields.
type TableWrite struct {
	Table string
	Mode  WriteMode
	// Token names the change and may be any text; see commit.NewToken. If it is "", a new token is
	// made and returned in the result.
	Token string
	// Again is whether the rows are written even if the branch has them from an earlier call. Nil
	// means true if Token is set, because the token then shows whether this call was made already;
	// otherwise nil means false. See Once.
	Again *bool
	// RowsID identifies the rows of the call in place of a digest of their values, so that a
	// repeated call is recognized before its rows are computed. Calls with the same RowsID must have
	// the same rows. If it is "", or if OnlyKeysOf drops rows, the digest identifies the rows.
	RowsID string
	Branch string // "" is main; another branch that does not exist begins at main
	// Evolve adds columns that the table does not have, as optional columns.
	Evolve bool
	// Key has the names of the key columns. If it is empty, the key is the columns that the table
	// is bucketed by.
	Key []string
	// Sort has the columns that a new table is sorted by; a trailing " desc" means descending
	// order. If it is empty, the table is sorted by the key.
	Sort []string
	// Buckets is the number of buckets of the key's first column in a new table. Like is another
	// table from which the new table takes the number of buckets instead. If Partition is empty,
	// the new table also takes over Like's partition fields of columns and times, if the rows have
	// these columns.
	Buckets int
	Like    string
	// Partition has the partition fields of a new table that precede the bucket field. Each is a
	// column, a time transform of a column (year, month, day or hour, as in day(ts)), or
	// truncate[4](column).
	Partition []string
	// OnlyKeysOf names a dataset or a table. New rows are dropped if no training row of it has
	// their key. If OnlyKeysOf is "", no rows are dropped.
	OnlyKeysOf string
	// AllowDuplicates allows rows that have the same key as other new rows or as rows of the table.
	// Some datasets refuse to read tables with such rows.
	AllowDuplicates bool
	// AllowShrink allows a replacement that leaves less than half as many rows in the replaced
	// partitions.
	AllowShrink bool
	// DryRun reads and sorts the rows, and writes nothing to the table.
	DryRun bool
	// NoCheck leaves out the check whether datasets can still read the table.
	NoCheck bool
	// Progress is whether messages tell the client how far the call has come.
	Progress bool
}

// maxBuckets is the maximum number of buckets of a table. Each bucket is a file in every partition.
const maxBuckets = 1 << 16

// WriteFields returns the fields of TableWrite, in the order in which errors list them.
//
// This list is the only description of the fields. Decoding, the text of a command, and the flags
// of penstock stage derive from it. Tests compare the arguments of Python's client.stage and the
// documentation pages with it.
func WriteFields() []Field[TableWrite] {
	mode := About{Name: "mode", Flag: Flag{Shape: "append|replace", Help: "add rows (the default), or replace the days and other partitions that have new rows"}}
	token := About{Name: "token", Flag: Flag{Shape: "TOKEN", Help: "the name of this change, which is then made once, whatever its rows are"}}
	again := About{Name: "again", Flag: Flag{Help: "write the rows although the table has them from an earlier call (default: only with --token)"}}
	rowsID := About{Name: "rows_id"}
	branch := About{Name: "branch", Also: []string{"ref"}, Flag: Flag{Shape: "BRANCH", Help: "the branch to commit to (default main); a new one begins at main"}}
	evolve := About{Name: "evolve", Flag: Flag{Help: "add columns that the table does not have"}}
	key := About{Name: "key", Flag: Flag{Shape: "COLUMNS", Help: "the columns of the key, separated by commas (default: the table's bucketed columns)"}}
	sort := About{Name: "sort", Also: []string{"order_by"}, Flag: Flag{Shape: "COLUMNS", Help: "of a new table: the columns to sort by, separated by commas, as in user_id,\"ts desc\" (default: the key)"}}
	buckets := About{Name: "buckets", Flag: Flag{Shape: "N", Help: "of a new table: the number of buckets of the key's first column"}}
	like := About{Name: "like", Flag: Flag{Shape: "TABLE", Help: "for a new table: copy the bucket count and, where the files have the columns, the partitions of this table"}}
	partition := About{Name: "partition", Also: []string{"partition_by"}, Flag: Flag{Shape: "FIELD", Help: "of a new table: a column, or a transform of one, as in 'day(ts)' or 'truncate[2](region)', to partition by in front of the buckets; may be repeated", Each: true}}
	onlyKeysOf := About{Name: "only_keys_of", Flag: Flag{Shape: "DATASET|TABLE", Help: "drop rows whose key no training row of a dataset or a table has, and rows with a null in the key"}}
	allowDuplicates := About{Name: "allow_duplicates", Flag: Flag{Help: "write rows although others, or rows of the table, have the same key"}}
	allowShrink := About{Name: "allow_shrink", Flag: Flag{Help: "let --mode replace leave less than half as many rows in the partitions that it replaces"}}
	dryRun := About{Name: "dry_run", Flag: Flag{Help: "read and sort the rows, and print what would be written"}}
	noCheck := About{Name: "no_check", Flag: Flag{Help: "do not check the datasets that read the table"}}
	return []Field[TableWrite]{
		text(About{Name: "table", Required: true}, func(w *TableWrite) *string { return &w.Table }),
		word(mode, func(w *TableWrite) *WriteMode { return &w.Mode }, "", WriteAppend, WriteReplace),
		name(token, func(w *TableWrite) *string { return &w.Token }),
		choice(again, func(w *TableWrite) **bool { return &w.Again }),
		name(rowsID, func(w *TableWrite) *string { return &w.RowsID }),
		name(branch, func(w *TableWrite) *string { return &w.Branch }),
		truth(evolve, func(w *TableWrite) *bool { return &w.Evolve }),
		texts(key, func(w *TableWrite) *[]string { return &w.Key }),
		names(sort, func(w *TableWrite) *[]string { return &w.Sort }),
		number(buckets, 1, maxBuckets, func(w *TableWrite) *int { return &w.Buckets }),
		text(like, func(w *TableWrite) *string { return &w.Like }),
		names(partition, func(w *TableWrite) *[]string { return &w.Partition }),
		name(onlyKeysOf, func(w *TableWrite) *string { return &w.OnlyKeysOf }),
		truth(allowDuplicates, func(w *TableWrite) *bool { return &w.AllowDuplicates }),
		truth(allowShrink, func(w *TableWrite) *bool { return &w.AllowShrink }),
		truth(dryRun, func(w *TableWrite) *bool { return &w.DryRun }),
		truth(noCheck, func(w *TableWrite) *bool { return &w.NoCheck }),
		truth(About{Name: "progress"}, func(w *TableWrite) *bool { return &w.Progress }),
	}
}

// MarshalJSON writes the fields that are set.
func (w TableWrite) MarshalJSON() ([]byte, error) {
	o := newObject()
	for _, f := range WriteFields() {
		if f.isSet(&w) {
			o.put(f.Name, f.form(&w))
		}
	}
	return o.bytes(), nil
}

// ChecksReaders reports whether the datasets that read the table are checked after the write.
func (w TableWrite) ChecksReaders() bool { return !w.NoCheck && !w.DryRun }

// Once reports whether nothing is written if the branch has the rows from an earlier call.
func (w TableWrite) Once() bool {
	if w.Again != nil {
		return !*w.Again
	}
	return w.Token == ""
}

// Named returns the same command with the given token, unless the command has a token already. It
// keeps the result of Once.
func (w TableWrite) Named(token string) TableWrite {
	again := !w.Once()
	w.Token, w.Again = cmp.Or(w.Token, token), &again
	return w
}

// Check returns an Invalid error if fields that are valid individually cannot be combined.
func (w TableWrite) Check() error {
	if w.Buckets > 0 && w.Like != "" {
		return fault.InvalidField("like", "gives the number of buckets too: give buckets or like, and not both")
	}
	return nil
}
