// Package foreign reads Parquet files of any program as Arrow batches, one file after the other: the
// input of commands that write to tables. The rows of tables are read by package parquet. Files are local unless Options.Open
// opens them.
package foreign

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	ownparquet "github.com/penstock/penstock/internal/parquet"
)

// Bounds of the memory in use: the maximum rows of a batch (maxRows), the bytes of a batch to aim
// at (batchBytes), the maximum bytes of a batch of several rows (maxBytes, maxShare), the size of
// the buffer through which a column is read (readBuffer), the estimated memory for the pages of a
// column (columnPages), and the maximum memory for reading ahead (aheadShare, maxAhead).
const (
	maxRows     = 8192
	batchBytes  = 4 << 20
	maxBytes    = 8 * batchBytes
	maxShare    = 8 // a batch of several rows may take at most 1/maxShare of the budget
	readBuffer  = 64 << 10
	columnPages = 3 << 20
	aheadShare  = 16 // row groups that are read ahead may take at most 1/aheadShare of the budget
	maxAhead    = 256 << 20
)

// Options configure a reader. The zero value has no limit and reads nothing ahead.
type Options struct {
	Budget *budget.Budget // nil is unlimited
	// Threads is the number of row groups that are read at the same time; 0 means 1.
	Threads int
	// Open opens a file. Its errors name the file. Nil opens local files.
	Open func(ctx context.Context, path string) (Content, error)
	// ReadBuffer is the number of bytes that one read of a column requests; 0 means a size that
	// suits local disks.
	ReadBuffer int
	// Opened is called after a file was opened, with the number of its rows and the number of files
	// that are not open yet. It may be nil.
	Opened func(rows int64, left int)
}

// Content is an open file. Its reads may overlap.
type Content interface {
	io.ReaderAt
	io.Closer
	// Size returns the length of the file in bytes.
	Size() int64
}

// Rows are the rows of some files.
type Rows struct {
	array.RecordReader
	input *FileInput
}

// File returns the index, among the paths, of the file that has the rows of the current batch. No
// batch has rows of two files.
func (r *Rows) File() int { return r.input.current }

// FileInput reads a list of files.
type FileInput struct {
	cancel  context.CancelFunc
	opts    Options
	paths   []string // files that are not open yet
	buffer  int64    // bytes that reading a column takes
	opened  int      // how many files were opened
	current int      // the number of the file of the last batch
	schema  *arrow.Schema
	open    *openFile   // the last file that was opened; nil: there is none
	queue   []*rowGroup // row groups that are being read, in order
	held    *budget.Reservation
	ahead   *aheadMemory
	most    int64        // maximum bytes of a batch of several rows
	last    decodedBatch // the batch that was returned last
	group   errgroup.Group
}

// openFile is a file that is read.
type openFile struct {
	path    string
	number  int // index among the paths
	buffer  int64
	parquet *file.Reader
	columns []int // positions of the columns in the file, in the order of the schema
	types   []arrow.DataType
	micros  *arrow.Schema // the file's schema, with microseconds for times that are stored as INT96; nil if there are no such times
	decoded *decodedFile  // nil if the library decodes the file
	started int           // number of row groups whose reading has started
	left    int           // number of row groups that are not read to their end
}

// Open returns a reader of all rows of some files, in their order. All files have the columns of the
// first one, in any order. The memory of the reader is charged to the budget. Several row groups are decoded
// at the same time, within a share of the budget.
//
// Errors: NotFound and Unavailable for a file that cannot be opened, Invalid for one that is not Parquet or
// has other columns, Corrupt for one that cannot be decoded.
func Open(ctx context.Context, paths []string, o Options) (*Rows, error) {
	if len(paths) == 0 {
		return nil, fault.New(fault.Invalid, "there are no files to read")
	}
	held, err := o.Budget.Reserve("Parquet files to stage", 0)
	if err != nil {
		return nil, err
	}
	o.Threads = max(o.Threads, 1)
	if o.ReadBuffer == 0 {
		o.ReadBuffer = readBuffer
	}
	buffers := 1
	if o.Open == nil {
		o.Open = openLocal
	} else {
		buffers = 2 // content that is not a local file may have a buffer for each read
	}
	r := &FileInput{opts: o, paths: paths, held: held, buffer: int64(buffers * o.ReadBuffer), ahead: &aheadMemory{limit: maxAhead}}
	r.most = maxBytes
	if limit := o.Budget.Limit(); limit >= 0 {
		r.ahead.limit, r.most = min(limit/aheadShare, maxAhead), min(limit/maxShare+1, maxBytes)
	}
	ctx, r.cancel = context.WithCancel(ctx)
	r.group.SetLimit(o.Threads)
	if r.open, err = r.next(ctx); err != nil {
		r.close()
		return nil, err
	}
	return &Rows{batch.FromFuncContext(ctx, r.schema, r.batch, r.close), r}, nil
}

