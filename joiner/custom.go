package joiner

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// Custom is a strategy that somebody else brings: it says which staging row a
// key finds, equal or not. It finds no duplicates, since it gives at most one
// row, and knows no times.
type Custom interface {
	// Index gets the key columns of a build side, once, when all rows were
	// read. They stay valid and unchanged while the finder lives. Memory that
	// the finder keeps beside them is reserved with grow first, in bytes.
	Index(ctx context.Context, keys []arrow.Array, grow func(bytes int64) error) (Finder, error)
}

// Finder finds the rows of one build side. It is used by several goroutines
// at once.
type Finder interface {
	// Find gets the key columns of a training batch, and writes for each row
	// the number of its staging row, counted from 0, or -1 for none. Rows with
	// a null in their key match nothing, whatever is written for them.
	Find(ctx context.Context, keys []arrow.Array, found []int32) error
}

// custom hands the keys to a strategy that somebody else brings.
func (b *builder) custom(ctx context.Context, s *BuildSide) error {
	c := &customIndex{rows: b.rows}
	s.index = c
	for i, f := range b.keys {
		column, err := b.keyColumn(i, f)
		if err != nil {
			return err
		}
		c.keys = append(c.keys, column)
	}
	for i := range b.orderParts {
		b.releaseArrays(&b.orderParts[i])
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
	b.releaseArrays(list)
	return one, nil
}

// customIndex is a build side that is searched in a way of somebody else's.
type customIndex struct {
	keys   []arrow.Array
	rows   int64
	finder Finder
}

func (c *customIndex) newSearch() search { return c }
func (c *customIndex) strategy() string  { return "custom" }

func (c *customIndex) release() {
	for _, k := range c.keys {
		k.Release()
	}
	c.keys, c.finder = nil, nil
}

// lookup writes what the finder finds, and checks it. It is safe for concurrent
// use, as the finder is.
func (c *customIndex) lookup(ctx context.Context, keys *Keys, refs []int32) error {
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
