// Package catalog is what planning sees of a table format: tables at pinned
// snapshots, their columns, partition specs and data files, as plain values.
//
// A Catalog answers from metadata alone and never opens a data file. What it
// returns for a pin is immutable: a commit made later changes nothing in it.
// What this version cannot read rightly (formats other than Parquet, encryption) is
// refused here, at plan time, with table, file and reason.
package catalog

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/dataset"
)

// Catalog resolves names to pinned tables and lists their files. It is safe
// for concurrent use. Errors: NotFound for an unknown table or ref (nearest
// name proposed), Expired for a snapshot that is gone, Invalid for what is
// not served, Corrupt for metadata that contradicts itself, Unavailable for
// storage that does not answer.
type Catalog interface {
	// Table pins the state that a ref names now. The zero Ref is main.
	Table(ctx context.Context, name string, ref dataset.Ref) (*Table, error)
	// At opens a state that was pinned before, or says what no longer exists.
	At(ctx context.Context, name string, pin dataset.TablePin) (*Table, error)
	// Files lists all data files of a pinned table by (sequence number,
	// location), with the value ranges of the columns whose field ids are in
	// bounds. Both lists may name nested columns. Columns are those that will be
	// read: a file that is older than one that the table requires, and that has no
	// initial default, is refused. The slice is shared and must not be changed.
	Files(ctx context.Context, t *Table, columns []int, bounds []int) ([]File, error)
	// Appended lists those of Files that append snapshots added after since, an
	// ancestor of the pinned snapshot or that itself. It is Invalid if since is no
	// ancestor, and if a snapshot after it gave or took rows otherwise: if one that
	// is no append added rows that were not there before, or removed or rewrote a
	// file that was appended after since. It is Expired if a snapshot in between is
	// gone. Since may be gone itself. Files that are not listed are not refused.
	Appended(ctx context.Context, t *Table, since int64, columns []int, bounds []int) ([]File, error)
}

// Table is a table at one snapshot. It is immutable.
type Table struct {
	Name   string // as the dataset names it
	Pin    dataset.TablePin
	Fields []Field      // top-level columns, in schema order
	Nested []Field      // primitive columns inside structs, in schema order
	Specs  map[int]Spec // every partition spec of the table, by id
	// SortOrders are the orders that the table declares, by id, without that
	// of no order. Files say which one they were written in; nobody checks.
	SortOrders map[int]SortOrder
	// Defaults are what files that lack a field mean by that, by field id: the
	// initial default of a column, or of a field of a struct that is nested anywhere,
	// as one value of its type, which is not null. A field without an entry is null.
	// Only the file itself can tell whether it lacks a field, as a writer that began
	// before the field was added may commit after it.
	Defaults map[int]arrow.Array
	// Mapping is that of the pin; nil if it has none: then files without field ids
	// cannot be read.
	Mapping NameMapping
	// Lineage are the columns of row lineage (LineageFields), which are read if they are
	// asked for by name; none below format version 3.
	Lineage []Field
}

// Field is a top-level column, or one inside structs: then Name is the path to
// it, with dots, and it is required if all on the path are. Type follows the Iceberg type alone, whatever
// the writer stored, without metadata. It is null where this version does not
// serve the Iceberg type: the column can be listed, and Files refuses to read
// it.
type Field struct {
	ID       int // Iceberg field id
	Name     string
	Type     arrow.DataType
	Required bool
	// Stored is Type with the field ids of all that is nested in it, as
	// metadata under FieldIDKey; nil if nothing is, or if they are not known.
	Stored arrow.DataType
}

// FieldIDKey is the metadata key of a nested field's id, as Parquet readers have it.
const FieldIDKey = "PARQUET:field_id"

// Arrow returns the field as a stream of the table alone shows it.
func (f Field) Arrow() arrow.Field {
	return arrow.Field{Name: f.Name, Type: f.Type, Nullable: !f.Required}
}

// Field returns the column of a name, which may be a path such as user.id. A
// top-level column of that very name comes first.
func (t *Table) Field(name string) (Field, bool) {
	return t.find(func(f Field) bool { return f.Name == name })
}

