// Package records reads Parquet files of any program as Arrow batches, one file after the other: the
// input of what is written to tables. The rows of tables are read by package parquet.
package records

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// Bounds of what is in memory: rows of a batch, bytes of a batch to aim at, the buffer that a column is
// read through, and what a column is taken to need for its pages.
const (
	maxRows     = 8192
	batchBytes  = 4 << 20
	readBuffer  = 64 << 10
	columnPages = 3 << 20
)

// FileInput reads a list of files.
type FileInput struct {
	ctx    context.Context //nolint:containedctx // a reader holds the context of its stream
	paths  []string
	schema *arrow.Schema
	budget *budget.Budget
	open   *openFile
	held   *budget.Reservation // of the open file and the last batch
	bytes  int64               // of the last batch
}

// openFile is the file that is read.
type openFile struct {
	path    string
	parquet *file.Reader
	rows    pqarrow.RecordReader
	columns []int // of the file, in the order of the schema
}

// Open returns a reader of all rows of some local files, in their order. All files have the columns of the
// first one, in any order. The memory of the reader is charged to the budget, which may be nil.
//
// Errors: NotFound and Unavailable for a file that cannot be opened, Invalid for one that is not Parquet or
// has other columns, Corrupt for one that cannot be decoded.
func Open(ctx context.Context, paths []string, limit *budget.Budget) (array.RecordReader, error) {
	if len(paths) == 0 {
		return nil, fault.New(fault.Invalid, "there are no files to read")
	}
	held, err := limit.Reserve("Parquet files to stage", 0)
	if err != nil {
		return nil, err
	}
	r := &FileInput{ctx: ctx, paths: paths, budget: limit, held: held}
	if err := r.next(); err != nil {
		r.close()
		return nil, err
	}
	return batch.FromFunc(r.schema, r.batch, r.close), nil
}

// close closes the open file.
func (r *FileInput) close() {
	r.end()
	r.held.Release()
}

func (r *FileInput) end() {
	if r.open == nil {
		return
	}
	if r.open.rows != nil {
		r.open.rows.Release()
	}
	_ = r.open.parquet.Close()
	r.open = nil
	r.held.Shrink(r.held.Held())
	r.bytes = 0
}

// next opens the next file.
func (r *FileInput) next() error {
	path := r.paths[0]
	r.paths = r.paths[1:]
	f, err := os.Open(path) //nolint:gosec // the user's own file
	if err != nil {
		kind := fault.Unavailable
		if errors.Is(err, os.ErrNotExist) {
			kind = fault.NotFound
		}
		return fault.New(kind, "%w", err).In("", path).WithRemedy("check the name of the file")
	}
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	props.BufferedStreamEnabled, props.BufferSize = true, readBuffer
	reader, err := file.NewParquetReader(f, file.WithReadProps(props))
	if err != nil {
		return errors.Join(fault.New(fault.Invalid, "%s cannot be read as a Parquet file: %w", path, err).In("", path).
			WithRemedy("write the rows as Parquet"), f.Close())
	}
	r.open = &openFile{path: path, parquet: reader}
	if err := r.held.GrowWait(r.ctx, pages(reader)); err != nil {
		return err
	}
	return r.begin(reader)
}

// pages returns the bytes that reading a file takes, without its batches.
func pages(reader *file.Reader) int64 {
	needed := int64(0)
	meta := reader.MetaData()
	for i := range meta.NumRowGroups() {
		group, bytes := meta.RowGroup(i), int64(0)
		for c := range group.NumColumns() {
			size := int64(columnPages)
			if chunk, err := group.ColumnChunk(c); err == nil {
				size = min(size, chunk.TotalUncompressedSize())
			}
			bytes += readBuffer + size
		}
		needed = max(needed, bytes)
	}
	return needed
}

// batchRows returns the rows of a batch of a file.
func batchRows(reader *file.Reader) int64 {
	meta, bytes := reader.MetaData(), int64(0)
	for i := range meta.NumRowGroups() {
		bytes += meta.RowGroup(i).TotalByteSize()
	}
	rows := max(meta.NumRows, 1)
	return min(maxRows, max(1, batchBytes/max(bytes/rows, 1)))
}

// begin matches the columns of the open file to the schema, which the first file decides.
func (r *FileInput) begin(reader *file.Reader) error {
	rows, err := pqarrow.NewFileReader(reader, pqarrow.ArrowReadProperties{BatchSize: batchRows(reader)}, memory.DefaultAllocator)
	if err != nil {
		return r.unreadable(err)
	}
	schema, err := rows.Schema()
	if err != nil {
		return r.unreadable(err)
	}
	if r.schema == nil {
		r.schema = schema
	}
	if err := r.match(schema); err != nil {
		return err
	}
	if r.open.rows, err = rows.GetRecordReader(r.ctx, nil, nil); err != nil {
		return r.unreadable(err)
	}
	return nil
}

// match finds the columns of the schema in a file.
func (r *FileInput) match(schema *arrow.Schema) error {
	differs := func(format string, args ...any) error {
		return fault.As(fault.New(fault.Invalid, format, args...).In("", r.open.path)).WithRemedy("stage files with other columns by a call of their own")
	}
	if schema.NumFields() != r.schema.NumFields() {
		return differs("%s has %s, the first file %d", r.open.path, fault.Count(schema.NumFields(), "column"), r.schema.NumFields())
	}
	r.open.columns = nil
	for i, f := range r.schema.Fields() {
		at := i
		if schema.Field(i).Name != f.Name {
			found := schema.FieldIndices(f.Name)
			if len(found) != 1 {
				return differs("%s does not have column %q of the first file", r.open.path, f.Name)
			}
			at = found[0]
		}
		if have := schema.Field(at).Type; !arrow.TypeEqual(have, f.Type) {
			return differs("column %q of %s has type %s, and in the first file %s", f.Name, r.open.path, have, f.Type)
		}
		r.open.columns = append(r.open.columns, at)
	}
	return nil
}

func (r *FileInput) unreadable(err error) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return fault.New(fault.Corrupt, "%s cannot be decoded: %w", r.open.path, err).In("", r.open.path).WithRemedy("write the file again")
}

// batch returns the next batch; nil is the end.
func (r *FileInput) batch() (_ arrow.RecordBatch, err error) {
	for {
		if r.ctx.Err() != nil {
			return nil, context.Cause(r.ctx)
		}
		b, err := r.open.rows.Read()
		switch {
		case errors.Is(err, io.EOF) && len(r.paths) == 0:
			return nil, nil //nolint:nilnil // the end, as batch.FromFunc defines it
		case errors.Is(err, io.EOF):
			r.end()
			if err := r.next(); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, r.unreadable(err)
		}
		if err := r.charge(b); err != nil {
			return nil, err
		}
		columns := make([]arrow.Array, len(r.open.columns))
		for i, at := range r.open.columns {
			columns[i] = b.Column(at)
		}
		return array.NewRecordBatch(r.schema, columns, b.NumRows()), nil
	}
}

// charge charges a batch instead of the one before, which its reader has released.
func (r *FileInput) charge(b arrow.RecordBatch) error {
	bytes := batch.Size(b)
	if err := r.held.GrowWait(r.ctx, bytes); err != nil {
		return err
	}
	r.held.Shrink(r.bytes)
	r.bytes = bytes
	return nil
}
