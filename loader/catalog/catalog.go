// Package catalog is the view of a table format that planning has: tables at pinned
// snapshots, with their columns, partition specs and data files, as plain values.
//
// A Catalog reads metadata alone and never opens a data file. Its results for a pin are
// immutable: later commits do not change them. Whatever this version cannot read
// correctly (formats other than Parquet, encryption) is refused here, at plan time, with
// the table, the file and the reason.
package catalog

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/dataset"
)

// Catalog resolves names to pinned tables and lists their files. It is safe for
// concurrent use. Errors: NotFound for an unknown table or ref (with the nearest name),
// Expired for a snapshot that no longer exists, Invalid for tables that are not served,
// Corrupt for contradictory metadata, Unavailable for storage that does not answer.
type Catalog interface {
	// Table pins the current state of a ref. The zero Ref is main.
	Table(ctx context.Context, name string, ref dataset.Ref) (*Table, error)
	// At opens a state that was pinned before. Its error names what no longer exists.
	At(ctx context.Context, name string, pin dataset.TablePin) (*Table, error)
	// Files lists all data files of a pinned table, ordered by sequence number and
	// File.OrderedAs, with the value ranges of the columns whose field ids are in bounds.
	// Columns are the field ids of the columns to read: a file that is older than a
	// required one of them without an initial default is refused. Both lists may name
	// nested columns. The slice is shared and must not be modified.
	Files(ctx context.Context, t *Table, columns []int, bounds []int) ([]File, error)
	// Appended lists those of Files that append snapshots added after since, which is the
	// pinned snapshot or an ancestor of it. It returns Invalid if since is neither, or if a
	// snapshot after since is not an append and added new rows, or if one removed or rewrote a
	// file that was appended after since. It returns Expired if a snapshot in between no
	// longer exists; since itself need not exist. Files that are not listed are not refused.
	Appended(ctx context.Context, t *Table, since int64, columns []int, bounds []int) ([]File, error)
}

// Table is a table at one snapshot. It is immutable.
type Table struct {
	Name string // in the dataset
	// Location is where the table's files are by default; "": unknown. It is part of no identity.
	Location string
	Pin      dataset.TablePin
	Fields   []Field      // top-level columns, in schema order
	Nested   []Field      // primitive columns inside structs, in schema order
	Specs    map[int]Spec // every partition spec of the table, by id
	// SortOrders are the sort orders that the table declares, by id, without the
	// unsorted one. Files name the order that they were written in, which is not
	// checked.
	SortOrders map[int]SortOrder
	// Defaults are the values of fields in files that lack them, by field id: the
	// initial default of a column, or of a field of a struct at any depth, as one
	// non-null value of its type. A field without an entry is null. Only the file itself
	// shows whether it lacks a field, because a writer that began before the field was
	// added may commit after it.
	Defaults map[int]arrow.Array
	// Mapping is the name mapping of the pin. If it is nil, files without field ids
	// cannot be read.
	Mapping NameMapping
	// Lineage has the columns of row lineage (LineageFields), which are read only if a
	// query names them. It is empty below format version 3.
	Lineage []Field
	// OtherNames are columns as other schemas of the table have them, if their name or id differs. They are those of the
	// table's metadata when the pin was opened, and part of no identity.
	OtherNames []OtherName
	// Origins are the origins of the top-level columns that promotions made, by field id.
	Origins map[int]dataset.ColumnOrigin
	// Partial are the field ids of the promoted columns that some data file of the pin may lack. Only a loader sets it.
	Partial map[int]bool
	// Unnamed are top-level columns that are found by their ids alone: those of promotions, in a table as it was before them.
	Unnamed []Field
}

// OtherName is the name of a top-level column in another schema of a table.
type OtherName struct {
	ID      int // Iceberg field id
	Name    string
	Current bool // in the table's current schema
	// Entry and Table are the staging entry that the column was promoted from and the entry's table; "": no promotion made the column.
	Entry, Table string
}

// Field is a column: a top-level one, or one inside structs. The Name of a nested column
// is its path, with dots, and it is required if all fields on the path are. Type follows
// from the Iceberg type alone, without metadata. It is null if this version does not
// serve the Iceberg type: the column is listed, but Files refuses to read it.
type Field struct {
	ID       int // Iceberg field id
	Name     string
	Type     arrow.DataType
	Required bool
	// Stored is Type with the ids of all nested fields as metadata under FieldIDKey; nil
	// if there are none or if they are unknown.
	Stored arrow.DataType
	// Declared is the field as the schemas of streams have it, which declare UUIDs as the extension type UUIDExtension, by
	// metadata. It is nil if neither the column nor a field inside is a UUID: Type is the same for uuid and fixed[16].
	Declared *arrow.Field
}

