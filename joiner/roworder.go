package joiner

import (
	"bytes"
	"cmp"
	"math"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
)

// compareFunc compares two values as cmp.Compare does. Neither is null.
type compareFunc func(a arrow.Array, i int, b arrow.Array, j int) int

// compareFuncOf returns how values of a type are ordered.
func compareFuncOf(dt arrow.DataType) (compareFunc, bool) {
	switch dt.(type) {
	case *arrow.Int32Type:
		return compareOrdered[int32, *array.Int32], true
	case *arrow.Int64Type:
		return compareOrdered[int64, *array.Int64], true
	case *arrow.Date32Type:
		return compareOrdered[arrow.Date32, *array.Date32], true
	case *arrow.Time64Type:
		return compareOrdered[arrow.Time64, *array.Time64], true
	case *arrow.TimestampType:
		return compareOrdered[arrow.Timestamp, *array.Timestamp], true
	case *arrow.Float32Type:
		return compareFloats[float32, *array.Float32], true
	case *arrow.Float64Type:
		return compareFloats[float64, *array.Float64], true
	case *arrow.StringType:
		return compareOrdered[string, *array.String], true
	case *arrow.LargeStringType:
		return compareOrdered[string, *array.LargeString], true
	case *arrow.BinaryType:
		return compareBytes[*array.Binary], true
	case *arrow.LargeBinaryType:
		return compareBytes[*array.LargeBinary], true
	case *arrow.FixedSizeBinaryType:
		return compareBytes[*array.FixedSizeBinary], true
	case *arrow.Decimal128Type:
		return func(a arrow.Array, i int, b arrow.Array, j int) int {
			return a.(*array.Decimal128).Value(i).Cmp(b.(*array.Decimal128).Value(j))
		}, true
	case *arrow.BooleanType:
		return func(a arrow.Array, i int, b arrow.Array, j int) int {
			return truth(a.(*array.Boolean).Value(i)) - truth(b.(*array.Boolean).Value(j))
		}, true
	default:
		return nil, false
	}
}

// valued is an array of values of type T.
type valued[T any] interface {
	arrow.Array
	Value(i int) T
}

func compareOrdered[T cmp.Ordered, A valued[T]](a arrow.Array, i int, b arrow.Array, j int) int {
	return cmp.Compare(a.(A).Value(i), b.(A).Value(j))
}

// compareFloats orders NaN above every number.
func compareFloats[T float32 | float64, A valued[T]](a arrow.Array, i int, b arrow.Array, j int) int {
	x, y := a.(A).Value(i), b.(A).Value(j)
	if c := truth(math.IsNaN(float64(x))) - truth(math.IsNaN(float64(y))); c != 0 {
		return c
	}
	return cmp.Compare(x, y)
}

func compareBytes[A valued[[]byte]](a arrow.Array, i int, b arrow.Array, j int) int {
	return bytes.Compare(a.(A).Value(i), b.(A).Value(j))
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// rank orders the staging rows of one key: by time, then by the order columns, then by
// arrival. It reads rows in place, from the stream's batches.
type rank struct {
	times  []int64 // nil if there is none
	by     []orderColumn
	starts []int64 // the first row of each batch
}

// orderColumn is one order column.
type orderColumn struct {
	parts      []arrow.Array
	compares   compareFunc
	descending bool
}

// rankFields returns how the order columns of a schema are compared.
func rankFields(schema *arrow.Schema, by []Order) ([]orderColumn, error) {
	out := make([]orderColumn, len(by))
	for i, o := range by {
		fields, err := fieldsAt(schema, []int{o.Column})
		if err != nil {
			return nil, err
		}
		c, ok := compareFuncOf(fields[0].Type)
		if !ok {
			return nil, fault.New(fault.Invalid, "rows cannot be ordered by column %s of type %s", fields[0].Name, fields[0].Type).
				WithRemedy("order by columns of numbers, dates, times, strings, binary values or booleans")
		}
		out[i] = orderColumn{compares: c, descending: o.Descending}
	}
	return out, nil
}

// compare compares two different rows of one key. It never returns 0.
func (r *rank) compare(a, b int32) int {
	return cmp.Or(r.level(a, b), cmp.Compare(a, b))
}

// level compares two rows of one key only by time and order columns.
func (r *rank) level(a, b int32) int {
	if r.times != nil {
		if c := cmp.Compare(r.times[a], r.times[b]); c != 0 {
			return c
		}
	}
	if len(r.by) > 0 {
		p, i := r.at(a)
		q, j := r.at(b)
		for _, o := range r.by {
			if c := o.compare(o.parts[p], i, o.parts[q], j); c != 0 {
				return c
			}
		}
	}
	return 0
}

// at returns the batch of a row, and the row's position in it.
func (r *rank) at(row int32) (part, i int) {
	part = sort.Search(len(r.starts), func(p int) bool { return r.starts[p] > int64(row) }) - 1
	return part, int(int64(row) - r.starts[part])
}

// compare orders nulls last, also if values descend.
func (o *orderColumn) compare(a arrow.Array, i int, b arrow.Array, j int) int {
	if nulls := truth(a.IsNull(i)) - truth(b.IsNull(j)); nulls != 0 || a.IsNull(i) {
		return nulls
	}
	c := o.compares(a, i, b, j)
	if o.descending {
		return -c
	}
	return c
}

// RowOrder orders rows of a stream by some of its columns. It is safe for concurrent
// use.
type RowOrder struct {
	columns []int
	by      []orderColumn
}

// NewRowOrder finds the columns to order by in a stream's schema. Its errors are those
// of Build.
func NewRowOrder(schema *arrow.Schema, by []Order) (*RowOrder, error) {
	ranked, err := rankFields(schema, by)
	if err != nil {
		return nil, err
	}
	o := &RowOrder{by: ranked}
	for _, c := range by {
		o.columns = append(o.columns, c.Column)
	}
	return o, nil
}

// Compare compares row i of a batch with row j of another, as cmp.Compare does. Rows with
// equal values in all columns are equal.
func (o *RowOrder) Compare(a arrow.RecordBatch, i int, b arrow.RecordBatch, j int) int {
	for k, at := range o.columns {
		if c := o.by[k].compare(a.Column(at), i, b.Column(at), j); c != 0 {
			return c
		}
	}
	return 0
}
