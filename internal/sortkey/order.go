package sortkey

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
)

// ColumnOrder is the order of the values of one column.
type ColumnOrder struct {
	Descending bool
	NullsFirst bool
}

// Supported reports whether rows can be sorted by columns of a type: booleans, int32, int64,
// floats, dates, time64, timestamps, decimal128, utf8, binary and fixed_size_binary.
func Supported(dt arrow.DataType) bool {
	switch dt.ID() {
	case arrow.BOOL, arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.DATE32, arrow.TIME64, arrow.TIMESTAMP,
		arrow.DECIMAL128, arrow.STRING, arrow.BINARY, arrow.FIXED_SIZE_BINARY:
		return true
	default:
		return false
	}
}

// KeySpec is an order of rows: first by the first column, then by the next column, and so on. It is
// immutable.
type KeySpec struct {
	columns []specColumn
}

// specColumn is a column of a KeySpec.
type specColumn struct {
	of    arrow.DataType
	order ColumnOrder
}

// NewKeySpec returns a KeySpec, given its columns and the order of each column. It returns Invalid
// if rows cannot be sorted by the type of a column.
func NewKeySpec(columns []arrow.Field, orders []ColumnOrder) (*KeySpec, error) {
	if len(columns) != len(orders) {
		return nil, fault.New(fault.Internal, "%d orders for %d columns", len(orders), len(columns))
	}
	s := &KeySpec{}
	for i, f := range columns {
		if !Supported(f.Type) {
			return nil, fault.New(fault.Invalid, "rows cannot be sorted by column %s of type %s", f.Name, f.Type).
				WithRemedy("sort by columns of type boolean, int, long, float, double, decimal, date, time, timestamp, string, uuid, fixed or binary")
		}
		s.columns = append(s.columns, specColumn{of: f.Type, order: orders[i]})
	}
	return s, nil
}

// RowBytes returns the bytes of memory that RowKeys take for each row.
func (s *KeySpec) RowBytes() int64 {
	bytes := int64(0)
	for _, c := range s.columns {
		switch c.of.ID() {
		case arrow.STRING, arrow.BINARY, arrow.FIXED_SIZE_BINARY: // RowKeys read these values from the column itself
		case arrow.DECIMAL128:
			bytes += int64(arrow.Decimal128SizeBytes)
		default:
			bytes += int64(arrow.Uint64SizeBytes)
		}
	}
	return bytes
}

// Keys returns the keys of the rows of a batch, given the columns of the KeySpec. It returns
// Internal if the columns have other types than those of the KeySpec. The RowKeys must not be used
// after the columns are released.
func (s *KeySpec) Keys(columns []arrow.Array) (*RowKeys, error) {
	if len(columns) != len(s.columns) {
		return nil, fault.New(fault.Internal, "%d columns to sort by, %d expected", len(columns), len(s.columns))
	}
	k := &RowKeys{columns: make([]keyColumn, len(columns))}
	for i, c := range s.columns {
		if !arrow.TypeEqual(c.of, columns[i].DataType()) {
			return nil, fault.New(fault.Internal, "a column of type %s to sort by, %s expected", columns[i].DataType(), c.of)
		}
		k.columns[i] = c.read(columns[i])
	}
	return k, nil
}

// read reads a column of a batch.
func (c specColumn) read(a arrow.Array) keyColumn {
	nulls := nullsOf(a, c.order)
	switch a := a.(type) {
	case *array.String:
		return &byteColumn{nulls: nulls, offsets: a.ValueOffsets(), bytes: variableBytes(a)}
	case *array.Binary:
		return &byteColumn{nulls: nulls, offsets: a.ValueOffsets(), bytes: variableBytes(a)}
	case *array.FixedSizeBinary:
		width := a.DataType().(*arrow.FixedSizeBinaryType).ByteWidth
		return &byteColumn{nulls: nulls, width: width, bytes: fixedBytes(a, width)}
	case *array.Decimal128:
		return &byteColumn{nulls: nulls, width: arrow.Decimal128SizeBytes, bytes: decimalBytes(a.Values())}
	default:
		return &wordColumn{nulls: nulls, narrow: isNarrow(c.of), words: wordsOf(a, c.order.Descending)}
	}
}

// RowKeys has the keys of the rows of one batch. It is safe for concurrent use.
type RowKeys struct {
	columns []keyColumn
}

// keyColumn is a column of RowKeys. All keyColumns of the same column of a KeySpec have the same Go
// type.
type keyColumn interface {
	// chunk returns the chunk of a row's value with the number level. Chunk level+1 of rows is only
	// read if their chunks up to level are equal and more returns true for chunk level.
	chunk(level, row int) uint64
	// more reports whether values with this chunk have another chunk after it.
	more(level int, chunk uint64) bool
	// compare compares a row with a row of another batch, whose column is with.
	compare(row int, with keyColumn, other int) int
	// firstChunks writes chunk 0 of all rows to dst.
	firstChunks(dst []uint64)
}

// FirstChunks writes the first chunk of each row to dst. Rows whose first chunks differ have the
// order of these chunks. For a key without columns it writes zeros.
func (k *RowKeys) FirstChunks(dst []uint64) {
	if len(k.columns) == 0 {
		clear(dst)
		return
	}
	k.columns[0].firstChunks(dst)
}

// Compare compares row i of a with row j of b. The result is negative if row i of a comes first,
// zero if the keys are equal, and otherwise positive.
func Compare(a *RowKeys, i int, b *RowKeys, j int) int {
	for c, column := range a.columns {
		if order := column.compare(i, b.columns[c], j); order != 0 {
			return order
		}
	}
	return 0
}

// Append appends a row's key as bytes, and returns the extended slice. Rows have the same bytes if
// and only if their keys are equal, and bytes.Compare orders the bytes of two rows as Compare
// orders the rows.
func (k *RowKeys) Append(dst []byte, row int) []byte {
	for _, c := range k.columns {
		for level := 0; ; level++ {
			chunk := c.chunk(level, row)
			for shift := 56; shift >= 0; shift -= 8 {
				dst = append(dst, byte(chunk>>shift))
			}
			if !c.more(level, chunk) {
				break
			}
		}
	}
	return dst
}
