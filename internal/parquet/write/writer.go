package write

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/chunk"
)

// DataWriter writes one data file. It is not safe for concurrent use.
type DataWriter struct {
	opts     Options
	columns  []*fieldNode
	base     Base // nil: the file has no columns of another file
	sorting  []parquet.SortingColumn
	file     *chunk.Assembler
	settings []setting        // setting of each column; nil until the settings are chosen
	first    rows             // the rows that are held back until the settings are chosen
	group    []*columnEncoder // encoders of the open row group; nil if no row group is open
	open     int64            // number of rows of the open row group
	rows     int64
	reserved int64
	err      error // the first error: the file is not complete
}

// rows are conformed columns, batch after batch.
type rows struct {
	batches [][]arrow.ArrayData // the columns of each batch
	count   int64
	bytes   int64
}

// New starts a file. It returns Invalid for columns of a type that Iceberg lacks. The caller must
// call Release, even after Close.
func New(ctx context.Context, to chunk.Destination, opts Options) (*DataWriter, error) {
	return AddTo(ctx, to, nil, opts)
}

// AddTo starts a file that has the columns of base first, followed by the columns of the options.
// The file has the same row groups as base, with the same declared order, so the caller must write
// exactly as many rows as base has. The description of the file has metrics only for the new
// columns. With a nil base, AddTo does the same as New.
func AddTo(ctx context.Context, to chunk.Destination, base Base, opts Options) (*DataWriter, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	columns, err := newNodes(opts)
	if err != nil {
		return nil, err
	}
	w := &DataWriter{opts: opts, columns: columns, base: base}
	layout := chunk.FooterFields{CreatedBy: createdBy}
	var fields schema.FieldList
	if base != nil {
		layout, fields = base.Layout()
	} else if w.sorting, err = w.sortingColumns(); err != nil {
		return nil, err
	}
	if layout.Schema, err = parquetSchema(fields, columns, opts.Schema); err != nil {
		return nil, fault.New(fault.Invalid, "the columns cannot be written as Parquet: %w", err)
	}
	w.file, err = chunk.New(ctx, to, layout)
	return w, err
}

// Base is a file whose columns a DataWriter copies.
type Base interface {
	// Layout returns the fields of the footer that come from the base, without a schema, and the
	// base's top-level fields. No new column may have the name or id of one of these fields.
	Layout() (chunk.FooterFields, schema.FieldList)
	// Rows returns the number of rows of each row group. Each number is above 0.
	Rows() []int64
	// Held returns the bytes of memory that Group needs for a row group.
	Held(group int) int64
	// Group returns the chunks of a row group and the order that it declares.
	Group(ctx context.Context, group int) ([]chunk.EncodedChunk, []parquet.SortingColumn, error)
}

// leaves returns the primitive fields in the order of the file.
func (w *DataWriter) leaves() (out []*fieldNode) {
	for _, c := range w.columns {
		out = c.leaves(out)
	}
	return out
}

func (w *DataWriter) sortingColumns() ([]parquet.SortingColumn, error) {
	var out []parquet.SortingColumn
	var inList []bool
	for _, c := range w.columns {
		inList = c.inLists(false, inList)
	}
	for _, s := range w.opts.Sorting {
		found := false
		for i, l := range w.leaves() {
			if l.id == s.FieldID && !inList[i] {
				out, found = append(out, parquet.SortingColumn{ColumnIdx: int32(i), Descending: s.Descending, NullsFirst: s.NullsFirst}), true
			}
		}
		if !found {
			return nil, fault.New(fault.Invalid, "the file has no primitive column with field id %d to be sorted by, outside lists and maps", s.FieldID)
		}
	}
	return out, nil
}

// Bytes returns the compressed size of the pages that are finished so far. The file will be larger
// by the pages that are being filled and by its footer. While rows are held back, their size is not
// included.
func (w *DataWriter) Bytes() int64 {
	size := w.file.Bytes() + w.file.Held()
	for _, e := range w.group {
		size += e.stored()
	}
	return size
}

// Write adds a batch with the columns of the schema, by position. The batch may be retained until the
// encodings are chosen.
func (w *DataWriter) Write(ctx context.Context, b arrow.RecordBatch) error {
	if w.err == nil {
		w.err = w.take(ctx, b)
	}
	return w.err
}

