// Package catalog describes tables to the planner, independently of the table format: as plain
// values that describe tables at pinned snapshots, with their columns, partition specs and data
// files.
//
// A Catalog reads only metadata and never opens a data file. Its results for a pin are immutable:
// later commits do not change them. If a table has something that this version cannot read
// correctly (a format other than Parquet, or encryption), the catalog refuses it at plan time, with
// an error that names the table, the file and the reason.
package catalog

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/dataset"
)

// Catalog resolves names to pinned tables and lists their files. It is safe for concurrent use.
// Errors: NotFound for an unknown table or ref (with the most similar name), Expired for a snapshot
// that no longer exists, Invalid for tables that are not supported, Corrupt for contradictory
// metadata, Unavailable for storage that does not answer.
type Catalog interface {
	// Table pins the current state of a ref. The zero Ref is main.
	Table(ctx context.Context, name string, ref dataset.Ref) (*Table, error)
	// At opens a state that was pinned before. If a part of this state no longer exists, such as
	// the snapshot or the schema, the error names the part.
	At(ctx context.Context, name string, pin dataset.TablePin) (*Table, error)
	// Files lists all data files of a pinned table, ordered by sequence number and then by
	// File.OrderedAs. Each file has the value ranges of the columns whose field ids are in bounds.
	// The parameter columns has the field ids of the columns to read. If one of these is required
	// and has no initial default, Files returns an error for a file that is older than the column.
	// Both lists of ids may have nested columns. The returned slice is shared and must not be
	// modified.
	Files(ctx context.Context, t *Table, columns []int, bounds []int) ([]File, error)
	// Appended lists the files that were appended after snapshot since: of the result of Files,
	// only the files that snapshots with the operation append added after since. Since is the
	// pinned snapshot or an ancestor of it; otherwise Appended returns Invalid. It also returns
	// Invalid if a later snapshot with another operation added new rows, or if a later snapshot
	// removed or rewrote a file that was appended after since. It returns Expired if a snapshot
	// after since no longer exists; since itself need not exist. Appended never returns an error
	// for a file that it does not list.
	Appended(ctx context.Context, t *Table, since int64, columns []int, bounds []int) ([]File, error)
}

// Table is a table at one snapshot. It is immutable.
type Table struct {
	Name string // in the dataset
	// Location is the folder where the table's files are by default; "" if it is unknown. It does
	// not identify the table, and is in no digest.
	Location string
	Pin      dataset.TablePin
	Fields   []Field      // top-level columns, in schema order
	Nested   []Field      // primitive columns inside structs, in schema order
	Specs    map[int]Spec // every partition spec of the table, by id
	// SortOrders are the sort orders that the table declares, by id, without the unsorted one. Each
	// file names the order in which its writer says that it wrote the rows; nothing checks this.
	SortOrders map[int]SortOrder
	// Defaults has the value of each field that has an initial default, by field id, for files that
	// lack the field: of a column, or of a field inside a struct at any depth, as an array of one
	// non-null value of the field's type. In files that lack a field without an entry here, the
	// field is null. Only the file itself shows whether it lacks a field: a writer that began
	// before the field was added may commit after that.
	Defaults map[int]arrow.Array
	// Mapping is the name mapping of the pin. If it is nil, files without field ids
	// cannot be read.
	Mapping NameMapping
	// Lineage has the columns of row lineage (LineageFields), which are read only if a
	// query names them. It is empty below format version 3.
	Lineage []Field
	// OtherNames has the columns of the table's other schemas, if their names or ids differ from
	// those of the pinned schema. They are taken from the table's metadata at the time when the pin
	// was opened. They do not identify the table, and are in no digest.
	OtherNames []OtherName
	// Statistics are the statistics that Penstock kept last with the table, of any of its snapshots, at the time when the pin was
	// opened; nil if there are none. They do not identify the table, and are in no digest.
	Statistics *KeptStatistics
	// Origins are the origins of the top-level columns that promotions made, by field id.
	Origins map[int]dataset.ColumnOrigin
	// Partial are the field ids of the promoted columns that some data file of the pin may lack. Only a loader sets it.
	Partial map[int]bool
	// FixedSchema is true if the table was opened at a tag or a snapshot by Catalog.Table: later
	// changes of the table's schema do not change the schema of this ref.
	FixedSchema bool
	// Unnamed has top-level columns that are found by id but not by name: the columns of
	// promotions, if the table is read as it was before these promotions.
	Unnamed []Field
}

// OtherName is the name of a top-level column in another schema of a table.
type OtherName struct {
	ID      int // Iceberg field id
	Name    string
	Current bool // in the table's current schema
	// Entry is the staging entry that the column was promoted from, and Table is the table of this
	// entry. Both are "" if no promotion made the column.
	Entry, Table string
}

