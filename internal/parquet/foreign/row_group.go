package foreign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
)

// rowGroup is a row group that is being read by a goroutine of its own, which sends the batches in
// order. Of the row groups that are being read, one is next: its batches are returned first. The
// others share a limited amount of memory. If that is not enough, their goroutines wait until their
// row group is next.
type rowGroup struct {
	of      *openFile
	number  int
	batches chan decodedBatch // closed at the end
	next    chan struct{}     // closed when the row group is next
	err     error             // valid once batches is closed
	ahead   *aheadMemory
	most    int64 // maximum bytes of a batch of several rows
	stored  int64 // maximum stored bytes of a row group that is decoded by package parquet
	held    int64 // bytes that the row group has of ahead; guarded by ahead.mu
	isNext  bool  // guarded by ahead.mu
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

// all sends all batches. If a batch takes too much memory, the rest is read in smaller batches.
func (g *rowGroup) all(ctx context.Context, held *budget.Reservation) error {
	read := g.decoded
	if !g.of.decoded.has(ctx, g.number, g.stored) {
		pages := g.of.pages(g.number)
		if err := g.reserve(ctx, held, pages); err != nil {
			return err
		}
		defer held.Shrink(pages)
		read = g.some
	}
	rows, sent := g.of.batchRows(), int64(0)
	for {
		n, err := read(ctx, held, rows, sent)
		if sent += n; !errors.As(err, new(tooLargeError)) {
			return err
		}
		const fewer = 8
		rows = max(1, rows/fewer)
	}
}

// some sends the rest of the row group, in batches of the given number of rows, without the first
// after rows, which were sent before. It returns the number of rows that it has sent. It fails with
// tooLargeError if a batch of several rows takes more than g.most.
func (g *rowGroup) some(ctx context.Context, held *budget.Reservation, rows, after int64) (sent int64, err error) {
	memory := g.of.memory(func(bytes int64) error { return g.reserve(ctx, held, bytes) })
	if rows > 1 {
		memory.most = g.most
	}
	defer func() {
		r := recover()
		refused := memory.refused
		g.giveBack(held, memory.end())
		switch {
		case refused != nil:
			err = refused
		case r != nil:
			err = g.of.unreadable(ctx, fmt.Errorf("the library's decoder failed: %v", r))
		}
	}()
	in, err := g.of.rowsOf(ctx, g.number, rows, memory)
	if err != nil {
		return 0, err
	}
	defer in.Release()
	for at := int64(0); ; {
		if ctx.Err() != nil {
			return sent, context.Cause(ctx)
		}
		b, err := in.Read()
		if errors.Is(err, io.EOF) {
			return sent, nil
		}
		if err != nil {
			return sent, g.of.unreadable(ctx, err)
		}
		from := min(max(after-at, 0), b.NumRows()) // the rows before from were sent
		if at += b.NumRows(); at <= after {
			g.giveBack(held, memory.end())
			continue
		}
		rest := b.NewSlice(from, b.NumRows())
		if g.of.micros != nil {
			slice := rest
			rest = microsOf(slice, g.of.micros, memory)
			slice.Release()
		}
		err = g.send(ctx, held, rest, memory.end())
		if err == nil {
			sent += rest.NumRows()
		}
		rest.Release()
		if err != nil {
			return sent, err
		}
	}
}

// send sends a batch, which it borrows, and for which some bytes are reserved.
func (g *rowGroup) send(ctx context.Context, held *budget.Reservation, b arrow.RecordBatch, reserved int64) error {
	bytes := batch.Size(b)
	if more := bytes - reserved; more > 0 {
		if err := g.reserve(ctx, held, more); err != nil {
			held.Shrink(reserved)
			return err
		}
	} else {
		g.giveBack(held, -more)
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

// reserve reserves memory. If there is no memory for reading ahead, it waits until the row group is
// next, and then until the budget has enough.
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

// giveBack releases memory that was reserved and is not used.
func (g *rowGroup) giveBack(held *budget.Reservation, bytes int64) {
	held.Shrink(bytes)
	a := g.ahead
	a.mu.Lock()
	defer a.mu.Unlock()
	if !g.isNext {
		given := min(bytes, g.held)
		a.used, g.held = a.used-given, g.held-given
	}
}

// mayRead reports whether the shared memory for reading ahead has room for bytes, and counts them
// if so. It returns false if the row group is next.
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

// memory returns an allocator for the batches of the file. The library decodes the fields of
// structs in its own goroutines, where nothing would recover a panic of the allocator. So batches
// with structs are reserved after they are decoded.
func (o *openFile) memory(reserve func(bytes int64) error) *batchMemory {
	if slices.ContainsFunc(o.types, hasStructs) {
		reserve = nil
	}
	return &batchMemory{Allocator: batch.Cleared(), reserve: reserve}
}

// hasStructs reports whether values of a type have structs.
func hasStructs(t arrow.DataType) bool {
	if t.ID() == arrow.STRUCT {
		return true
	}
	nested, ok := t.(arrow.NestedType)
	return ok && slices.ContainsFunc(nested.Fields(), func(f arrow.Field) bool { return hasStructs(f.Type) })
}

// rowsOf returns a reader of a row group, whose batches have the given number of rows.
func (o *openFile) rowsOf(ctx context.Context, group int, size int64, memory *batchMemory) (pqarrow.RecordReader, error) {
	rows, err := pqarrow.NewFileReader(o.parquet, pqarrow.ArrowReadProperties{BatchSize: size}, memory)
	if err != nil {
		return nil, o.unreadable(ctx, err)
	}
	out, err := rows.GetRecordReader(ctx, nil, []int{group})
	if err != nil {
		return nil, o.unreadable(ctx, err)
	}
	return out, nil
}

// pages returns the estimated memory that reading a row group takes besides its batches.
func (o *openFile) pages(number int) (bytes int64) {
	group := o.parquet.MetaData().RowGroup(number)
	for c := range group.NumColumns() {
		size := int64(columnPages)
		if chunk, err := group.ColumnChunk(c); err == nil {
			size = min(size, chunk.TotalUncompressedSize())
		}
		bytes += o.buffer + size
	}
	return bytes
}

// batchRows returns the number of rows of a batch, estimated from their size in the file.
func (o *openFile) batchRows() int64 {
	meta, bytes := o.parquet.MetaData(), int64(0)
	for i := range meta.NumRowGroups() {
		bytes += meta.RowGroup(i).TotalByteSize()
	}
	rows := max(meta.NumRows, 1)
	return min(maxRows, max(1, batchBytes/max(bytes/rows, 1)))
}
