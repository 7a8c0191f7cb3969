package joiner

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// Input is a stream that the joiner opens itself, so that a failure to open
// one of several leaks none of the others.
type Input struct {
	// Open starts the stream. The joiner releases what it returns.
	Open func(ctx context.Context) (array.RecordReader, error)
	// Key holds the positions of the key columns in the stream's schema, in
	// the order of those of the stream that it is joined with. Of the training
	// stream it is not looked at: each Probe has its own.
	Key []int
	// Columns holds the positions of the columns that go on into the result,
	// in its order. Key columns go on only if they stand here.
	Columns []int
	// File names the file of a row, counted from 0 in the order in which the
	// stream gave its rows. It is asked only while the stream is open or was
	// read whole, for errors; nil is a stream whose files have no names. Of
	// staging rows it may be asked from several goroutines at once, for as long
	// as the build side lives.
	File func(row int64) string
}

// ReadAll reads the stream from its beginning to its end: it shows its schema
// to begin, then each batch that has rows to see, which only borrows it, and
// releases the stream. A batch that is not what the schema says is an error. A
// nil error means that the stream was seen whole: one that stops because ctx
// was cancelled, and does not say so, does not pass for one that ended.
func (in Input) ReadAll(ctx context.Context, begin func(*arrow.Schema) error, see func(arrow.RecordBatch) error) error {
	reader, err := in.open(ctx)
	if err != nil {
		return err
	}
	defer reader.Release()
	schema := reader.Schema()
	if err := begin(schema); err != nil {
		return err
	}
	for ctx.Err() == nil && reader.Next() {
		b := reader.RecordBatch()
		if b.NumRows() == 0 {
			continue
		}
		if err := checkTypes(schema, b); err != nil {
			return err
		}
		if err := see(b); err != nil {
			return err
		}
	}
	return ended(ctx, reader)
}

// open opens the stream, which is guarded in invariant builds.
func (in Input) open(ctx context.Context) (array.RecordReader, error) {
	reader, err := in.Open(ctx)
	if err != nil {
		return nil, err
	}
	if reader == nil {
		return nil, fault.New(fault.Internal, "an input that opened has no stream")
	}
	return batch.Guard(reader), nil
}

// ended returns why a stream that gives no more batches does not: nil is its
// true end.
func ended(ctx context.Context, reader array.RecordReader) error {
	if err := reader.Err(); err != nil {
		return err
	}
	return ctx.Err()
}

// file names the file of a row, or "".
func (in Input) file(row int64) string {
	if in.File == nil {
		return ""
	}
	return in.File(row)
}

// checkTypes holds a batch to its stream's schema: keys are read by it.
func checkTypes(schema *arrow.Schema, record arrow.RecordBatch) error {
	if record.Schema() == schema {
		return nil
	}
	if int(record.NumCols()) != schema.NumFields() {
		return fault.New(fault.Internal, "a batch of %d columns in a stream of %d", record.NumCols(), schema.NumFields())
	}
	for i, c := range record.Columns() {
		if f := schema.Field(i); !arrow.TypeEqual(f.Type, c.DataType()) {
			return fault.New(fault.Internal, "column %s is %s in a stream where it is %s", f.Name, c.DataType(), f.Type)
		}
	}
	return nil
}

// fieldsAt returns a schema's fields at positions.
func fieldsAt(schema *arrow.Schema, at []int) ([]arrow.Field, error) {
	fields := make([]arrow.Field, len(at))
	for i, p := range at {
		if p < 0 || p >= schema.NumFields() {
			return nil, fault.New(fault.Internal, "position %d in a stream of %d columns", p, schema.NumFields())
		}
		fields[i] = schema.Field(p)
	}
	return fields, nil
}
