package scan

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/loader/catalog"
)

// constantOf returns a column with one value in every row. value is a partition value of
// catalog.File, and not nil.
func constantOf(c catalog.Field, value any) (parquet.Constant, error) {
	b := array.NewBuilder(batch.Default(), c.Type)
	defer b.Release()
	if !appendValue(b, value) {
		return nil, fault.New(fault.Corrupt, "the manifest has %v, a %T, as the file's value of column %s, whose type is %s", value, value, c.Name, c.Type).
			WithRemedy("the table's metadata and its file do not match: rewrite the file")
	}
	return repeated(b.NewArray()), nil
}

// repeated returns a column that has the single value of an array in every valid row.
func repeated(one arrow.Array) parquet.Constant {
	return func(rows int, valid []byte, offset int, mem memory.Allocator) (arrow.Array, error) {
		if valid == nil {
			return batch.Gather(one.DataType(), []batch.Segment{{Values: one, Indices: make([]int32, rows)}}, mem)
		}
		values, which := []arrow.Array{one, batch.Nulls(one.DataType(), 1, batch.Default())}, make([]int32, rows)
		defer values[1].Release()
		both, err := array.Concatenate(values, batch.Default())
		if err != nil {
			return nil, fault.Op(err, "repeat a default")
		}
		defer both.Release()
		for i := range which {
			if !bitutil.BitIsSet(valid, offset+i) {
				which[i] = 1
			}
		}
		return batch.Gather(one.DataType(), []batch.Segment{{Values: both, Indices: which}}, mem)
	}
}

// appendValue appends a value, and reports whether the column's type can hold it.
func appendValue(b array.Builder, value any) bool {
	switch v := value.(type) {
	case bool:
		return appendAs(b, v)
	case int64:
		return appendNumber(b, v)
	case float64:
		if narrow, ok := b.(*array.Float32Builder); ok {
			narrow.Append(float32(v))
			return float64(float32(v)) == v
		}
		return appendAs(b, v)
	case string:
		return appendText(b, v)
	default:
		return false
	}
}

func appendAs[T any](b array.Builder, v T) bool {
	to, ok := b.(interface{ Append(v T) })
	if ok {
		to.Append(v)
	}
	return ok
}

func appendNumber(b array.Builder, v int64) bool {
	switch b := b.(type) {
	case *array.Int32Builder:
		b.Append(int32(v))
		return int64(int32(v)) == v
	case *array.Date32Builder:
		b.Append(arrow.Date32(v))
		return int64(int32(v)) == v
	case *array.Time64Builder:
		b.Append(arrow.Time64(v))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v))
	default:
		return appendAs(b, v)
	}
	return true
}

func appendText(b array.Builder, v string) bool {
	switch b := b.(type) {
	case *array.BinaryBuilder:
		b.Append([]byte(v))
	case *array.FixedSizeBinaryBuilder:
		if len(v) != b.Type().(*arrow.FixedSizeBinaryType).ByteWidth {
			return false
		}
		b.Append([]byte(v))
	case *array.Decimal128Builder:
		t := b.Type().(*arrow.Decimal128Type)
		n, err := decimal128.FromString(v, t.Precision, t.Scale)
		b.Append(n)
		return err == nil && n.ToString(t.Scale) == v
	default:
		return appendAs(b, v)
	}
	return true
}