// close ends all reading.
func (r *FileInput) close() {
	r.cancel()
	for _, g := range r.queue {
		for b := range g.batches {
			b.Release()
		}
	}
	_ = r.group.Wait()
	for _, g := range r.queue {
		g.of.close()
	}
	if r.open != nil {
		r.open.close()
	}
	r.queue, r.open = nil, nil
	if r.last.RecordBatch != nil {
		r.last.Release()
	}
	r.held.Release()
}

// close closes the file, which may be nil or closed.
func (o *openFile) close() {
	if o != nil && o.parquet != nil {
		_ = o.parquet.Close()
		o.parquet = nil
	}
}

// localFile is the content of a local file.
type localFile struct {
	*os.File
	size int64
}

// Size implements Content.
func (f localFile) Size() int64 { return f.size }

// openLocal opens a local file.
func openLocal(_ context.Context, path string) (Content, error) {
	f, err := os.Open(path) //nolint:gosec // the user names the file to read
	if err != nil {
		kind := fault.Unavailable
		if errors.Is(err, os.ErrNotExist) {
			kind = fault.NotFound
		}
		return nil, fault.New(kind, "%w", err).In("", path).WithRemedy("check the name of the file")
	}
	stat, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fault.New(fault.Unavailable, "%w", err).In("", path).WithRemedy("check the disk"), f.Close())
	}
	return localFile{f, stat.Size()}, nil
}

// parquetContent adapts a Content to the library's interface.
type parquetContent struct {
	*io.SectionReader
	io.Closer
}

// next opens the next file.
func (r *FileInput) next(ctx context.Context) (*openFile, error) {
	path := r.paths[0]
	r.paths = r.paths[1:]
	content, err := r.opts.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := ownparquet.CheckFooterOf(content, content.Size()); err != nil {
		return nil, errors.Join(refusal(path, content, err), content.Close())
	}
	props := parquet.NewReaderProperties(batch.Cleared())
	props.BufferedStreamEnabled, props.BufferSize = true, int64(r.opts.ReadBuffer)
	reader, err := file.NewParquetReader(parquetContent{io.NewSectionReader(content, 0, content.Size()), content}, file.WithReadProps(props))
	if err != nil {
		return nil, errors.Join(refusal(path, content, err), content.Close())
	}
	o := &openFile{path: path, number: r.opened, buffer: r.buffer, parquet: reader, left: reader.NumRowGroups()}
	r.opened++
	if err := r.begin(ctx, o, content); err != nil {
		o.close()
		return nil, err
	}
	if r.opts.Opened != nil {
		r.opts.Opened(reader.NumRows(), len(r.paths))
	}
	return o, nil
}

// begin matches the columns of a file to the schema. The first file determines the schema.
func (r *FileInput) begin(ctx context.Context, o *openFile, content Content) error {
	rows, err := pqarrow.NewFileReader(o.parquet, pqarrow.ArrowReadProperties{}, batch.Default())
	if err != nil {
		return o.unreadable(ctx, err)
	}
	schema, err := rows.Schema()
	if err != nil {
		return o.unreadable(ctx, err)
	}
	if micros := inMicros(schema, rows.Manifest, o.parquet.MetaData().Schema); micros != schema {
		schema, o.micros = micros, micros
	}
	if r.schema == nil {
		r.schema = schema
	}
	o.decoded = newDecodedFile(ctx, o.path, content, schema, r.opts.Budget)
	return r.match(o, schema)
}

