package tablediff

import (
	"bytes"
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/sortkey"
	"github.com/penstock/penstock/loader/extsort"
)

// keyRows has the rows of one key.
type keyRows struct {
	rows  [sides]int64 // number of rows on each side
	read  bool         // whether a row is in a file that differs
	first [sides]arrow.RecordBatch
	at    [sides]int // index of the row in the batch in first
}

// add adds a row. It retains the batch of the first row of each side.
func (k *keyRows) add(b arrow.RecordBatch, row int, side int32) {
	if side == sideBoth {
		k.rows[sideBefore]++
		k.rows[sideAfter]++
		return
	}
	k.read = true
	if k.rows[side]++; k.first[side] == nil {
		b.Retain()
		k.first[side], k.at[side] = b, row
	}
}

// reset releases the batches, so that the next key can begin.
func (k *keyRows) reset() {
	for _, b := range k.first {
		if b != nil {
			b.Release()
		}
	}
	*k = keyRows{}
}

// keyCounting counts keys. byColumn has a count for each column in values.
type keyCounting struct {
	*comparing
	out      *KeyChanges
	byColumn []int64
}

// compareKeys compares the rows of each key. In the sorted rows, the rows of a key are next to each
// other.
func (c *comparing) compareKeys(ctx context.Context, sorted *extsort.Sorted, out *KeyChanges) error {
	if len(sorted.Partitions()) == 0 {
		return nil
	}
	spec, err := sortkey.NewKeySpec(sorted.Schema().Fields()[:len(c.key)], make([]sortkey.ColumnOrder, len(c.key)))
	if err != nil {
		return err
	}
	held, err := c.Rows.Budget.ReserveFor(ctx, "keys to compare", 0)
	if err != nil {
		return err
	}
	defer held.Release()
	rows, err := sorted.Open(ctx, 0)
	if err != nil {
		return err
	}
	defer rows.Release()
	counting := keyCounting{comparing: c, out: out, byColumn: make([]int64, len(c.values))}
	var group keyRows
	defer group.reset()
	var last, key []byte
	begun := false
	for rows.Next() {
		b := rows.RecordBatch()
		if more := b.NumRows()*spec.RowBytes() - held.Held(); more > 0 {
			if err := held.GrowWait(ctx, more); err != nil {
				return err
			}
		}
		keys, err := spec.Keys(b.Columns()[:len(c.key)])
		if err != nil {
			return err
		}
		sideOf := b.Column(len(c.key)).(*array.Int32) //nolint:forcetypeassert // see rowSchema
		for row := range int(b.NumRows()) {
			key = keys.Append(key[:0], row)
			if !begun || !bytes.Equal(last, key) {
				counting.count(&group)
				last, key, begun = key, last, true
			}
			group.add(b, row, sideOf.Value(row))
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	counting.count(&group)
	counting.finish()
	return nil
}

// count counts a key, and resets k for the next key.
func (c *keyCounting) count(k *keyRows) {
	defer k.reset()
	before, after := k.rows[sideBefore], k.rows[sideAfter]
	show := func(shown []string, side int) []string {
		if len(shown) < shownKeys {
			shown = append(shown, keyText(k.first[side], len(c.key), k.at[side]))
		}
		return shown
	}
	switch {
	case !k.read:
	case before == 0:
		c.out.Added++
		c.out.AddedKeys = show(c.out.AddedKeys, sideAfter)
	case after == 0:
		c.out.Gone++
		c.out.GoneKeys = show(c.out.GoneKeys, sideBefore)
	case before > 1 || after > 1:
		c.out.Repeated++
	default:
		c.compareValues(k)
	}
}

// compareValues compares the values of a key with one row on each side.
func (c *keyCounting) compareValues(k *keyRows) {
	var differ []string
	changed := false
	for i, f := range c.values {
		at := len(c.key) + 1 + i
		if batch.SameRow(k.first[sideBefore].Column(at), k.at[sideBefore], k.first[sideAfter].Column(at), k.at[sideAfter]) {
			continue
		}
		c.byColumn[i]++
		if changed = true; len(c.out.ChangedKeys) < shownKeys {
			differ = append(differ, f.Name)
		}
	}
	switch {
	case !changed:
		c.out.Same++
	case len(c.out.ChangedKeys) < shownKeys:
		c.out.ChangedKeys = append(c.out.ChangedKeys, ChangedKey{Key: keyText(k.first[sideAfter], len(c.key), k.at[sideAfter]), Columns: differ})
		c.out.Changed++
	default:
		c.out.Changed++
	}
}

// finish adds the columns with different values to the result.
func (c *keyCounting) finish() {
	for i, f := range c.values {
		if c.byColumn[i] > 0 {
			c.out.ByColumn = append(c.out.ByColumn, ColumnCount{Column: f.Name, Keys: c.byColumn[i]})
		}
	}
}
