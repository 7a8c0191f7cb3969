package records

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
)

// rowGroup is a row group that is read, by a goroutine of its own. Its batches are sent in their order. Row
// groups that are not next share some memory: if that is not enough, the goroutine waits until the row group is next.
type rowGroup struct {
	of      *openFile
	number  int
	batches chan decodedBatch // closed at the end
	next    chan struct{}     // closed when the row group is next
	err     error             // valid once batches is closed
	ahead   *aheadMemory
	held    int64 // of ahead; guarded by its mu
	isNext  bool  // guarded by the mu of ahead
}

// aheadMemory is the memory of the row groups that are not next.
type aheadMemory struct {
	mu    sync.Mutex
	limit int64
	used  int64
}

// decodedBatch is a batch of a file, and the bytes that are reserved for it.
type decodedBatch struct {
	arrow.RecordBatch
	bytes int64
}

// read reads the row group, and closes the channel.
func (g *rowGroup) read(ctx context.Context, held *budget.Reservation) {
	defer close(g.batches)
	if g.err == nil {
		g.err = g.all(ctx, held)
	}
}

// all sends all batches.
func (g *rowGroup) all(ctx context.Context, held *budget.Reservation) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = g.of.unreadable(ctx, fmt.Errorf("the library's decoder failed: %v", r))
		}
	}()
	pages := g.of.pages(g.number)
	if err := g.reserve(ctx, held, pages); err != nil {
		return err
	}
	defer held.Shrink(pages)
	rows, err := g.of.rowsOf(ctx, g.number)
	if err != nil {
		return err
	}
	defer rows.Release()
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return g.of.unreadable(ctx, err)
		}
		if err := g.send(ctx, held, b); err != nil {
			return err
		}
	}
}

// send sends a batch, which it borrows.
func (g *rowGroup) send(ctx context.Context, held *budget.Reservation, b arrow.RecordBatch) error {
	bytes := batch.Size(b)
	if err := g.reserve(ctx, held, bytes); err != nil {
		return err
	}
	b.Retain()
	select {
	case g.batches <- decodedBatch{b, bytes}:
		return nil
	case <-ctx.Done():
		b.Release()
		held.Shrink(bytes)
		return context.Cause(ctx)
	}
}

// reserve reserves memory. If there is none to read ahead, it waits until the row group is next, and then as a
// stream does.
func (g *rowGroup) reserve(ctx context.Context, held *budget.Reservation, bytes int64) error {
	if g.mayRead(bytes) && held.Grow(bytes) == nil {
		return nil
	}
	select {
	case <-g.next:
		return held.GrowWait(ctx, bytes)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mayRead reports whether a row group that is not next may take memory, and counts that.
func (g *rowGroup) mayRead(bytes int64) bool {
	a := g.ahead
	a.mu.Lock()
	defer a.mu.Unlock()
	if g.isNext || a.used+bytes > a.limit {
		return false
	}
	a.used, g.held = a.used+bytes, g.held+bytes
	return true
}

// becomeNext ends reading ahead: the row group is the next one.
func (g *rowGroup) becomeNext() {
	a := g.ahead
	a.mu.Lock()
	defer a.mu.Unlock()
	if !g.isNext {
		g.isNext = true
		a.used -= g.held
		close(g.next)
	}
}

// rowsOf returns a reader of a row group.
func (o *openFile) rowsOf(ctx context.Context, group int) (pqarrow.RecordReader, error) {
	rows, err := pqarrow.NewFileReader(o.parquet, pqarrow.ArrowReadProperties{BatchSize: o.batchRows()}, batch.Cleared())
	if err != nil {
		return nil, o.unreadable(ctx, err)
	}
	out, err := rows.GetRecordReader(ctx, nil, []int{group})
	if err != nil {
		return nil, o.unreadable(ctx, err)
	}
	return out, nil
}

// pages returns the bytes that reading a row group takes, without its batches.
func (o *openFile) pages(number int) (bytes int64) {
	group := o.parquet.MetaData().RowGroup(number)
	for c := range group.NumColumns() {
		size := int64(columnPages)
		if chunk, err := group.ColumnChunk(c); err == nil {
			size = min(size, chunk.TotalUncompressedSize())
		}
		bytes += readBuffer + size
	}
	return bytes
}

// batchRows returns the rows of a batch.
func (o *openFile) batchRows() int64 {
	meta, bytes := o.parquet.MetaData(), int64(0)
	for i := range meta.NumRowGroups() {
		bytes += meta.RowGroup(i).TotalByteSize()
	}
	rows := max(meta.NumRows, 1)
	return min(maxRows, max(1, batchBytes/max(bytes/rows, 1)))
}
