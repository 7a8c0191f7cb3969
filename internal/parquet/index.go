package parquet

import (
	"bytes"
	"cmp"
	"context"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/thrift"
)

// maxColumnIndex is the maximum size of a column index: a larger one is not worth a read.
const maxColumnIndex = 4 << 20

// HasPageStatistics reports whether the pages of a column in a row group have statistics,
// and returns the number of bytes that PageStatistics reads.
func (f *Footer) HasPageStatistics(rowGroup, fieldID int) (int64, bool) {
	c, ok := f.bounder(rowGroup, fieldID, nil)
	if !ok || c.column.SortOrder() == schema.SortUNKNOWN {
		return 0, false
	}
	at, length, ok := f.columnIndex(rowGroup, c.leaf)
	return length, ok && at >= int64(len(magic)) && length > 0 && length <= min(maxColumnIndex, f.size-at) &&
		c.column.ColumnOrder() == parquet.ColumnOrders.TypeDefinedOrder
}

func (f *Footer) columnIndex(rowGroup, leaf int) (at, length int64, ok bool) {
	chunk := f.meta.RowGroups[rowGroup].Columns[leaf]
	if chunk.ColumnIndexOffset == nil || chunk.ColumnIndexLength == nil {
		return 0, 0, false
	}
	return *chunk.ColumnIndexOffset, int64(*chunk.ColumnIndexLength), true
}

// PageStatistics combines the statistics of a column's pages in a row group, in the terms of
// Statistics. Writers omit the statistics of long values from the footer, but store them truncated
// in the page index. Bounds that cannot be used are unknown. PageStatistics reads the index into
// the buffer into, whose size must be the one that HasPageStatistics returned; with nil it
// allocates a buffer on the Go heap.
func (f *File) PageStatistics(ctx context.Context, rowGroup, fieldID int, as arrow.DataType, into *memory.Buffer) (Statistics, error) {
	c, ok := f.bounder(rowGroup, fieldID, as)
	if _, has := f.HasPageStatistics(rowGroup, fieldID); !ok || !has {
		return Statistics{Rows: -1, Nulls: -1, MayHaveNaN: true}, nil
	}
	at, length, _ := f.columnIndex(rowGroup, c.leaf)
	if into == nil {
		into = memory.NewBufferBytes(make([]byte, length))
	}
	if err := f.readAt(ctx, into, at); err != nil {
		return Statistics{}, fault.Op(err, "read the page index of %s", f.Location())
	}
	out := c.unbounded(f.groups[rowGroup].Rows)
	t := thrift.Reader{Rest: into.Bytes()}
	index, err := readColumnIndex(&t)
	if err != nil || len(t.Rest) > 0 || !index.whole() {
		return out, nil //nolint:nilerr // an unusable index means unknown
	}
	if nulls := index.nullCount(); nulls <= out.Rows {
		out.Nulls = nulls
	}
	out.Lower, out.Upper = c.across(index)
	return out, nil
}

// columnIndex has the statistics of the pages of a column chunk.
type columnIndex struct {
	null     []bool // whether all values are null
	min, max [][]byte
	nulls    []int64 // number of nulls; empty: unknown
}

func readColumnIndex(t *thrift.Reader) (out columnIndex, err error) {
	err = t.Fields(func(id int64, kind byte) error {
		if kind != thrift.List || id < 1 || id > 5 {
			return t.Skip(kind, thrift.MaxDepth)
		}
		switch id {
		case 1:
			return t.List(thrift.True, func() error {
				b, err := t.Byte()
				out.null = append(out.null, b == thrift.True)
				return err
			})
		case 2:
			return t.List(thrift.Binary, func() error { return readBinary(t, &out.min) })
		case 3:
			return t.List(thrift.Binary, func() error { return readBinary(t, &out.max) })
		case 5:
			return t.List(thrift.I64, func() error {
				n, err := t.Varint()
				out.nulls = append(out.nulls, n)
				return err
			})
		default:
			return t.Skip(kind, thrift.MaxDepth)
		}
	})
	return out, err
}

// readBinary appends a byte string to into. The string aliases the reader's buffer.
func readBinary(t *thrift.Reader, into *[][]byte) error {
	n, err := t.Uvarint()
	if err != nil || n > uint64(len(t.Rest)) {
		return thrift.Err
	}
	*into = append(*into, t.Rest[:n:n])
	return t.SkipBytes(n)
}

// whole reports whether all lists have an element per page.
func (x *columnIndex) whole() bool {
	return len(x.null) > 0 && len(x.min) == len(x.null) && len(x.max) == len(x.null) && (x.nulls == nil || len(x.nulls) == len(x.null))
}

// nullCount returns the number of nulls, or -1 if it is not known.
func (x *columnIndex) nullCount() int64 {
	if x.nulls == nil {
		return -1
	}
	var sum int64
	for _, n := range x.nulls {
		if n < 0 || sum+n < sum {
			return -1
		}
		sum += n
	}
	return sum
}

// across returns the bounds of all pages together. The lower bound is unknown if a page with values
// has no usable lower bound; likewise the upper bound.
func (c boundsDecoder) across(x columnIndex) (lower, upper any) {
	knowsLower, knowsUpper := true, true
	for i, null := range x.null {
		if null {
			continue
		}
		low, high := c.bounds(x.min[i], x.max[i])
		knowsLower, knowsUpper = knowsLower && low != nil, knowsUpper && high != nil
		if lower == nil || low != nil && compareBounds(low, lower) < 0 {
			lower = low
		}
		if upper == nil || high != nil && compareBounds(high, upper) > 0 {
			upper = high
		}
	}
	if !knowsLower {
		lower = nil
	}
	if !knowsUpper {
		upper = nil
	}
	return lower, upper
}

// compareBounds orders two bounds of a column.
func compareBounds(a, b any) int {
	switch a := a.(type) {
	case bool:
		switch {
		case a == b.(bool):
			return 0
		case a:
			return 1
		}
		return -1
	case int64:
		return cmp.Compare(a, b.(int64))
	case float64:
		return cmp.Compare(a, b.(float64))
	case string:
		return strings.Compare(a, b.(string))
	case []byte:
		return bytes.Compare(a, b.([]byte))
	case *big.Int:
		return a.Cmp(b.(*big.Int))
	default:
		panic("a bound of an unknown kind") //nolint:forbidigo // there are no other kinds
	}
}