// FieldIDKey is the metadata key of a nested field's id, as Parquet readers use it.
const FieldIDKey = "PARQUET:field_id"

// UUIDExtension is the name of Arrow's extension type of UUIDs. Its values are stored as 16 fixed bytes.
const UUIDExtension = "arrow.uuid"

// Arrow returns the field as in a stream of the table alone.
func (f Field) Arrow() arrow.Field {
	return arrow.Field{Name: f.Name, Type: f.Type, Nullable: !f.Required}
}

// FieldIDs returns the ids of columns, ascending.
func FieldIDs(columns []Field) []int {
	ids := make([]int, len(columns))
	for i, f := range columns {
		ids[i] = f.ID
	}
	slices.Sort(ids)
	return ids
}

// HasSnapshot reports whether the table has ever been committed to.
func (t *Table) HasSnapshot() bool { return t.Pin.Snapshot != dataset.NoSnapshot }

// Field returns the column of a name, which may be a path such as user.id. A top-level
// column with a dot in its name takes precedence.
func (t *Table) Field(name string) (Field, bool) {
	return t.find(func(f Field) bool { return f.Name == name })
}

// ByID returns the column of a field id, which may be nested.
func (t *Table) ByID(id int) (Field, bool) {
	is := func(f Field) bool { return f.ID == id }
	if f, ok := t.find(is); ok {
		return f, true
	}
	return first(t.Unnamed, is)
}

// TopLevel returns the top-level columns, those that names do not find last. The caller must not modify them.
func (t *Table) TopLevel() []Field {
	if t.Unnamed == nil {
		return t.Fields
	}
	return slices.Concat(t.Fields, t.Unnamed)
}

func (t *Table) find(is func(Field) bool) (Field, bool) {
	for _, fields := range [][]Field{t.Fields, t.Nested, t.Lineage} {
		if f, ok := first(fields, is); ok {
			return f, true
		}
	}
	return Field{}, false
}

func first(fields []Field, is func(Field) bool) (Field, bool) {
	if i := slices.IndexFunc(fields, is); i >= 0 {
		return fields[i], true
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

// Spec is a partition spec: its fields in order, without void ones.
type Spec []PartitionField

// SameField returns the position of a field with the values of another spec's field, or -1.
func (s Spec) SameField(p PartitionField) int {
	return slices.IndexFunc(s, func(o PartitionField) bool { return o.Source == p.Source && o.Transform == p.Transform })
}

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

// SortField orders rows by a transform of one column.
type SortField struct {
	Source     int // field id of the column
	Transform  Transform
	Descending bool
	NullsFirst bool
}

// The ranks of files whose snapshot is not on the chain.
const (
	// BeforeRanks: the snapshot has expired, or an expired one separates it from the
	// chain. The file is older than all files with a rank. Its order among other such
	// files is unknown.
	BeforeRanks = 0
	// Unranked: the snapshot exists but is not on the complete chain. The order of the
	// file among files of other snapshots is unknown.
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
	Other    TransformKind = "other" // unknown: its values are compared, never interpreted
)

// File is one data file of a snapshot.
type File struct {
	Location string
	// Original is the location of the file that promotions replaced by this one, directly or in
	// several steps, if Location tells it; else "". Arrange sets it. See OrderedAs.
	Original string
	Bytes    int64
	Rows     int64
	Sequence int64 // data sequence number; 0 if it has none, as in format version 1
	// Snapshot is the id of the snapshot that added a file without a sequence number;
	// else 0.
	Snapshot int64
	// Rank orders files without a sequence number; it is 0 for all others. It is the
	// position of Snapshot on the chain of the pinned snapshot and its parents, from 1
	// for the oldest known one, or BeforeRanks or Unranked. It only tells which rows
	// were written first: files and training rows are not ordered by it.
	Rank int
	// FirstRow is the row id of the file's first row, unless the file stores row ids. It
	// is nil for files without row ids, such as those from before format version 3.
	FirstRow *int64
	Spec     int // partition spec id
	// SortOrder is the id of the order of the rows, according to the writer; 0 is
	// unsorted. It need not be in the table's SortOrders.
	SortOrder int
	// Partition has a value for each field of that spec, in order; nil is null. For
	// identity and truncate it is a value of the column: bool, int64 (also days of
	// dates, microseconds of times, and timestamps in the column's unit), float64,
	// string (also the bytes of binary, fixed and uuid) or a decimal as text with all
	// digits of its scale, such as "-12.30". For the other transforms it is an int64:
	// the bucket, or years, months, days or hours since 1970-01-01 00:00.
	Partition []any
	// Ranges are the value ranges of the requested columns, by field id; nil if none
	// were requested. A column without an entry may have any values.
	Ranges map[int]expr.Range
	// Deletes are the delete files of the file. Rows and Ranges do not account for them.
	Deletes Deletes
}
