package joined

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// distinctRows opens training rows, and drops repeated rows.
type distinctRows struct {
	*resolve.Distinct
	options Options
}

// scan opens the rows of a whole split without repeated rows. It reads the split twice: first the
// columns that identify and order rows, then the columns that the stream requested.
func (d distinctRows) scan(ctx context.Context, source plan.Source, wanted columns) (SourceRows, error) {
	var read columns
	all := source
	source.Ordinals = false
	in := joiner.Input{Open: func(ctx context.Context) (array.RecordReader, error) { return d.options.scan(ctx, source, read) }}
	for _, f := range d.By {
		in.Key = append(in.Key, read.add(column{field: f}))
	}
	order := make([]joiner.Order, len(d.Order))
	for i, o := range d.Order {
		order[i] = joiner.Order{Column: read.add(column{field: o.Field}), Descending: o.Descending}
	}
	if places := source.Places(); places != nil {
		order = append(order, joiner.Order{Column: len(read)})
		in.Open = func(ctx context.Context) (array.RecordReader, error) { return d.withPlaces(ctx, source, read, places) }
	}
	u := &distinctReader{memory: d.options.Memory, find: func() (*joiner.Kept, error) {
		return joiner.Distinct(ctx, in, order, d.Keep.KeepsLast(), d.options.joining())
	}}
	var err error
	if u.rows, err = d.options.scan(ctx, all, wanted); err != nil {
		return nil, err
	}
	u.RecordReader = batch.FromFunc(u.rows.Schema(), u.next, u.release)
	return u, nil
}

// withPlaces opens the columns of a source and appends one: the index of each row's file in
// the order in which the files were written.
func (d distinctRows) withPlaces(ctx context.Context, source plan.Source, read columns, places map[string]int64) (SourceRows, error) {
	rows, err := d.options.scan(ctx, source, read)
	if err != nil {
		return nil, err
	}
	schema := arrow.NewSchema(append(slices.Clone(rows.Schema().Fields()), arrow.Field{Name: "place", Type: arrow.PrimitiveTypes.Int64}), nil)
	given, files := int64(0), rows.Files()
	next := func() (arrow.RecordBatch, error) {
		if !rows.Next() {
			return nil, rows.Err()
		}
		b := rows.RecordBatch()
		place := array.NewInt64Builder(d.options.Memory)
		defer place.Release()
		for range b.NumRows() {
			place.Append(places[files(given)])
			given++
		}
		column := place.NewArray()
		defer column.Release()
		return array.NewRecordBatch(schema, append(slices.Clone(b.Columns()), column), b.NumRows()), nil
	}
	return derivedRows{RecordReader: batch.FromFunc(schema, next, rows.Release), of: rows}, nil
}

// distinctReader returns the rows of a scan that are not dropped as repeated.
type distinctReader struct {
	array.RecordReader
	rows   SourceRows
	memory memory.Allocator
	find   func() (*joiner.Kept, error)
	kept   *joiner.Kept // nil before the first batch
	read   int64        // rows read from the scan so far
}

func (u *distinctReader) next() (arrow.RecordBatch, error) {
	if u.kept == nil {
		var err error
		if u.kept, err = u.find(); err != nil {
			return nil, err
		}
	}
	for u.rows.Next() {
		b := u.rows.RecordBatch()
		var keep []int32
		for i := range b.NumRows() {
			if u.kept.Has(u.read + i) {
				keep = append(keep, int32(i))
			}
		}
		u.read += b.NumRows()
		if len(keep) > 0 {
			return batch.Filter(b, keep, u.memory)
		}
	}
	if err := u.rows.Err(); err != nil {
		return nil, err
	}
	if u.read != u.kept.Rows() {
		return nil, fault.New(fault.Corrupt, "a split returned %d rows when it was searched for repeated rows, and %d rows later", u.kept.Rows(), u.read)
	}
	return nil, nil //nolint:nilnil // the end of a stream, see batch.FromFunc
}

// Begin implements SourceRows. It does nothing, since the rows can be read only after the first
// reading of the split has found the repeated rows.
func (u *distinctReader) Begin() {}

// Files implements SourceRows.
func (u *distinctReader) Files() func(row int64) string {
	files := u.rows.Files()
	return func(row int64) string { return files(u.kept.At(row)) }
}

func (u *distinctReader) release() {
	if u.kept != nil {
		u.kept.Release()
	}
	u.rows.Release()
}