func (w *DataWriter) take(ctx context.Context, b arrow.RecordBatch) error {
	if int(b.NumCols()) != len(w.columns) {
		return fault.New(fault.Invalid, "a batch has %d columns, the file %d", b.NumCols(), len(w.columns))
	}
	size := batch.Size(b)
	if err := w.reserve(w.held() + 2*size); err != nil {
		return err
	}
	columns := make([]arrow.ArrayData, len(w.columns))
	defer batch.ReleaseAll(columns...)
	for i, n := range w.columns {
		var err error
		if columns[i], err = n.conform(b.Column(i)); err != nil {
			return err
		}
		if err := n.observe(columns[i], 0); err != nil {
			return err
		}
	}
	w.rows += b.NumRows()
	if w.settings == nil && w.first.count == 0 {
		w.settings = w.opts.Choice.made()
	}
	if w.settings != nil {
		return w.encode(ctx, columns, b.NumRows())
	}
	for _, c := range columns {
		c.Retain()
	}
	w.first.batches = append(w.first.batches, append([]arrow.ArrayData{}, columns...))
	w.first.count, w.first.bytes = w.first.count+b.NumRows(), w.first.bytes+2*size
	if w.first.count < w.opts.PageRows && w.first.bytes < sampleBytes {
		return w.reserve(w.held())
	}
	return w.start(ctx)
}

// start chooses the encodings and encodes the rows that are held back.
func (w *DataWriter) start(ctx context.Context) error {
	if err := w.reserve(w.held() + w.sampleMemory()); err != nil {
		return err
	}
	settings, err := w.choose()
	if err != nil {
		return err
	}
	w.settings = settings
	w.opts.Choice.keep(settings, w.first.count)
	first := w.first.batches
	for i, columns := range first {
		err := w.encode(ctx, columns, int64(columns[0].Len()))
		batch.ReleaseAll(columns...)
		w.first.batches = first[i+1:]
		if err != nil {
			return err
		}
	}
	w.first = rows{}
	return w.reserve(w.held())
}

// sampleMemory returns the memory that measuring the sample takes: the memory for the largest
// column, multiplied by the number of columns that are encoded at the same time.
func (w *DataWriter) sampleMemory() (most int64) {
	for i, c := range w.columns {
		leaves := int64(len(c.leaves(nil)))
		size, left := leaves*encoderBytes, w.opts.PageRows
		for _, b := range w.first.batches {
			n := min(int64(b[i].Len()), left)
			size += 6 * leaves * rowBytes(b[i], 0, int(n))
			left -= n
		}
		most = max(most, size)
	}
	return most * int64(w.opts.Parallel)
}

// each calls do with the numbers 0 to n-1, with up to Parallel calls at the same time.
func (w *DataWriter) each(n int, do func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(w.opts.Parallel)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}

// held returns the bytes of memory in use.
func (w *DataWriter) held() int64 {
	held := w.first.bytes + w.file.Held()
	for _, e := range w.group {
		if e != nil {
			held += e.held()
		}
	}
	return held
}

// reserve sets the reservation to n bytes.
func (w *DataWriter) reserve(n int64) error {
	if n > w.reserved {
		if err := w.opts.Memory.Grow(n - w.reserved); err != nil {
			return fault.Op(err, "encode rows as Parquet")
		}
	} else {
		w.opts.Memory.Shrink(w.reserved - n)
	}
	w.reserved = n
	return nil
}

// Close writes the remaining rows and the footer, and describes the file. A file without rows has
// no row groups.
func (w *DataWriter) Close(ctx context.Context) (WrittenFile, error) {
	if w.err != nil {
		return WrittenFile{}, w.err
	}
	out, err := w.finish(ctx)
	w.err = err
	if err == nil {
		w.err = fault.New(fault.Internal, "the Parquet file is closed")
	}
	return out, err
}

func (w *DataWriter) finish(ctx context.Context) (WrittenFile, error) {
	if w.settings == nil && w.first.count > 0 {
		if err := w.start(ctx); err != nil {
			return WrittenFile{}, err
		}
	}
	if w.base != nil && (w.open > 0 || len(w.file.Splits()) < len(w.base.Rows())) {
		return WrittenFile{}, fault.New(fault.Invalid, "the new columns have %d rows, fewer than the file", w.rows).
			WithRemedy("write exactly one row for each row of the file, in its order")
	}
	if w.open > 0 {
		if err := w.endGroup(ctx); err != nil {
			return WrittenFile{}, err
		}
	}
	footer, err := w.file.Close(ctx)
	if err != nil {
		return WrittenFile{}, err
	}
	return w.describe(footer), nil
}

// Release frees the memory of the DataWriter.
func (w *DataWriter) Release() {
	for _, columns := range w.first.batches {
		batch.ReleaseAll(columns...)
	}
	w.first, w.group = rows{}, nil
	if w.reserved > 0 {
		w.opts.Memory.Shrink(w.reserved)
		w.reserved = 0
	}
}