// ByID returns the column of a field id, nested ones too.
func (t *Table) ByID(id int) (Field, bool) {
	return t.find(func(f Field) bool { return f.ID == id })
}

func (t *Table) find(is func(Field) bool) (Field, bool) {
	for _, fields := range [][]Field{t.Fields, t.Nested, t.Lineage} {
		if i := slices.IndexFunc(fields, is); i >= 0 {
			return fields[i], true
		}
	}
	return Field{}, false
}

// Names returns the top-level columns' names in schema order.
func (t *Table) Names() []string {
	names := make([]string, len(t.Fields))
	for i, f := range t.Fields {
		names[i] = f.Name
	}
	return names
}

// Schema returns the table's top-level columns as an Arrow schema.
func (t *Table) Schema() *arrow.Schema {
	fields := make([]arrow.Field, len(t.Fields))
	for i, f := range t.Fields {
		fields[i] = f.Arrow()
	}
	return arrow.NewSchema(fields, nil)
}

// Spec is a partition spec: its fields in order, void ones left out.
type Spec []PartitionField

// PartitionField derives one partition value from one column.
type PartitionField struct {
	ID        int // partition field id
	Source    int // field id of the column
	Name      string
	Transform Transform
}

// Transform is an Iceberg partition transform.
type Transform struct {
	Kind TransformKind
	N    int // number of buckets, or width of truncate; else 0
}

// SortOrder is an order of rows: by the first of its fields, then the next.
type SortOrder []SortField

// SortField orders rows by what a transform makes of one column.
type SortField struct {
	Source     int // field id of the column
	Transform  Transform
	Descending bool
	NullsFirst bool
}

// The ranks of files whose snapshot is not on the chain.
const (
	// BeforeRanks: it has expired, or lies beyond the chain's first break, where a
	// parent has. The file is older than all that have a place. Nobody knows its
	// order among files that other such snapshots added.
	BeforeRanks = 0
	// Unranked: the chain is whole and does not have it, though it is there. Nobody
	// knows its order among files that other snapshots added.
	Unranked = -1
)

// TransformKind names a partition transform.
type TransformKind string

// The transforms of the Iceberg specification; void never appears in a Spec.
const (
	Identity TransformKind = "identity"
	Bucket   TransformKind = "bucket"
	Truncate TransformKind = "truncate"
	Year     TransformKind = "year"
	Month    TransformKind = "month"
	Day      TransformKind = "day"
	Hour     TransformKind = "hour"
	Other    TransformKind = "other" // unknown to us: its values are compared, never interpreted
)

// File is one data file of a snapshot.
type File struct {
	Location string
	Bytes    int64
	Rows     int64
	Sequence int64 // data sequence number; 0 if it has none, as in format version 1
	// Snapshot added the file, if that has no sequence number; else 0.
	Snapshot int64
	// Rank orders files without a sequence number among each other, and is 0 for
	// all others: the place of Snapshot on the pinned snapshot's chain of
	// parents, 1 being the oldest that is known, or BeforeRanks or Unranked. It
	// says which rows were written first, and nothing else: files are listed,
	// and training rows ordered, without it.
	Rank int
	// FirstRow is the row id of the file's first row, unless it stores another one; nil
	// if it has none, as files of before format version 3.
	FirstRow *int64
	Spec     int // partition spec id
	// SortOrder is the id of the order that the writer says the rows stand in;
	// 0 is none. It need not be in the table's SortOrders.
	SortOrder int
	// Partition has a value per field of that spec, in its order, or nil for
	// null. Of identity and truncate it is a value of the column: bool, int64
	// (also days of dates, microseconds of times, and timestamps in the
	// column's unit), float64, string (also binary, fixed and uuid, as their
	// bytes) or a decimal as text with all digits of its scale, such as
	// "-12.30". Of the others it is an int64: bucket; and year, month, day and
	// hour, counted from 1970-01-01 00:00 and negative before.
	Partition []any
	// Ranges are those of the columns that were asked for, by field id, and
	// nil if none were. A column without an entry may hold anything.
	Ranges map[int]expr.Range
	// Deletes are what deletes rows of the file; Rows and Ranges know nothing of them.
	Deletes Deletes
}
