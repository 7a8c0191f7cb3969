package main

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cespare/xxhash/v2"
)

// digest is a hash of rows in their order, column by column. It does not depend on how rows are
// divided into batches, nor on the memory of nulls. It supports the types of the attack's tables:
// numbers of 4 and 8 bytes, booleans, strings, and lists of these.
type digest struct {
	rows    int64
	columns []*column
}

// column hashes arrays in their order: for each row, whether it is null, its length if the type
// does not define it, and its bytes.
type column struct {
	nulls, lengths, bytes *xxhash.Digest
	child                 *column // of a list
}

func newColumn() *column {
	return &column{nulls: xxhash.New(), lengths: xxhash.New(), bytes: xxhash.New()}
}

// add adds the rows of a batch.
func (d *digest) add(b arrow.RecordBatch) error {
	if d.columns == nil {
		for range b.NumCols() {
			d.columns = append(d.columns, newColumn())
		}
	}
	if len(d.columns) != int(b.NumCols()) {
		return fmt.Errorf("a batch has %d columns, those before had %d", b.NumCols(), len(d.columns))
	}
	d.rows += b.NumRows()
	for i, c := range d.columns {
		if err := c.add(b.Column(i)); err != nil {
			return fmt.Errorf("column %s: %w", b.ColumnName(i), err)
		}
	}
	return nil
}

// String identifies the rows added so far.
func (d *digest) String() string {
	all := xxhash.New()
	for _, c := range d.columns {
		for ; c != nil; c = c.child {
			for _, part := range []*xxhash.Digest{c.nulls, c.lengths, c.bytes} {
				_, _ = all.Write(binary.BigEndian.AppendUint64(nil, part.Sum64()))
			}
		}
	}
	return fmt.Sprintf("%d rows %016x", d.rows, all.Sum64())
}

func (c *column) add(a arrow.Array) error {
	nulls := make([]byte, a.Len())
	if a.NullN() > 0 {
		for i := range nulls {
			if a.IsNull(i) {
				nulls[i] = 1
			}
		}
	}
	_, _ = c.nulls.Write(nulls)
	switch a := a.(type) {
	case *array.Int32:
		fixed(c, a, arrow.Int32Traits.CastToBytes(a.Int32Values()), arrow.Int32SizeBytes)
	case *array.Int64:
		fixed(c, a, arrow.Int64Traits.CastToBytes(a.Int64Values()), arrow.Int64SizeBytes)
	case *array.Float32:
		fixed(c, a, arrow.Float32Traits.CastToBytes(a.Float32Values()), arrow.Float32SizeBytes)
	case *array.Float64:
		fixed(c, a, arrow.Float64Traits.CastToBytes(a.Float64Values()), arrow.Float64SizeBytes)
	case *array.Boolean:
		for i := range a.Len() {
			if a.IsValid(i) && a.Value(i) {
				nulls[i] = 2
			}
		}
		_, _ = c.bytes.Write(nulls)
	case *array.String:
		for i := range a.Len() {
			if a.IsValid(i) {
				c.length(len(a.Value(i)))
				_, _ = c.bytes.WriteString(a.Value(i))
			}
		}
	case *array.List:
		return c.list(a)
	default:
		return fmt.Errorf("a digest of %s is not known", a.DataType())
	}
	return nil
}

func (c *column) length(n int) {
	var b [8]byte
	_, _ = c.lengths.Write(binary.LittleEndian.AppendUint64(b[:0], uint64(n)))
}

// list hashes the elements of lists. Elements of consecutive lists are hashed together if none is
// null.
func (c *column) list(a *array.List) error {
	if c.child == nil {
		c.child = newColumn()
	}
	from, to := int64(0), int64(0)
	flush := func() error {
		if from == to {
			return nil
		}
		values := array.NewSlice(a.ListValues(), from, to)
		defer values.Release()
		return c.child.add(values)
	}
	for i := range a.Len() {
		if a.IsNull(i) {
			continue
		}
		begin, end := a.ValueOffsets(i)
		c.length(int(end - begin))
		if begin != to {
			if err := flush(); err != nil {
				return err
			}
			from = begin
		}
		to = end
	}
	return flush()
}

// fixed hashes the values that are not null, each of width bytes.
func fixed(c *column, a arrow.Array, values []byte, width int) {
	if a.NullN() == 0 {
		_, _ = c.bytes.Write(values)
		return
	}
	for i := range a.Len() {
		if a.IsValid(i) {
			_, _ = c.bytes.Write(values[i*width : (i+1)*width])
		}
	}
}

// same returns an error that names the difference, if two digests are of different rows.
func same(got, want *digest) error {
	if got.String() != want.String() {
		return fmt.Errorf("other rows than the reference: %s instead of %s", strings.TrimSpace(got.String()), want)
	}
	return nil
}