// match finds the columns of the schema in a file.
func (r *FileInput) match(o *openFile, schema *arrow.Schema) (err error) {
	if o.columns, err = MatchColumns(r.schema, schema, o.path); err != nil {
		return err
	}
	o.types = nil
	for _, f := range r.schema.Fields() {
		o.types = append(o.types, f.Type)
	}
	return nil
}

// unreadable returns the error of a file that cannot be decoded.
func (o *openFile) unreadable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e := (*fault.Error)(nil); errors.As(err, &e) { // storage failed
		return e
	}
	return o.undecodable(err)
}

// undecodable returns the error of a file that is damaged.
func (o *openFile) undecodable(err error) error {
	remedy := "write the file again"
	if o.hasDeltas() {
		remedy += "; DuckDB's version 2 files may have deltas that no version of Arrow decodes: set PARQUET_VERSION v1"
	}
	return fault.New(fault.Corrupt, "%s cannot be decoded: %w", o.path, err).In("", o.path).WithRemedy("%s", remedy)
}

// hasDeltas reports whether a column of INT32 is encoded as deltas.
func (o *openFile) hasDeltas() bool {
	meta := o.parquet.MetaData()
	for g := range meta.NumRowGroups() {
		group := meta.RowGroup(g)
		for i := range group.NumColumns() {
			c, err := group.ColumnChunk(i)
			if err == nil && c.Type() == parquet.Types.Int32 && slices.Contains(c.Encodings(), parquet.Encodings.DeltaBinaryPacked) {
				return true
			}
		}
	}
	return false
}

// fill starts reading row groups, as many as may be read at the same time.
func (r *FileInput) fill(ctx context.Context) {
	for len(r.queue) < r.opts.Threads {
		g := r.nextGroup(ctx)
		if g == nil {
			return
		}
		r.queue = append(r.queue, g)
		r.group.Go(func() error {
			g.read(ctx, r.held)
			return nil
		})
	}
}

// nextGroup returns the next row group, or nil at the end. If the next file cannot be opened, it
// returns a rowGroup with that error.
func (r *FileInput) nextGroup(ctx context.Context) *rowGroup {
	g := &rowGroup{batches: make(chan decodedBatch, r.ahead.limit/batchBytes/int64(r.opts.Threads)), next: make(chan struct{}), ahead: r.ahead, most: r.most, stored: r.ahead.limit / int64(r.opts.Threads)}
	for r.open == nil || r.open.started == r.open.parquet.NumRowGroups() {
		if r.open != nil && r.open.left == 0 {
			r.open.close()
		}
		if r.open = nil; len(r.paths) == 0 {
			return nil
		}
		if r.open, g.err = r.next(ctx); g.err != nil {
			r.paths = nil
			return g
		}
	}
	g.of, g.number = r.open, r.open.started
	r.open.started++
	return g
}

// batch returns the next batch; nil is the end.
func (r *FileInput) batch(ctx context.Context) (arrow.RecordBatch, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if r.fill(ctx); len(r.queue) == 0 {
			return nil, nil //nolint:nilnil // the end, as batch.FromFunc defines it
		}
		g := r.queue[0]
		g.becomeNext()
		if b, ok := <-g.batches; ok {
			return r.turned(g.of, b), nil
		}
		if g.err != nil {
			return nil, g.err
		}
		r.queue = r.queue[1:]
		if g.of.left--; g.of.left == 0 && g.of != r.open {
			g.of.close()
		}
	}
}

// turned returns a batch with its columns in the order of the schema, and releases the previous
// batch.
func (r *FileInput) turned(of *openFile, b decodedBatch) arrow.RecordBatch {
	if r.last.RecordBatch != nil {
		r.last.Release()
		r.held.Shrink(r.last.bytes)
	}
	r.last, r.current = b, of.number
	return Arrange(r.schema, b, of.columns)
}
