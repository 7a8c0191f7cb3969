package catalog

import (
	"fmt"
	"sort"
)

// DeleteKind is how a delete file identifies deleted rows.
type DeleteKind int

// The kinds of the Iceberg specification ("Delete Formats").
const (
	// PositionDeletes lists rows by the locations of data files and positions in them.
	PositionDeletes DeleteKind = iota
	// DeletionVector is a blob in a Puffin file: a bitmap of positions in one data file.
	DeletionVector
	// EqualityDeletes lists values of some columns: rows with these values are deleted.
	EqualityDeletes
)

// String returns the kind, for errors.
func (k DeleteKind) String() string {
	switch k {
	case PositionDeletes:
		return "position deletes"
	case DeletionVector:
		return "a deletion vector"
	case EqualityDeletes:
		return "equality deletes"
	}
	return fmt.Sprintf("DeleteKind(%d)", int(k))
}

// The field ids of the columns file_path and pos of position deletes: the
// specification's "Reserved Field IDs".
const (
	PathField     = 2147483546
	PositionField = 2147483545
)

// DeleteFile is one delete file of a snapshot, or one deletion vector in a file.
type DeleteFile struct {
	Kind     DeleteKind
	Location string
	Bytes    int64 // size of the whole file
	Rows     int64 // number of positions or of deleted values in the file; each position in a vector counts once
	Sequence int64 // data sequence number
	Spec     int   // partition spec id
	// Partition is as in File.
	Partition []any
	// Data is the location of the one data file that the positions apply to; "" if they
	// may apply to any file of the partition.
	Data string
	// Offset and Length locate a vector in the file, in bytes.
	Offset, Length int64
	// Columns are the columns that equality deletes compare, by ascending field id. Their types are
	// taken from the pinned schema or, if a column was dropped, from the last schema that had it.
	Columns []Field
}

// Size returns how many bytes of the file must be read.
func (d *DeleteFile) Size() int64 {
	if d.Kind == DeletionVector {
		return d.Length
	}
	return d.Bytes
}

// Deletes are the deletes that apply to one data file. The slices are shared between
// files and must not be modified.
type Deletes struct {
	// Vector has all deleted positions of the file; nil if it has no vector.
	Vector *DeleteFile
	// Positions are the position deletes that may apply, ordered by sequence number and
	// location.
	Positions []*DeleteFile
	// Equality has each group of equality deletes that contains at least one file newer than the
	// data file.
	Equality []*EqualityGroup
}

// EqualityGroup has the equality deletes of one scope (a partition, or the table) on the same
// columns. Each file of the group applies only to data files with a smaller sequence number.
type EqualityGroup struct {
	Columns []Field
	Files   []*DeleteFile // ordered by sequence number and location
}

// DeleteList identifies a list of delete files by its address in memory. Data files share the same
// immutable lists, so a caller can process each list once.
type DeleteList struct {
	first **DeleteFile
	files int
}

// ListOf returns the identity of a list. All empty lists are equal.
func ListOf(files []*DeleteFile) DeleteList {
	if len(files) == 0 {
		return DeleteList{}
	}
	return DeleteList{first: &files[0], files: len(files)}
}

// None reports whether no deletes apply to the file.
func (d Deletes) None() bool {
	return d.Vector == nil && len(d.Positions) == 0 && len(d.Equality) == 0
}

// All returns all delete files that apply to the file, which together identify its
// remaining rows.
func (d Deletes) All(sequence int64) []*DeleteFile {
	var out []*DeleteFile
	if d.Vector != nil {
		out = append(out, d.Vector)
	}
	out = append(out, d.Positions...)
	for _, g := range d.Equality {
		out = append(out, g.After(sequence)...)
	}
	return out
}

// After returns the files of the group that delete rows of a data file with the given sequence
// number: the files with a larger sequence number.
func (g *EqualityGroup) After(sequence int64) []*DeleteFile {
	return g.Files[sort.Search(len(g.Files), func(i int) bool { return g.Files[i].Sequence > sequence }):]
}
