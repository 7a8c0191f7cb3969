package joiner

import (
	"context"
	"sort"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
)

// Store is a list of batches outside memory. Its methods may be called from
// several goroutines at once.
type Store interface {
	// Append writes a batch, which it only borrows, and returns its number.
	Append(b arrow.RecordBatch) (int, error)
	// Read reads a batch. The caller releases it.
	Read(number int) (arrow.RecordBatch, error)
	// Size returns the bytes of memory that Read of the batch takes.
	Size(number int) int64
	// Bytes returns the bytes that were written.
	Bytes() int64
	// Release gives the space back.
	Release()
}

// Spilling says where rows go that do not fit in memory, and how much memory
// is worked with meanwhile.
type Spilling struct {
	// Disk makes an empty store for what is named.
	Disk func(what string) (Store, error)
	// Memory is the working memory to aim at, in bytes; 0 is a quarter of the
	// budget, or 64 MiB if that is unlimited.
	Memory int64
	// Bytes is how much memory the rows are expected to take; 0 is unknown. It
	// decides how finely a side is sliced, and nothing else.
	Bytes int64
}

// unlimited is the working memory where the budget says nothing, in bytes.
const unlimited = 64 << 20

// memory returns the working memory.
func (s Spilling) memory(b *budget.Budget) int64 {
	switch limit := b.Limit(); {
	case s.Memory > 0:
		return s.Memory
	case limit > 0:
		return max(limit/4, 1)
	default:
		return unlimited
	}
}

// Divider says how a stream is divided.
type Divider struct {
	Parts int // how many there are
	// Of says which part each of some rows belongs to, given their key columns:
	// 0 to Parts - 1, or a negative number for a row that nobody asks for. It is
	// called by one goroutine.
	Of func(keys []arrow.Array, parts []int32) error
}

// Parts is a stream's rows on local disk, divided. It is counted by reference;
// the last Release frees the disk.
type Parts struct {
	refs   atomic.Int64
	in     Input
	schema *arrow.Schema // the columns that were kept, then the rows' numbers in the stream
	store  Store
	parts  []storedPart
	rows   int64 // of the stream, those that no part has included
	opts   Options
}

// storedPart is where the rows of one part lie, in the stream's order.
type storedPart struct {
	batches []stored
	rows    int64
	bytes   int64 // of memory, when all batches are read
}

// stored is one batch of a part.
type stored struct {
	number int
	from   int64 // rows of the part before it
	rows   int64
	bytes  int64 // of memory
}

// Divide reads a stream whole and writes each row, with all its columns, to
// the part that the divider names. The caller releases what it returns; after
// an error nothing is held.
//
// Memory: up to half of the working memory holds rows that wait to be written,
// and an eighth a batch that is written. A batch of the stream that is larger
// than that is divided where it lies.
func Divide(ctx context.Context, in Input, by Divider, opts Options, how Spilling) (*Parts, error) {
	d := &dividing{in: in, of: func(_ arrow.RecordBatch, keys []arrow.Array, to []int32) error { return by.Of(keys, to) }}
	parts, err := d.divide(ctx, by.Parts, opts, how)
	return parts, fault.Op(err, "divide rows on local disk")
}

// Input is the rows of one part, in the stream's order and with its columns at
// their positions. The Parts must outlive what is made of it.
func (p *Parts) Input(number int) Input { return p.input(p.parts[number].batches) }

// input is the rows of some stored batches.
func (p *Parts) input(rows []stored) Input {
	return Input{
		Key: p.in.Key, Columns: p.in.Columns,
		Open: func(ctx context.Context) (array.RecordReader, error) { return p.read(ctx, rows) },
		File: func(row int64) string { return p.file(rows, row) },
	}
}

// Len returns how many rows a part has.
func (p *Parts) Len(number int) int64 { return p.parts[number].rows }

// Size returns the bytes of memory that the rows of a part take.
func (p *Parts) Size(number int) int64 { return p.parts[number].bytes }

// Rows returns how many rows the stream had.
func (p *Parts) Rows() int64 { return p.rows }

// rowSize returns the bytes of memory that a row of a part takes, on average.
func (p *Parts) rowSize() int64 {
	rows, bytes := int64(1), int64(0)
	for i := range p.parts {
		rows += p.parts[i].rows
		bytes += p.parts[i].bytes
	}
	return bytes/rows + 1
}

// Bytes returns the bytes on disk.
func (p *Parts) Bytes() int64 { return p.store.Bytes() }

// Retain adds a reference. The caller holds one already.
func (p *Parts) Retain() {
	refs := p.refs.Add(1)
	invariant.Check(refs > 1, "Retain of parts after their last Release")
}

// Release gives a reference back. It may be called from any goroutine.
func (p *Parts) Release() { p.release() }

// release is Release, and says whether it was the last.
func (p *Parts) release() bool {
	refs := p.refs.Add(-1)
	invariant.Check(refs >= 0, "more Releases of parts than references")
	if refs == 0 {
		p.store.Release()
	}
	return refs == 0
}

// read gives stored batches in order, one in memory at a time.
func (p *Parts) read(ctx context.Context, rows []stored) (array.RecordReader, error) {
	held, err := p.opts.Budget.Reserve("reading "+p.in.name(), 0)
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

// file names the file of a row of some stored batches. Whoever asks has an
// error to tell: the row's number is read again.
func (p *Parts) file(rows []stored, row int64) string {
	at := sort.Search(len(rows), func(i int) bool { return rows[i].from-rows[0].from > row }) - 1
	b, err := p.store.Read(rows[at].number)
	if err != nil {
		return ""
	}
	defer b.Release()
	number := b.Column(int(b.NumCols()) - 1).(*array.Int64).Value(int(row - (rows[at].from - rows[0].from)))
	return p.in.file(number)
}

// name names an input in reservations.
func (Input) name() string { return "rows on local disk" }
