package catalog

import (
	"fmt"
	"sort"
)

// DeleteKind is how a delete file says which rows are deleted.
type DeleteKind int

// The kinds of the Iceberg specification ("Delete Formats").
const (
	// PositionDeletes lists rows by the locations of data files and positions in them.
	PositionDeletes DeleteKind = iota
	// DeletionVector is a blob of a Puffin file: a bitmap of the positions of one data file.
	DeletionVector
	// EqualityDeletes lists the values of some columns: rows that have them are deleted.
	EqualityDeletes
)

// String is the kind in errors.
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
	Bytes    int64 // of the file
	Rows     int64 // that it holds: positions, or values; each position of a vector once
	Sequence int64 // data sequence number
	Spec     int   // partition spec id
	// Partition is as a data file has it.
	Partition []any
	// Data is the location of the one data file that the positions are of; "" if
	// they may be of any in the partition.
	Data string
	// Offset and Length say where in the file a vector lies, in bytes.
	Offset, Length int64
	// Columns are those whose values equality deletes hold, by ascending field id,
	// with their types in the pinned schema or, if they were dropped, in the last one
	// that had them.
	Columns []Field
}

// Size is how many bytes are read of it.
func (d *DeleteFile) Size() int64 {
	if d.Kind == DeletionVector {
		return d.Length
	}
	return d.Bytes
}

// Deletes are what deletes rows of one data file. The slices are shared between
// files and must not be changed.
type Deletes struct {
	// Vector holds all deleted positions of the file; nil if it has no vector.
	Vector *DeleteFile
	// Positions are the files of position deletes that may hold some, by (sequence
	// number, location).
	Positions []*DeleteFile
	// Equality are the equality deletes of which some are younger than the file.
	Equality []*EqualityGroup
}

// EqualityGroup is the equality deletes of one scope (a partition, or the table) that
// name the same columns. One of them deletes rows of those data files alone that have
// a smaller sequence number.
type EqualityGroup struct {
	Columns []Field
	Files   []*DeleteFile // by (sequence number, location)
}

// DeleteList is a list of delete files by where it lies: data files share lists, which
// do not change, so that each need be gone through once.
type DeleteList struct {
	first **DeleteFile
	files int
}

// ListOf returns where a list lies; all empty ones are the same.
func ListOf(files []*DeleteFile) DeleteList {
	if len(files) == 0 {
		return DeleteList{}
	}
	return DeleteList{first: &files[0], files: len(files)}
}

// None says that nothing deletes rows of the file.
func (d Deletes) None() bool {
	return d.Vector == nil && len(d.Positions) == 0 && len(d.Equality) == 0
}

// All returns every delete file that the file's rows depend on: the identity of what
// is left of it.
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

// After returns the files of the group that delete rows of a data file with a sequence
// number: those with a larger one.
func (g *EqualityGroup) After(sequence int64) []*DeleteFile {
	return g.Files[sort.Search(len(g.Files), func(i int) bool { return g.Files[i].Sequence > sequence }):]
}
