package foreign

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// inMicros returns a schema in which times that the file stores as INT96 (as Spark and Impala do)
// have microseconds, the unit of times in tables, instead of nanoseconds. This applies to fields at
// any depth. If there are no such times, inMicros returns the same schema.
func inMicros(s *arrow.Schema, manifest *pqarrow.SchemaManifest, stored *schema.Schema) *arrow.Schema {
	fields, some := s.Fields(), false
	for i := range fields {
		fields[i].Type = microsType(fields[i].Type, &manifest.Fields[i], stored)
		some = some || fields[i].Type != s.Field(i).Type
	}
	if !some {
		return s
	}
	meta := s.Metadata()
	return arrow.NewSchema(fields, &meta)
}

// microsType returns the type of a field with microseconds for INT96, or the same type if nothing in it is stored as INT96.
func microsType(t arrow.DataType, of *pqarrow.SchemaField, stored *schema.Schema) arrow.DataType {
	if of.IsLeaf() {
		if stored.Column(of.ColIndex).PhysicalType() == parquet.Types.Int96 {
			return arrow.FixedWidthTypes.Timestamp_us
		}
		return t
	}
	inner := func(f arrow.Field, child *pqarrow.SchemaField) (arrow.Field, bool) {
		before := f.Type
		f.Type = microsType(f.Type, child, stored)
		return f, f.Type != before
	}
	switch list := t.(type) {
	case *arrow.ListType:
		if item, changed := inner(list.ElemField(), &of.Children[0]); changed {
			return arrow.ListOfField(item)
		}
	case *arrow.MapType:
		pair := of.Children[0].Children
		key, keyChanged := inner(list.KeyField(), &pair[0])
		item, itemChanged := inner(list.ItemField(), &pair[1])
		if keyChanged || itemChanged {
			out := arrow.MapOfFields(key, item)
			out.KeysSorted = list.KeysSorted
			return out
		}
	case *arrow.StructType:
		fields, some := slices.Clone(list.Fields()), false
		for i := range fields {
			changed := false
			fields[i], changed = inner(fields[i], &of.Children[i])
			some = some || changed
		}
		if some {
			return arrow.StructOf(fields...)
		}
	}
	return t
}

// microsOf converts a decoded batch to a schema that inMicros returned. Times are rounded down. The
// caller releases it.
func microsOf(b arrow.RecordBatch, to *arrow.Schema, mem memory.Allocator) arrow.RecordBatch {
	columns := make([]arrow.Array, b.NumCols())
	for i, c := range b.Columns() {
		columns[i] = microsOfColumn(c, to.Field(i).Type, mem)
		defer columns[i].Release()
	}
	return array.NewRecordBatch(to, columns, b.NumRows())
}

// microsOfColumn converts an array to a type that microsType returned.
func microsOfColumn(column arrow.Array, to arrow.DataType, mem memory.Allocator) arrow.Array {
	if arrow.TypeEqual(column.DataType(), to) {
		column.Retain()
		return column
	}
	if times, ok := column.(*array.Timestamp); ok {
		return microsOfTimes(times, mem)
	}
	var children []arrow.Array
	switch c := column.(type) {
	case *array.Struct:
		whole := c.Data().Children()                        // the children of a sliced struct are not sliced
		for i, f := range to.(*arrow.StructType).Fields() { //nolint:forcetypeassert // inMicros keeps the kind of a type
			child := array.MakeFromData(whole[i])
			children = append(children, microsOfColumn(child, f.Type, mem))
			child.Release()
		}
	case array.ListLike:
		children = []arrow.Array{microsOfColumn(c.ListValues(), to.(arrow.ListLikeType).Elem(), mem)} //nolint:forcetypeassert // inMicros keeps the kind of a type
	}
	data := make([]arrow.ArrayData, len(children))
	for i, child := range children {
		data[i] = child.Data()
		defer child.Release()
	}
	out := array.NewData(to, column.Len(), column.Data().Buffers(), data, column.NullN(), column.Data().Offset())
	defer out.Release()
	return array.MakeFromData(out)
}

// microsOfTimes returns nanoseconds as microseconds.
func microsOfTimes(times *array.Timestamp, mem memory.Allocator) arrow.Array {
	const perMicro = 1000
	out := array.NewTimestampBuilder(mem, arrow.FixedWidthTypes.Timestamp_us.(*arrow.TimestampType)) //nolint:forcetypeassert // it is one
	defer out.Release()
	out.Reserve(times.Len())
	for i := range times.Len() {
		if times.IsNull(i) {
			out.AppendNull()
			continue
		}
		n := int64(times.Value(i))
		micros := n / perMicro
		if n%perMicro < 0 {
			micros--
		}
		out.Append(arrow.Timestamp(micros))
	}
	return out.NewArray()
}
