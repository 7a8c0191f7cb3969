package disk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// AnyRows accepts any number of rows.
const AnyRows = -1

// WantedChunk describes the chunk that a caller of Get expects.
type WantedChunk struct {
	// Types are the accepted types of the arrays, such as utf8 and dictionary<int32, utf8>. The
	// result has one of them.
	Types []arrow.DataType
	// Rows is the number of rows of all arrays, or AnyRows.
	Rows int64
	// Reserve reserves memory for the arrays before it is allocated. Get grows or shrinks the
	// reservation to the size of the arrays, and the Chunk owns it afterward. If Get fails, it
	// releases the reservation.
	Reserve func(bytes int64) (*budget.Reservation, error)
}

// Chunk is a column chunk read from disk. The caller releases it once.
type Chunk struct {
	Arrays []arrow.Array       // as they were put, in the same order
	Held   *budget.Reservation // for the memory of the arrays
	Cost   uint32              // Offer.Cost, the cost of rebuilding the chunk
}

// Release releases the arrays and their reservation. A caller that keeps some arrays longer first
// retains them, and splits their part off the reservation.
func (c *Chunk) Release() {
	for _, a := range c.Arrays {
		a.Release()
	}
	c.Held.Release()
}

// Get returns the chunk of a column if the tier has an intact one. The time limit of Options.Calls
// bounds the wait for the disk. Get reports no errors: if it returns no chunk, the caller decodes
// the column.
func (t *Tier) Get(ctx context.Context, id ColumnID, want WantedChunk) (*Chunk, bool) {
	f := t.open(id.Key())
	if f == nil {
		t.counts.add(func(s *TierStats) { s.Reads.Misses++ })
		return nil, false
	}
	r := &chunkRead{tier: t, file: f, name: chunkName(f.key, f.cost)}
	c, err := r.run(ctx, id, want)
	if err != nil {
		t.readFailed(ctx, f, err)
		c = nil
	} else {
		t.counts.add(func(s *TierStats) {
			s.Reads.Hits++
			s.Reads.HitBytes += r.body
			s.Reads.Saved += int64(f.cost)
		})
	}
	r.pending.WhenReturned(func() { r.end(context.WithoutCancel(ctx), c == nil) })
	return c, c != nil
}

// open returns the file of a chunk with a reference, or nil if it cannot be read now.
func (t *Tier) open(key ChunkKey) *chunkFile {
	if t.hanging.Load() > 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	return t.ledger.open(key)
}

// readFailed counts the failure of a read, and deletes a file that cannot be used.
func (t *Tier) readFailed(ctx context.Context, f *chunkFile, err error) {
	remove := true
	switch {
	case ctx.Err() != nil:
		t.counts.add(func(s *TierStats) { s.Reads.Canceled++ })
		return
	case fault.KindOf(err) == fault.Exhausted:
		t.counts.add(func(s *TierStats) { s.Reads.NoMemory++ })
		return
	case errors.Is(err, fs.ErrNotExist): // it was deleted by hand or by another process
		t.counts.add(func(s *TierStats) { s.Reads.Misses++ })
	case fault.KindOf(err) == fault.Corrupt || fault.KindOf(err) == fault.Invalid:
		t.counts.failed("a file of the disk tier was not used, and is deleted", err, func(s *TierStats) { s.Reads.Damaged++ })
	default:
		t.counts.failed("a file of the disk tier could not be read", err, func(s *TierStats) { s.Reads.Failed++ })
		remove = t.hanging.Load() == 0
	}
	t.mu.Lock()
	remove = remove && t.ledger.leave(f)
	t.mu.Unlock()
	if remove {
		_ = t.deleteFile(context.WithoutCancel(ctx), f) // if this fails, its bytes stay counted
	}
}

// chunkRead is one read of a file.
type chunkRead struct {
	tier    *Tier
	file    *chunkFile
	name    string
	disk    *openedFile
	held    *budget.Reservation
	buffers []*memory.Buffer // the buffers of all arrays
	pending *store.Pending   // the abandoned call that ended the read and may still use its memory
	body    int64
}

// openedFile is an open file, and its first bytes.
type openedFile struct {
	diskFile
	begin []byte
}

// Memory that is charged besides the arrays' buffers.
const (
	nodeBytes = 512 // for each array and each child
	headScale = 16  // bytes for each byte of an encoded head
)

// run reads and checks the file.
func (r *chunkRead) run(ctx context.Context, id ColumnID, want WantedChunk) (_ *Chunk, err error) {
	estimate := r.file.size + headScale*firstRead
	if r.held, err = want.Reserve(estimate); err != nil {
		return nil, noMemory(err)
	}
	if r.disk, r.pending, err = call(ctx, r.tier, "open", r.name, r.openFile); err != nil {
		return nil, err
	}
	c, err := r.head(ctx, want.Types)
	if err != nil {
		return nil, err
	}
	if c.id != id || c.cost != r.file.cost || c.length+c.body != r.file.size || want.Rows != AnyRows && c.rows != want.Rows {
		return nil, damaged("its head does not agree with its name, its length or the table")
	}
	needs := c.body + nodeBytes*c.shape.nodes()
	if needs > r.held.Held() {
		if err := r.held.Grow(needs - r.held.Held()); err != nil {
			return nil, noMemory(err)
		}
	}
	arrays, err := r.arrays(ctx, c)
	if err != nil {
		return nil, err
	}
	r.held.Shrink(r.held.Held() - needs)
	r.body = c.body
	return &Chunk{Arrays: arrays, Held: r.held, Cost: c.cost}, nil
}

