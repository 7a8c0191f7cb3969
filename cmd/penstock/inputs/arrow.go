package inputs

import (
	"bufio"
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/flight/rowsin"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// The maximum bytes of a batch in an Arrow file are the memory budget divided by arrowShare, but at
// least arrowLeast and at most arrowMost. Slices of batches have at most arrowRows rows, and the
// read buffer has arrowBuffer bytes. An Arrow file begins with arrowFile, and an Arrow stream
// begins with arrowStreams.
const (
	arrowShare              = 32
	arrowLeast, arrowMost   = 64 << 20, 1 << 30
	arrowRows, arrowBuffer  = 8192, 256 << 10
	arrowFile, arrowStreams = "ARROW1", "\xff\xff\xff\xff"
)

// arrow returns the rows of an Arrow IPC file or stream.
//
// Errors: Invalid for malformed or truncated input; Exhausted for batches that are too large.
func (o Options) arrow(ctx context.Context, f File) (array.RecordReader, error) {
	content, err := o.content(ctx, f)
	if err != nil {
		return nil, err
	}
	most := int64(arrowMost)
	if limit := o.Budget.Limit(); limit >= 0 {
		most = min(max(limit/arrowShare, arrowLeast), arrowMost)
	}
	rows, err := rowsin.OpenStream(ctx, bufio.NewReaderSize(content, arrowBuffer), rowsin.Options{Limit: most, Budget: o.Budget})
	if err != nil {
		_ = content.Close()
		return nil, fault.Op(err, "read %s", f.Name)
	}
	a := &arrowSlices{name: f.Name, rows: rows.Reader(ctx, func() error { return nil })}
	return batch.FromFunc(a.rows.Schema(), a.batch, func() {
		a.rows.Release()
		rows.Close()
		_ = content.Close()
	}), nil
}

// arrowSlices splits batches into slices, because a batch may have millions of rows.
type arrowSlices struct {
	name string
	rows array.RecordReader
	from int64 // the first row of the current batch that is not in a slice yet
}

// batch returns the next slice, or nil at the end.
func (a *arrowSlices) batch() (arrow.RecordBatch, error) {
	for a.rows.RecordBatch() == nil || a.from == a.rows.RecordBatch().NumRows() {
		if a.from = 0; !a.rows.Next() {
			if err := a.rows.Err(); err != nil {
				return nil, fault.Op(err, "read %s", a.name)
			}
			return nil, nil //nolint:nilnil // batch.FromFunc expects nil at the end
		}
	}
	b, from := a.rows.RecordBatch(), a.from
	a.from = min(from+arrowRows, b.NumRows())
	return b.NewSlice(from, a.from), nil
}
