package spill

import (
	"context"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
	"github.com/penstock/penstock/joiner"
)

// Partitions holds a stream's rows on local disk, divided into partitions. It is immutable and
// reference counted; the last Release frees the disk space.
type Partitions struct {
	refs   atomic.Int64
	in     joiner.Input
	schema *arrow.Schema // the columns that were kept, then the row numbers in the stream
	store  Store
	parts  []batchList
	rows   int64 // number of rows of the stream, including rows that no partition has
	opts   Options
}

// Partitioning defines how a stream is divided.
type Partitioning struct {
	Parts int // the number of partitions
	// Of writes the partition of each row, given its key columns: 0 to Parts - 1, or a
	// negative number for a row that is not needed. It need not be safe for
	// concurrent use.
	Of func(keys []arrow.Array, parts []int32) error
}

// Partition reads a stream, and writes each row with all its columns to the partition that by.Of
// returns. The caller releases the result; after an error nothing is held.
//
// Rows that are not yet written take up to half of the working memory, and a batch that is being
// written takes up to an eighth of it. A larger batch of the stream is written without being
// retained.
func Partition(ctx context.Context, in joiner.Input, by Partitioning, opts Options) (*Partitions, error) {
	w := &partitionWriter{in: in, by: &columnPartitioner{by: by, key: in.Key}, opts: opts}
	parts, err := w.write(ctx, by.Parts)
	return parts, fault.Op(err, "divide rows on local disk")
}

// columnPartitioner divides whole rows by a Partitioning.
type columnPartitioner struct {
	by   Partitioning
	key  []int
	keys []arrow.Array // scratch
}

func (p *columnPartitioner) begin(schema *arrow.Schema) ([]int, error) {
	p.keys = make([]arrow.Array, len(p.key))
	all := make([]int, schema.NumFields())
	for i := range all {
		all[i] = i
	}
	return all, nil
}

func (p *columnPartitioner) assign(b arrow.RecordBatch, parts []int32) error {
	for i, at := range p.key {
		p.keys[i] = b.Column(at)
	}
	return p.by.Of(p.keys, parts)
}

// Input returns the rows of one partition, in the stream's order and with its columns at their
// positions. The Partitions must not be released before the last reader of the Input.
func (p *Partitions) Input(number int) joiner.Input { return p.input(p.parts[number].batches) }

// input returns the rows of some stored batches as an Input.
func (p *Partitions) input(rows portion) joiner.Input {
	return joiner.Input{
		Key: p.in.Key, Columns: p.in.Columns,
		Open: func(ctx context.Context) (array.RecordReader, error) { return p.open(ctx, rows) },
		File: func(row int64) string { return p.file(rows, row) },
	}
}

// Size returns the bytes of memory that the rows of a partition take.
func (p *Partitions) Size(number int) int64 { return p.parts[number].bytes }

// Bytes returns the bytes on disk.
func (p *Partitions) Bytes() int64 { return p.store.Bytes() }

// rowSize returns the average bytes of memory that a row takes.
func (p *Partitions) rowSize() int64 {
	rows, bytes := int64(1), int64(0)
	for i := range p.parts {
		rows += p.parts[i].rows
		bytes += p.parts[i].bytes
	}
	return bytes/rows + 1
}

// emptyIn returns Partitions with one empty partition, for rows of the same stream, in another
// store. The store still belongs to the caller.
func (p *Partitions) emptyIn(store Store) *Partitions {
	return &Partitions{in: p.in, schema: p.schema, store: store, parts: make([]batchList, 1), opts: p.opts}
}

// Retain adds a reference. The caller must already hold a reference.
func (p *Partitions) Retain() {
	refs := p.refs.Add(1)
	invariant.Check(refs > 1, "Retain of parts after their last Release")
}

// Release removes a reference. It is safe for concurrent use.
func (p *Partitions) Release() { p.release() }

// release is like Release, and reports whether it removed the last reference.
func (p *Partitions) release() bool {
	refs := p.refs.Add(-1)
	invariant.Check(refs >= 0, "more Releases of parts than references")
	if refs == 0 {
		p.store.Release()
	}
	return refs == 0
}

// open returns a reader of stored batches, in order. Only one batch at a time is in memory.
func (p *Partitions) open(ctx context.Context, rows portion) (array.RecordReader, error) {
	held, err := p.opts.Budget.Reserve("reading "+rowsOnDisk, 0)
	if err != nil {
		return nil, err
	}
	next := func() (arrow.RecordBatch, error) {
		held.Shrink(held.Held())
		if len(rows) == 0 || ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := held.GrowWait(ctx, rows[0].bytes); err != nil {
			return nil, err
		}
		b, err := p.store.Read(rows[0].number)
		rows = rows[1:]
		return b, err
	}
	return batch.FromFunc(p.schema, next, held.Release), nil
}

// file returns the file from which a row of some stored batches came. It reads the row's number in
// the stream from disk; this is slow, but file is called only for errors.
func (p *Partitions) file(rows portion, row int64) string {
	if p.in.File == nil {
		return ""
	}
	i, at := rows.find(row)
	b, err := p.store.Read(rows[i].number)
	if err != nil {
		return ""
	}
	defer b.Release()
	return p.in.File(b.Column(int(b.NumCols()) - 1).(*array.Int64).Value(at))
}

// rowsOnDisk is the name of rows on local disk in errors about their memory.
const rowsOnDisk = "rows on local disk"
