package exchange

import (
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// The first and last year of Python's calendar. PyIceberg uses it for bounds of files, and Spark
// for the names of partitions.
//
//nolint:gochecknoglobals // constants
var (
	firstDay = time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)
	lastDay  = time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC)
)

// withinReach returns the rows with all dates and timestamps limited to the calendar's range, even
// inside nested values.
func withinReach(rows arrow.RecordBatch) arrow.RecordBatch {
	columns := make([]arrow.Array, rows.NumCols())
	for i, c := range rows.Columns() {
		moved := reached(c.Data())
		columns[i] = array.MakeFromData(moved)
		moved.Release()
		defer columns[i].Release()
	}
	return array.NewRecordBatch(rows.Schema(), columns, rows.NumRows())
}

func reached(d arrow.ArrayData) arrow.ArrayData {
	buffers := append([]*memory.Buffer(nil), d.Buffers()...)
	if d.Len() == 0 {
		d.Retain()
		return d
	}
	switch t := d.DataType().(type) {
	case *arrow.Date32Type:
		days := append([]arrow.Date32(nil), arrow.Date32Traits.CastFromBytes(buffers[1].Bytes())...)
		for i, v := range days {
			days[i] = min(max(v, arrow.Date32FromTime(firstDay)), arrow.Date32FromTime(lastDay))
		}
		buffers[1] = memory.NewBufferBytes(arrow.Date32Traits.CastToBytes(days))
	case *arrow.TimestampType:
		first, last := edges(t.Unit)
		times := append([]arrow.Timestamp(nil), arrow.TimestampTraits.CastFromBytes(buffers[1].Bytes())...)
		for i, v := range times {
			times[i] = min(max(v, first), last)
		}
		buffers[1] = memory.NewBufferBytes(arrow.TimestampTraits.CastToBytes(times))
	}
	var inside []arrow.ArrayData
	for _, child := range d.Children() {
		moved := reached(child)
		defer moved.Release()
		inside = append(inside, moved)
	}
	return array.NewData(d.DataType(), d.Len(), buffers, inside, d.NullN(), d.Offset())
}

// edges returns the first and the last moment of the calendar, in a unit. For nanoseconds, the
// range is smaller.
func edges(unit arrow.TimeUnit) (first, last arrow.Timestamp) {
	if unit == arrow.Nanosecond {
		return arrow.Timestamp(-1 << 63), arrow.Timestamp(1<<63 - 1)
	}
	return arrow.Timestamp(firstDay.UnixMicro()), arrow.Timestamp(lastDay.UnixMicro())
}
