package parquet

import (
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// NoFieldID stands for a column that the file gives no field id.
const NoFieldID = -1

const fieldIDKey = "PARQUET:field_id"

// Field is a top-level column of a file.
type Field struct {
	ID       int // Iceberg field id, or NoFieldID
	Name     string
	Type     arrow.DataType // as the file has it; nested fields carry their ids as metadata
	Nullable bool
	Leaves   []int // positions of its primitive columns among the file's

	arrow arrow.Field
}

// Fields are the file's top-level columns in order. The caller does not change
// the slice.
func (f *Footer) Fields() []Field { return f.fields }

// HasFieldIDs says whether every top-level column has a field id. Where one
// has none, the table needs a name mapping to be read rightly.
func (f *Footer) HasFieldIDs() bool {
	for _, field := range f.fields {
		if field.ID == NoFieldID {
			return false
		}
	}
	return len(f.fields) > 0
}

// Field finds the top-level column with a field id.
func (f *Footer) Field(id int) (Field, bool) {
	if at := f.fieldAt(id); at >= 0 {
		return f.fields[at], true
	}
	return Field{}, false
}

func (f *Footer) fieldAt(id int) int {
	for i, field := range f.fields {
		if field.ID == id && id != NoFieldID {
			return i
		}
	}
	return -1
}

// Stored sums the stored bytes of the named columns in a row group: what Read
// asks storage for, save for small gaps. Ids that the file lacks count nothing.
func (f *Footer) Stored(rowGroup int, ids []int) int64 {
	var sum int64
	for _, id := range ids {
		if at := f.fieldAt(id); at >= 0 {
			for _, leaf := range f.fields[at].Leaves {
				_, length := f.chunkRange(rowGroup, leaf)
				sum += length
			}
		}
	}
	return sum
}

// Decoded estimates the bytes of the named columns of a row group in memory,
// from what its pages hold before compression. Columns of long, often repeated
// strings may come out larger.
func (f *Footer) Decoded(rowGroup int, ids []int) int64 {
	var sum int64
	for _, id := range ids {
		at := f.fieldAt(id)
		if at < 0 {
			continue
		}
		for _, leaf := range f.fields[at].Leaves {
			chunk := f.meta.RowGroups[rowGroup].Columns[leaf].MetaData
			wide := int64(f.meta.Schema.Column(leaf).PhysicalType().ByteSize())
			sum += max(chunk.TotalUncompressedSize, chunk.NumValues*wide)
		}
	}
	return sum
}

func newFields(manifest *pqarrow.SchemaManifest) []Field {
	fields := make([]Field, len(manifest.Fields))
	for i := range manifest.Fields {
		field := *manifest.Fields[i].Field
		fields[i] = Field{
			ID: fieldID(field), Name: field.Name, Type: field.Type, Nullable: field.Nullable,
			Leaves: leaves(&manifest.Fields[i], nil), arrow: field,
		}
	}
	return fields
}

func leaves(field *pqarrow.SchemaField, into []int) []int {
	if field.IsLeaf() {
		return append(into, field.ColIndex)
	}
	for i := range field.Children {
		into = leaves(&field.Children[i], into)
	}
	return into
}

// fieldID returns the id that a field's metadata gives, or NoFieldID.
func fieldID(field arrow.Field) int {
	text, ok := field.Metadata.GetValue(fieldIDKey)
	if !ok {
		return NoFieldID
	}
	id, err := strconv.Atoi(text)
	if err != nil || id < 0 {
		return NoFieldID
	}
	return id
}