// noMemory marks an error as a lack of memory, whatever its kind was.
func noMemory(err error) error { return fault.New(fault.Exhausted, "read from the disk tier: %w", err) }

// openFile opens the file and reads its first bytes.
func (r *chunkRead) openFile(path string) (*openedFile, error) {
	f, err := r.tier.sys.open(path)
	if err != nil {
		return nil, err
	}
	out := &openedFile{diskFile: f, begin: make([]byte, min(r.file.size, firstRead))}
	found, err := f.Stat()
	if err == nil {
		err = private(found)
	}
	if err == nil && found.Size() != r.file.size {
		err = damaged("its length has changed")
	}
	if err == nil {
		err = readFull(f, out.begin, 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return out, nil
}

// readFull fills p. If the file ends too early, it is damaged.
func readFull(f diskFile, p []byte, at int64) error {
	n, err := f.ReadAt(p, at)
	switch {
	case n == len(p):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return damaged("it became shorter while it was read")
	default:
		return err
	}
}

// head reads and checks the head.
func (r *chunkRead) head(ctx context.Context, types []arrow.DataType) (*readableChunk, error) {
	length, err := headLength(r.disk.begin)
	if err != nil {
		return nil, err
	}
	if length > r.file.size {
		return nil, damaged("it ends within its head")
	}
	if length <= int64(len(r.disk.begin)) {
		return decodeHead(r.disk.begin[:length], r.file.key, types)
	}
	if err := r.held.Grow(headScale * length); err != nil {
		return nil, noMemory(err)
	}
	whole := make([]byte, length)
	if err := r.read(ctx, func() error { return readFull(r.disk, whole, 0) }); err != nil {
		return nil, err
	}
	return decodeHead(whole, r.file.key, types)
}

// arrays reads all extents and makes their arrays.
func (r *chunkRead) arrays(ctx context.Context, c *readableChunk) (out []arrow.Array, err error) {
	body := &bodyReader{chunk: c}
	defer body.release()
	defer func() {
		if err != nil {
			for _, a := range out {
				a.Release()
			}
		}
	}()
	at, block := c.length, int64(0)
	for i, e := range slices.Concat(c.layout.dictionaries, c.layout.arrays) {
		dictionaries, first := i < len(c.layout.dictionaries), len(out)
		if dictionaries {
			first = len(body.dictionaries)
		}
		buffers, err := r.extent(ctx, at, c.sizes(dictionaries, first, e))
		if err != nil {
			return out, err
		}
		if err := checkBlocks(c, block, buffers); err != nil {
			return out, err
		}
		at, block = at+e.bytes, block+e.blocks()
		if dictionaries {
			err = body.nextDictionaries(buffers)
		} else {
			out, err = body.nextArrays(buffers, out)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// extent reads an extent whose arrays have the given sizes. Each array gets a separate buffer.
func (r *chunkRead) extent(ctx context.Context, at int64, sizes []int64) ([]*memory.Buffer, error) {
	first := len(r.buffers)
	for _, size := range sizes {
		buffer := memory.NewResizableBuffer(r.tier.options.allocator())
		r.buffers = append(r.buffers, buffer)
		buffer.Resize(int(size))
	}
	buffers := r.buffers[first:]
	return buffers, r.read(ctx, func() error {
		for _, b := range buffers {
			if err := readFull(r.disk, b.Bytes(), at); err != nil {
				return err
			}
			at += int64(b.Len())
		}
		return nil
	})
}

// read runs a call that reads from the file. After a failure, r makes no other call.
func (r *chunkRead) read(ctx context.Context, do func() error) (err error) {
	r.pending, err = does(ctx, r.tier, "read", r.name, func(string) error { return do() })
	return err
}

// end ends the read once no call uses its memory.
func (r *chunkRead) end(ctx context.Context, failed bool) {
	for _, b := range r.buffers {
		b.Release()
	}
	if failed && r.held != nil {
		r.held.Release()
	}
	var closing *store.Pending
	if r.disk != nil {
		closing, _ = does(ctx, r.tier, "close", r.name, func(string) error { return r.disk.Close() })
	}
	closing.WhenReturned(func() {
		r.tier.mu.Lock()
		defer r.tier.mu.Unlock()
		r.tier.ledger.close(r.file)
	})
}

func (o Options) allocator() memory.Allocator {
	if o.Memory == nil {
		return batch.Default()
	}
	return o.Memory
}
