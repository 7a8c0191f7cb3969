package joiner

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// custom hands the keys to a strategy that somebody else brings.
func (b *builder) custom(ctx context.Context, s *BuildSide) error {
	c := &customLookups{rows: b.rows}
	s.lookups = c
	for i, f := range b.keys {
		column, err := b.keyColumn(i, f)
		if err != nil {
			return err
		}
		c.keys = append(c.keys, column)
	}
	for i := range b.orderParts {
		b.leave(&b.orderParts[i])
	}
	var err error
	if c.finder, err = b.spec.Custom.Index(ctx, c.keys, b.held.Grow); err != nil {
		return fault.Op(err, "index the keys")
	}
	if c.finder == nil {
		return fault.New(fault.Internal, "a custom strategy made no finder")
	}
	return nil
}

// keyColumn puts the values of a key column together and releases its parts.
func (b *builder) keyColumn(at int, field arrow.Field) (arrow.Array, error) {
	list := &b.keyParts[at]
	if len(*list) == 0 {
		return array.MakeArrayOfNull(b.mem, field.Type, 0), nil
	}
	bound := batch.CopySize(*list) + firstRow
	if err := b.held.Grow(bound); err != nil {
		return nil, err
	}
	one, err := batch.Concat(*list, b.mem)
	if err != nil {
		return nil, err
	}
	if err := b.settle(bound, batch.ArraySize(one)); err != nil {
		one.Release()
		return nil, err
	}
	b.leave(list)
	return one, nil
}

// customLookups is a side that is searched in a way of somebody else's.
type customLookups struct {
	keys   []arrow.Array
	rows   int64
	finder Finder
}

func (c *customLookups) begin() search    { return c }
func (c *customLookups) strategy() string { return "custom" }

func (c *customLookups) release() {
	for _, k := range c.keys {
		k.Release()
	}
	c.keys, c.finder = nil, nil
}

// lookup writes what the finder finds, and checks it. It is safe for concurrent use, as the finder is.
func (c *customLookups) lookup(ctx context.Context, keys *Keys, refs []int32) error {
	if err := c.finder.Find(ctx, keys.arrays, refs); err != nil {
		return fault.Op(err, "find the rows of %d keys", keys.rows)
	}
	for i, row := range refs {
		if keys.encoded.null != nil && keys.encoded.null[i] {
			continue // no match, whatever it says
		}
		if row < -1 || int64(row) >= c.rows {
			return fault.New(fault.Internal, "a custom strategy found row %d of %d", row, c.rows)
		}
		refs[i] = row + 1
	}
	return nil
}
