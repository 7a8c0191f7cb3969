package deletes

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// values are the rows that a group of equality deletes deletes.
type values struct {
	columns  []catalog.Field
	youngest map[string]int64 // by the row's key: the sequence number of the youngest delete of the key
}

// bytesOfValue is the memory of a value besides the bytes of its key: a string header, and an entry
// of a map that is only half full after it has grown.
const bytesOfValue = 128

// loadValues loads the files of a group.
func (p *Pool) loadValues(ctx context.Context, t *catalog.Table, g *catalog.EqualityGroup) (*loaded, error) {
	held, err := p.options.Budget.ReserveFor(ctx, "equality deletes of table "+t.Name, 0)
	if err != nil {
		return nil, err
	}
	all, bytes := &values{columns: g.Columns, youngest: map[string]int64{}}, int64(0)
	for _, d := range g.Files {
		err := p.read(ctx, t, d, g.Columns, func(b arrow.RecordBatch) error {
			n, err := all.add(ctx, held, b, d.Sequence)
			bytes += n
			return err
		})
		if err != nil {
			held.Release()
			return nil, all.withRemedy(err, t, len(g.Files))
		}
	}
	held.Shrink(max(0, held.Held()-bytes))
	out := newLoaded(held)
	out.values = all
	return out, nil
}

// withRemedy adds a remedy to the error if the values do not fit in memory.
func (v *values) withRemedy(err error, t *catalog.Table, files int) error {
	if fault.KindOf(err) != fault.Exhausted {
		return err
	}
	return fault.As(fault.Op(err, "hold the equality deletes of table %s (%d values of its %d files so far)", t.Name, len(v.youngest), files)).
		WithRemedy("compact the table's equality deletes away (in Spark: rewrite_data_files with delete-file-threshold 1), or raise the server's memory budget")
}

// add adds the rows of a batch, and returns the memory that the new keys take.
func (v *values) add(ctx context.Context, held *budget.Reservation, b arrow.RecordBatch, sequence int64) (bytes int64, err error) {
	var key []byte
	for row := range int(b.NumRows()) {
		if key, err = appendKey(key[:0], b.Columns(), row); err != nil {
			return bytes, err
		}
		known, ok := v.youngest[string(key)]
		switch {
		case !ok:
			n := bytesOfValue + int64(len(key))
			if err := held.GrowWait(ctx, n); err != nil {
				return bytes, err
			}
			bytes += n
			v.youngest[string(key)] = sequence
		case known < sequence:
			v.youngest[string(key)] = sequence
		}
	}
	return bytes, nil
}

// appendKey appends the key of a row. Two rows have the same key if and only if they are
// equal in every column; nulls are equal.
func appendKey(dst []byte, columns []arrow.Array, row int) ([]byte, error) {
	var err error
	for _, c := range columns {
		if c.IsNull(row) {
			dst = append(dst, 0)
			continue
		}
		if dst, err = batch.AppendValue(append(dst, 1), c, row); err != nil {
			return dst, err
		}
	}
	return dst, nil
}