// Field is a column: a top-level column, or a column inside structs. The Name of a nested column is
// its path, with dots, and the column is required if all fields on this path are required. Type
// depends on the Iceberg type only, and has no metadata. Type is Arrow's null type if this version
// does not support the Iceberg type: the column is then listed, but Files returns an error if it is
// to be read.
type Field struct {
	ID       int // Iceberg field id
	Name     string
	Type     arrow.DataType
	Required bool
	// Stored is Type with the ids of all nested fields as metadata under FieldIDKey. It is nil if
	// the type has no nested fields or if their ids are unknown.
	Stored arrow.DataType
	// Declared is the field for the schemas of streams, in which metadata declares that UUIDs have
	// the extension type UUIDExtension. It is nil if neither the column nor a field inside it is a
	// UUID. Type alone does not tell: it is the same for uuid and fixed[16].
	Declared *arrow.Field
}

// FieldIDKey is the metadata key of a nested field's id, as Parquet readers use it.
const FieldIDKey = "PARQUET:field_id"

// UUIDExtension is the name of Arrow's extension type of UUIDs. Its values are stored as 16 fixed bytes.
const UUIDExtension = "arrow.uuid"

// Arrow returns the field as it is in a stream that reads only this table.
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

// HasSnapshot reports whether the table is pinned at a snapshot. A table without commits has
// none.
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

// TopLevel returns the top-level columns: first Fields, then Unnamed. The caller must not modify
// the slice.
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

// Spec is a partition spec: its fields in order, without void fields.
type Spec []PartitionField

// SameField returns the position of the field that has the same values as p, which is a field of
// another spec, or -1 if there is none.
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

// SortOrder is an order of rows: they are ordered by the first field, rows that are equal in it by
// the second field, and so on.
type SortOrder []SortField

// SortField orders rows by a transform of one column.
type SortField struct {
	Source     int // field id of the column
	Transform  Transform
	Descending bool
	NullsFirst bool
}

// The ranks of files that were added by a snapshot that is not on the chain (see Chain).
const (
	// BeforeRanks: the snapshot has expired, or an expired snapshot lies between it and the chain.
	// The file is older than all files with a positive rank. Its order among other files with
	// BeforeRanks is unknown.
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

// IsTime reports whether the values of the transform are spans of time: years, months, days or hours.
func (k TransformKind) IsTime() bool {
	switch k {
	case Year, Month, Day, Hour:
		return true
	case Identity, Bucket, Truncate, Other:
		return false
	}
	return false
}

// File is one data file of a snapshot.
type File struct {
	Location string
	// Original is the location of the file that promotions replaced by this file, directly or in
	// several steps. It is derived from the name in Location; "" if the name does not contain it.
	// Arrange sets it. See OrderedAs.
	Original string
	Bytes    int64
	Rows     int64
	Sequence int64 // data sequence number; 0 if it has none, as in format version 1
	// Snapshot is the id of the snapshot that added a file without a sequence number;
	// else 0.
	Snapshot int64
	// Rank is the age of a file without a sequence number, relative to the other such files; it is
	// 0 for files with a sequence number. It is the position of Snapshot on the chain of the pinned
	// snapshot and its ancestors, where the oldest known snapshot has position 1, or BeforeRanks or
	// Unranked. It only determines which rows were written first; neither files nor training rows are
	// sorted by it.
	Rank int
	// FirstRow is the row id of the file's first row, unless the file stores row ids. It
	// is nil for files without row ids, such as those from before format version 3.
	FirstRow *int64
	Spec     int // partition spec id
	// SortOrder is the id of the order of the rows, according to the writer; 0 is
	// unsorted. It need not be in the table's SortOrders.
	SortOrder int
	// Partition has a value for each field of the partition spec, in order; nil is null. For
	// identity and truncate, it is a value of the column: a bool, an int64 (for dates the number of
	// days, for times the number of microseconds, for timestamps a number in the column's unit), a
	// float64, a string (for binary, fixed and uuid their bytes), or a decimal as text with all
	// digits of its scale, such as "-12.30". For the other transforms, it is an int64: the bucket,
	// or the number of years, months, days or hours since 1970-01-01 00:00.
	Partition []any
	// Ranges are the value ranges of the requested columns, by field id; nil if none
	// were requested. A column without an entry may have any values.
	Ranges map[int]expr.Range
	// Deletes are the delete files that apply to this file. Rows and Ranges still include the
	// deleted rows.
	Deletes Deletes
}
