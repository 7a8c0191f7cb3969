package joiner

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// Custom is a strategy from outside of this package: it defines which staging row
// matches a key, equal or not. It returns at most one row, so that there are no
// duplicates, and ignores times.
type Custom interface {
	// Index gets the key columns of a build side once, after all rows were read.
	// They stay valid and unchanged while the finder lives. The finder reserves
	// other memory that it keeps with grow, in bytes, before it allocates it.
	Index(ctx context.Context, keys []arrow.Array, grow func(bytes int64) error) (Finder, error)
}

// Finder finds the rows of one build side. It is safe for concurrent use.
type Finder interface {
	// Find gets the key columns of a training batch, and writes for each row the
	// number of its staging row, counted from 0, or -1 for none. Results for rows
	// with a null in their key are ignored.
	Find(ctx context.Context, keys []arrow.Array, found []int32) error
}

// custom builds the index of a custom strategy.
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
	for i := range b.parts.order {
		b.releaseArrays(&b.parts.order[i])
	}
	var err error
	if c.finder, err = b.spec.Custom.Index(ctx, c.keys, b.held.Grow); err != nil {
		return fault.Op(err, "index the keys")
	}
	if c.finder == nil {
		return fault.New(fault.Internal, "a custom strategy returned no finder")
	}
	return nil
}

// keyColumn concatenates the values of a key column and releases its parts.
func (b *builder) keyColumn(at int, field arrow.Field) (arrow.Array, error) {
	list := &b.parts.key[at]
	if len(*list) == 0 {
		return batch.Nulls(field.Type, 0, b.mem), nil
	}
	bound := batch.CopySize(*list) + firstRow
	if err := b.held.Grow(bound); err != nil {
		return nil, err
	}
	one, err := batch.Concat(*list, b.mem)
	if err != nil {
		return nil, err
	}
	if err := b.adjust(bound, batch.ArraySize(one)); err != nil {
		one.Release()
		return nil, err
	}
	b.releaseArrays(list)
	return one, nil
}

// customIndex is a build side that a custom strategy searches.
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

// lookup calls the finder and checks its results. It is safe for concurrent use, as
// the finder is.
func (c *customIndex) lookup(ctx context.Context, keys *Keys, refs []int32) error {
	if err := c.finder.Find(ctx, keys.arrays, refs); err != nil {
		return fault.Op(err, "find the rows of %d keys", keys.rows)
	}
	for i, row := range refs {
		if keys.encoded.null != nil && keys.encoded.null[i] {
			continue // never a match
		}
		if row < -1 || int64(row) >= c.rows {
			return fault.New(fault.Internal, "a custom strategy returned row %d of %d", row, c.rows)
		}
		refs[i] = row + 1
	}
	return nil
}
