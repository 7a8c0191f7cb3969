// Package catalogtest is the conformance suite of catalog.Catalog: tests of what every
// implementation must do. The tests of each implementation run this suite. The package also has
// Memory, a catalog in memory for tests of packages that read catalogs.
//
// The suite describes changes of a table with its types Commit and File. The Rig of an
// implementation makes these changes. No data file is ever read, so locations name files that do
// not exist.
package catalogtest

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/catalog"
)

// Rig is a catalog without tables, with functions that create and change tables. A function fails
// the test if it cannot do what its comment says.
type Rig struct {
	Catalog catalog.Catalog
	// Create makes an empty table of Fields and Spec.
	Create func(t *testing.T, table string)
	// Unsequenced makes an empty table of Fields and Spec whose files have no sequence numbers, as
	// in format version 1. Sequenced upgrades the table: files that are added from then on have
	// sequence numbers.
	Unsequenced, Sequenced func(t *testing.T, table string)
	// Commit changes a branch and returns the new snapshot's id.
	Commit func(t *testing.T, table string, c Commit) int64
	// SetRef sets a branch or tag to a snapshot.
	SetRef func(t *testing.T, table string, r Ref)
	// Alter makes a schema of these columns the current schema. A field id that the table already
	// has stands for the same column as before.
	Alter func(t *testing.T, table string, fields []catalog.Field)
	// Expire removes a snapshot that no ref is at.
	Expire func(t *testing.T, table string, snapshot int64)
	// Drop removes a table.
	Drop func(t *testing.T, table string)
}

// Ref is a branch or tag of a table.
type Ref struct {
	Name     string
	Tag      bool
	Snapshot int64
}

// Commit is a change of a branch's files.
type Commit struct {
	Branch string // "" is main
	Remove []File
	Add    []File
	// Replace is true if the added files have the rows of the removed files, as in a compaction.
	Replace bool
}

// File is a data file of the suite's table. Partition has the values of the fields of Spec: the
// bucket of id, the day, and the country; nil is null. Lower and Upper have bounds by field id,
// each an int64, a float64 or a string. A column without an entry has no bounds.
type File struct {
	Location  string
	Rows      int64
	Partition [3]any // int64, int64 (days since 1970-01-01), string
	Lower     map[int]any
	Upper     map[int]any
	Nulls     map[int]int64
}

// Bytes is the size of every file of the suite, according to its manifest.
const Bytes = 4096

// The columns of the suite's table, by field id.
const (
	IDColumn      = 1
	DayColumn     = 2
	CountryColumn = 3
	ScoreColumn   = 4
	NoteColumn    = 5
)

// Buckets is the number of buckets of id.
const Buckets = 4

// Fields returns the columns that every table of the suite has at first.
func Fields() []catalog.Field {
	return []catalog.Field{
		{ID: IDColumn, Name: "id", Type: arrow.PrimitiveTypes.Int64, Required: true},
		{ID: DayColumn, Name: "day", Type: arrow.FixedWidthTypes.Date32},
		{ID: CountryColumn, Name: "country", Type: arrow.BinaryTypes.String},
		{ID: ScoreColumn, Name: "score", Type: arrow.PrimitiveTypes.Float64},
		{ID: NoteColumn, Name: "note", Type: arrow.BinaryTypes.String},
	}
}

// Spec returns the partition spec of every table of the suite; its id is 0.
func Spec() catalog.Spec {
	return catalog.Spec{
		{ID: 1000, Source: IDColumn, Name: "id_bucket", Transform: catalog.Transform{Kind: catalog.Bucket, N: Buckets}},
		{ID: 1001, Source: DayColumn, Name: "day", Transform: catalog.Transform{Kind: catalog.Identity}},
		{ID: 1002, Source: CountryColumn, Name: "country", Transform: catalog.Transform{Kind: catalog.Identity}},
	}
}

// Expect returns the file as a catalog should list it: with the given sequence number, and with the
// value ranges of the columns whose field ids are in bounds.
func (f File) Expect(sequence int64, bounds ...int) catalog.File {
	out := catalog.File{
		Location: f.Location, Bytes: Bytes, Rows: f.Rows, Sequence: sequence, Partition: f.Partition[:],
	}
	if len(bounds) > 0 {
		out.Ranges = make(map[int]expr.Range, len(bounds))
	}
	for _, id := range bounds {
		r := expr.Unbounded(f.Rows)
		if n, ok := f.Nulls[id]; ok {
			r.Nulls = n
		}
		r.Lower, r.HasLower = value(f.Lower[id])
		r.Upper, r.HasUpper = value(f.Upper[id])
		out.Ranges[id] = r
	}
	return out
}

func value(v any) (expr.Value, bool) {
	switch v := v.(type) {
	case int64:
		return expr.Int(v), true
	case float64:
		return expr.Float(v), true
	case string:
		return expr.Text(v), true
	default:
		return expr.Value{}, false
	}
}
