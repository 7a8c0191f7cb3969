package foreign

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// int96Columns returns the columns of a file that are stored as INT96, the times of Spark and Impala, by their position.
// Such columns within other columns are left out: they keep the library's type, nanoseconds.
func (o *openFile) int96Columns() (columns []int) {
	root := o.parquet.MetaData().Schema.Root()
	for i := range root.NumFields() {
		if leaf, ok := root.Field(i).(*schema.PrimitiveNode); ok && leaf.PhysicalType() == parquet.Types.Int96 {
			columns = append(columns, i)
		}
	}
	return columns
}

// inMicros returns a schema whose INT96 columns have microseconds, the unit of times in tables, instead of nanoseconds.
func inMicros(s *arrow.Schema, columns []int) *arrow.Schema {
	if len(columns) == 0 {
		return s
	}
	fields := s.Fields()
	for _, i := range columns {
		fields[i].Type = arrow.FixedWidthTypes.Timestamp_us
	}
	meta := s.Metadata()
	return arrow.NewSchema(fields, &meta)
}

// microsOf returns a decoded batch with its INT96 columns in microseconds, rounded down. The caller releases it.
func microsOf(b arrow.RecordBatch, columns []int, mem memory.Allocator) arrow.RecordBatch {
	if len(columns) == 0 {
		b.Retain()
		return b
	}
	all := slices.Clone(b.Columns())
	for _, i := range columns {
		all[i] = microsOfColumn(b.Column(i), mem)
		defer all[i].Release()
	}
	return array.NewRecordBatch(inMicros(b.Schema(), columns), all, b.NumRows())
}

// microsOfColumn returns nanoseconds as microseconds.
func microsOfColumn(column arrow.Array, mem memory.Allocator) arrow.Array {
	const perMicro = 1000
	out := array.NewTimestampBuilder(mem, arrow.FixedWidthTypes.Timestamp_us.(*arrow.TimestampType)) //nolint:forcetypeassert // it is one
	defer out.Release()
	out.Reserve(column.Len())
	times := column.(*array.Timestamp) //nolint:forcetypeassert // the type of INT96
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
