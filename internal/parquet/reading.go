package parquet

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/invariant"
	"github.com/penstock/penstock/internal/parquet/charged"
	"github.com/penstock/penstock/internal/parquet/convert"
	"github.com/penstock/penstock/internal/parquet/page"
)

// streamBuffer is the size of the library's buffer for each stream.
const streamBuffer = 16 << 10

// reading is what the row groups of a Reader have in common.
type reading struct {
	ctx         context.Context //nolint:containedctx // a reader's interface has no context; a Reader lives for one read
	file        *File
	opts        ReadOptions
	all         []column // the wanted columns
	source      *source
	account     *charged.Account
	scratch     *charged.Allocator        // of the open row group
	batchMemory *charged.Allocator        // of the open batch; nil between batches
	memory      *charged.DecoderAllocator // the library's allocator, which takes its buffers from batchMemory
	whole       libraryReaders            // readers of the file with its own footer, without replaced or viewed chunks
	streams     bool                      // whether the library's readers read chunks through streams
	kept        int64                     // reserved for buffers that the library keeps across batches
}

// libraryReaders are two readers of the library, which differ in the memory into which they decode.
type libraryReaders struct {
	cleared *pqarrow.FileReader // zeroed
	plain   *pqarrow.FileReader // with any content
}

func newReader(ctx context.Context, f *File, columns []column, opts ReadOptions) (*Reader, error) {
	account := &charged.Account{Admit: opts.Admit, Part: opts.Part}
	scratch := account.NewGroup(opts.Scratch)
	reading := &reading{
		ctx: ctx, file: f, opts: opts, all: columns, account: account, scratch: scratch,
		source: &source{ctx: ctx, file: f, scratch: scratch, giveUp: opts.GiveUp},
		memory: charged.NewDecoderAllocator(opts.Memory),
	}
	reading.streams = reading.useStreams()
	var err error
	reading.whole, err = reading.readersOf(f.meta)
	r := &Reader{reading: reading, schema: convert.PlainSchema(opts.Schema), ahead: ahead{reading: reading}, group: rowGroup{reading: reading}}
	r.refs.Store(1)
	return r, err
}

// readersOf returns the library's readers of the file as described by a footer.
func (r *reading) readersOf(meta *metadata.FileMetaData) (out libraryReaders, err error) {
	props := parquet.NewReaderProperties(r.scratch)
	props.BufferedStreamEnabled = r.streams
	props.MaxCompressedPageSize, props.MaxUncompressedPageSize = page.MaxBytes, page.MaxBytes
	pages, err := file.NewParquetReader(r.source, file.WithMetadata(meta), file.WithReadProps(props))
	if err == nil {
		out.cleared, err = pqarrow.NewFileReader(pages, pqarrow.ArrowReadProperties{}, batch.Zeroed(r.memory))
	}
	if err == nil {
		out.plain, err = pqarrow.NewFileReader(pages, pqarrow.ArrowReadProperties{}, r.memory)
	}
	if err != nil {
		return libraryReaders{}, damaged(r.file.Location(), "%w", err)
	}
	return out, nil
}

// useStreams reports whether the library reads chunks through streams with a buffer each.
// Copying whole chunks is cheaper where the chunks of every row group are, on average, at
// most as large as that buffer.
func (r *reading) useStreams() bool {
	return slices.ContainsFunc(r.opts.RowGroups, func(group int) bool {
		var sum, chunks int64
		for _, s := range r.file.spans(group, r.all) {
			sum, chunks = sum+s.length, chunks+1
		}
		return sum > streamBuffer*chunks
	})
}

// wanted returns the range [from, to) of rows of a row group that are read, counted from the start
// of the row group.
func (r *reading) wanted(group int) (from, to int64) {
	rows := r.file.groups[group]
	from, to = max(r.opts.From-rows.FirstRow, 0), rows.Rows
	if r.opts.To > 0 {
		to = min(r.opts.To-rows.FirstRow, to)
	}
	return from, max(to, from)
}

// startBatch reserves the memory of a batch whose estimated size is n bytes.
func (r *reading) startBatch(n int64) error {
	now, err := r.account.NewBatch(r.opts.Memory, n)
	if err != nil {
		return err
	}
	r.batchMemory = now
	r.memory.SetBatch(now)
	return nil
}

// finishBatch ends the open batch, if there is one, and returns the number of bytes that the batch
// takes. Buffers that the library keeps stay charged to the reader, and admitted bytes that are not
// used are given back.
func (r *reading) finishBatch() int64 {
	if r.batchMemory == nil {
		return 0
	}
	moved, kept := r.memory.Keep(r.batchMemory)
	used, admitted := r.batchMemory.Close()
	r.batchMemory = nil
	used -= moved
	spare := r.kept + admitted - kept - used
	invariant.Check(spare >= 0, "a batch of %s takes %d bytes more than were admitted", r.file.Location(), -spare)
	r.account.Release(spare)
	r.kept = kept
	return used
}

// load reads the stored bytes of columns of a row group if they were not read ahead.
func (r *reading) load(group int, columns []column) error {
	spans := r.file.spans(group, columns)
	if len(spans) == 0 {
		return nil
	}
	wanted, stored := r.file.wanted(spans)
	if r.opts.Shared != nil {
		return r.loadShared(r.chunkRange(group, columns), wanted, stored)
	}
	if err := r.scratch.Extend(stored); err != nil {
		return err
	}
	return r.source.load(wanted)
}
