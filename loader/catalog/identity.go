package catalog

import (
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// noUUID is the uuid of a table whose metadata has none, which format version 1 allows.
const noUUID = "00000000-0000-0000-0000-000000000000"

// Identified reports whether the table has a uuid. Nothing identifies the files of a table without one.
func (t *Table) Identified() bool { return t.Pin.UUID != noUUID }

// RelativePath returns the path of a file within the table's location, without a leading slash. For a
// file outside the table's location, it returns the file's location.
func (t *Table) RelativePath(location string) string {
	path, ok := strings.CutPrefix(location, strings.TrimSuffix(t.Location, "/")+"/")
	if t.Location == "" || !ok {
		return location
	}
	return path
}

// TypeText returns the type of the column as a text that identifies it: with the ids and names of nested fields, and whether
// values are required.
func (f Field) TypeText() string {
	var b strings.Builder
	if f.Required {
		b.WriteString("required ")
	}
	of := f.Type
	if f.Stored != nil {
		of = f.Stored
	}
	writeType(&b, of)
	return b.String()
}

func writeType(b *strings.Builder, t arrow.DataType) {
	nested, ok := t.(arrow.NestedType)
	if !ok {
		b.WriteString(t.String())
		return
	}
	b.WriteString(t.Name())
	if fixed, ok := t.(*arrow.FixedSizeListType); ok {
		b.WriteString(strconv.Itoa(int(fixed.Len())))
	}
	b.WriteByte('<')
	for _, f := range nested.Fields() {
		b.WriteString(strconv.Quote(f.Name))
		b.WriteByte(' ')
		id, _ := f.Metadata.GetValue(FieldIDKey)
		b.WriteString(id)
		if !f.Nullable {
			b.WriteString(" required")
		}
		b.WriteByte(' ')
		writeType(b, f.Type)
		b.WriteByte(',')
	}
	b.WriteByte('>')
}
