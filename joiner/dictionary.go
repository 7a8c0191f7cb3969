package joiner

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
)

// collect builds the dictionary column by column, so that at most one column is held
// twice at a time.
func (b *builder) collect(ctx context.Context) (*array.Struct, error) {
	var columns []arrow.ArrayData
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, field := range b.fields {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		column, err := b.column(i, field)
		if err != nil {
			return nil, err
		}
		columns = append(columns, column)
	}
	if b.spec.Matched != "" {
		column, err := b.matched()
		if err != nil {
			return nil, err
		}
		columns = append(columns, column)
	}
	dt := fieldOf(b.spec.Name, b.fields, b.spec.Matched).Type.(*arrow.DictionaryType).ValueType
	whole := array.NewData(dt, int(b.rows)+1, []*memory.Buffer{nil}, columns, 0, 0)
	defer whole.Release()
	return array.NewStructData(whole), nil
}

// column builds one column of the dictionary and releases its parts.
func (b *builder) column(at int, field arrow.Field) (arrow.ArrayData, error) {
	var first arrow.Array
	if at < len(b.spec.Defaults) {
		first = b.spec.Defaults[at]
	}
	one, err := b.recoded(field, first, b.parts.result[at])
	if one == nil && err == nil {
		one, err = b.plain(field, first, b.parts.result[at])
	}
	if err != nil {
		return nil, err
	}
	defer one.Release()
	b.releaseArrays(&b.parts.result[at])
	column := one.Data()
	column.Retain()
	return column, nil
}

// plain builds a column of values, in memory that is reserved.
func (b *builder) plain(field arrow.Field, first arrow.Array, parts []arrow.Array) (arrow.Array, error) {
	bound, err := b.copyBound(field.Type, first, parts)
	if err != nil {
		return nil, err
	}
	if err := b.held.Grow(bound); err != nil {
		return nil, err
	}
	one, err := batch.WithFirst(field.Type, first, parts, b.mem)
	if err != nil {
		return nil, err
	}
	if err := b.adjust(bound, batch.ArraySize(one)); err != nil {
		one.Release()
		return nil, err
	}
	return one, nil
}

// copyBound bounds the bytes of a column of values: those of its parts and of row 0, which adds
// validity bitmaps to every nested field.
func (b *builder) copyBound(dt arrow.DataType, first arrow.Array, parts []arrow.Array) (int64, error) {
	bound := b.rows/8 + firstRow
	if first != nil {
		bound += batch.CopySize([]arrow.Array{first})
	}
	if !slices.ContainsFunc(parts, batch.IsCoded) {
		return bound + batch.CopySize(parts), nil
	}
	g := batch.NewGatherer(b.mem)
	defer g.Release()
	segments := make([]batch.Segment, len(parts))
	for i, p := range parts {
		segments[i] = batch.Segment{Values: p, Rows: p.Len()}
	}
	bytes, err := g.Size(dt, segments)
	return bound + bytes, err
}

// recoded builds a column of codes, in memory that is reserved, if some parts are coded and there
// is room. It returns nil if it does not, or if the column would not be smaller than one of values.
func (b *builder) recoded(field arrow.Field, first arrow.Array, parts []arrow.Array) (arrow.Array, error) {
	bound, any := batch.RecodingBytes(first, parts)
	if !any || b.held.Grow(bound) != nil {
		return nil, nil
	}
	one := batch.Recode(field.Type, first, parts, b.mem)
	if one == nil {
		b.held.Shrink(bound)
		return nil, nil
	}
	if err := b.adjust(bound, batch.ArraySize(one)); err != nil {
		one.Release()
		return nil, err
	}
	return one, nil
}

// firstRow bounds the bytes that row 0 adds to a column, nested or not: the padding of
// each of its buffers.
const firstRow = 512

// matched builds the field that shows whether a training row matched: false in row 0,
// to which rows without a match refer.
func (b *builder) matched() (arrow.ArrayData, error) {
	rows := int(b.rows) + 1
	size := int(bitutil.BytesForBits(int64(rows)))
	bound := int64(size) + firstRow
	if err := b.held.Grow(bound); err != nil {
		return nil, err
	}
	buffer := memory.NewResizableBuffer(b.mem)
	defer buffer.Release()
	buffer.Resize(size)
	memory.Set(buffer.Bytes(), 0)
	bitutil.SetBitsTo(buffer.Bytes(), 1, b.rows, true)
	column := array.NewData(arrow.FixedWidthTypes.Boolean, rows, []*memory.Buffer{nil, buffer}, nil, 0, 0)
	return column, b.adjust(bound, int64(buffer.Cap()))
}

// adjust changes a reservation from an estimate to the actual size.
func (b *builder) adjust(estimate, actual int64) error {
	if actual > estimate {
		return b.held.Grow(actual - estimate)
	}
	b.held.Shrink(estimate - actual)
	return nil
}
