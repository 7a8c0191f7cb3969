package spool

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/cespare/xxhash/v2"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/invariant"
)

// File is a reference-counted list of batches on disk. The last Release frees its space at
// once. All methods are safe for concurrent use.
type File struct {
	refs  atomic.Int64
	spool *Spool
	what  string
	disk  *os.File
	named bool // whether the file still has a name, because the system cannot unlink an open file

	mu      sync.Mutex
	end     int64
	batches []extent
	schemas []*schema
}

// extent is the location of a batch in the file.
type extent struct {
	at, bytes int64
	body      int64 // size of the batch in memory
	sum       uint64
	schema    *schema
}

// schema is the schema of some batches of the file.
type schema struct {
	of   *arrow.Schema
	head []byte // the schema as an IPC message, which an IPC reader needs before a batch
}

// Create creates an empty file. what is the purpose of the file, which errors name. The caller
// releases the file.
func (s *Spool) Create(what string) (*File, error) {
	disk, err := os.CreateTemp(s.folder, pattern)
	if err != nil {
		return nil, s.broken("create a file in", err)
	}
	f := &File{spool: s, what: what, disk: disk}
	f.refs.Store(1)
	if s.unlink(disk.Name()) != nil {
		f.named = true
		if err := lock(disk); err != nil {
			_ = disk.Close()
			_ = os.Remove(disk.Name())
			return nil, s.broken("lock a file in", err)
		}
	}
	s.mu.Lock()
	s.stats.Files++
	s.mu.Unlock()
	return f, nil
}

// Retain adds a reference. The caller holds one already.
func (f *File) Retain() {
	refs := f.refs.Add(1)
	invariant.Check(refs > 1, "Retain of a spool file after its last Release")
}

// Release drops a reference; the last one frees the disk space. Batches that were read stay
// valid.
func (f *File) Release() {
	refs := f.refs.Add(-1)
	invariant.Check(refs >= 0, "more Releases of a spool file than references")
	if refs != 0 {
		return
	}
	_ = f.disk.Close() // the error does not matter, since the file is not read again
	if f.named {
		_ = os.Remove(f.disk.Name()) // if this fails, the next Open removes it
	}
	f.spool.release(f.end)
	f.batches, f.schemas = nil, nil
}

// Bytes returns the bytes on disk.
func (f *File) Bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end
}

// copyBuffer is the size of the write buffer in bytes.
const copyBuffer = 64 << 10

// readBuffer is the size of the read buffer in bytes, enough for the header of a message.
const readBuffer = 1 << 10

// Append writes a batch and returns its number: 0, 1, 2 …, in the order of the calls. If a column
// is a slice, only the rows of the slice are written. Dictionaries are not supported. After an
// error, only Release may be called.
func (f *File) Append(b arrow.RecordBatch) (int, error) {
	// The library relies on cleared memory: it never writes the validity bitmap of an array of nulls.
	payload, err := ipc.GetRecordBatchPayload(b, ipc.WithAllocator(batch.Cleared()))
	if err != nil {
		return 0, fault.New(fault.Internal, "encode a batch of %s: %w", f.what, err)
	}
	defer payload.Release()
	var whole, body counter
	_, err = payload.WritePayload(&whole)
	if err = errors.Join(err, payload.SerializeBody(&body)); err != nil {
		return 0, fault.New(fault.Internal, "encode a batch of %s: %w", f.what, err)
	}
	if err := f.spool.reserve(f.what, int64(whole)); err != nil {
		return 0, err
	}
	x := f.reserve(b.Schema(), int64(whole), int64(body))
	sum := xxhash.New()
	w := bufio.NewWriterSize(io.MultiWriter(sum, io.NewOffsetWriter(f.disk, x.at)), int(min(x.bytes, copyBuffer)))
	_, err = payload.WritePayload(w)
	if err = errors.Join(err, w.Flush()); err != nil {
		return 0, f.spool.broken("write to", err)
	}
	x.sum = sum.Sum64()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batches = append(f.batches, x)
	return len(f.batches) - 1, nil
}

// reserve returns an extent for the next bytes of the file. size is the size of the batch in the
// file, and body its size in memory.
func (f *File) reserve(s *arrow.Schema, size, body int64) extent {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := extent{at: f.end, bytes: size, body: (body + alignment - 1) &^ (alignment - 1)}
	f.end += size
	for _, known := range f.schemas {
		if known.of == s || known.of.Equal(s) {
			x.schema = known
			return x
		}
	}
	x.schema = &schema{of: s, head: headOf(s)}
	f.schemas = append(f.schemas, x.schema)
	return x
}

// headOf returns a schema as an IPC message.
func headOf(s *arrow.Schema) []byte {
	var head bytes.Buffer
	w := ipc.NewWriter(&head, ipc.WithSchema(s))
	err := w.Close() // writes the schema and an end mark
	invariant.Check(err == nil, "a schema cannot be written: %v", err)
	return head.Bytes()[:head.Len()-endMark]
}

// alignment is the unit, in bytes, to which the sizes of Arrow's buffers are rounded up.
const alignment = 64

// endMark is the length of the mark at the end of an IPC stream.
const endMark = 8

// counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// Len returns the number of batches.
func (f *File) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.batches)
}

// Size returns the number of bytes of memory that a batch takes after it was read. The caller
// reserves them before it calls Read.
func (f *File) Size(number int) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.batches[number].body
}

// Read reads a batch. The caller releases it.
func (f *File) Read(number int) (arrow.RecordBatch, error) {
	f.mu.Lock()
	x := f.batches[number]
	f.mu.Unlock()
	sum := xxhash.New()
	body := io.TeeReader(bufio.NewReaderSize(io.NewSectionReader(f.disk, x.at, x.bytes), readBuffer), sum)
	r, err := ipc.NewReader(io.MultiReader(bytes.NewReader(x.schema.head), body), ipc.WithAllocator(f.spool.mem))
	if err != nil {
		return nil, fault.New(fault.Internal, "decode the schema of %s: %w", f.what, err)
	}
	defer r.Release()
	b, err := r.Read()
	if err != nil {
		return nil, f.spool.broken("read from", err)
	}
	if sum.Sum64() != x.sum {
		return nil, fault.New(fault.Corrupt, "%s was written to %s, and its bytes have changed since", f.what, f.spool.folder).
			WithRemedy("the disk of %s is faulty; name another folder with the setting spool", f.spool.folder)
	}
	return array.NewRecordBatch(x.schema.of, b.Columns(), b.NumRows()), nil
}
