package joiner

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// Input is a stream that the joiner opens itself, so that no stream leaks if
// another one fails to open.
type Input struct {
	// Open starts the stream. The joiner releases it.
	Open func(ctx context.Context) (array.RecordReader, error)
	// Key holds the positions of the key columns in the stream's schema, in the
	// order of the key columns that they are joined with. It is ignored for the
	// training stream: each Probe has its own.
	Key []int
	// Columns holds the positions of the columns of the result, in its order. It
	// includes key columns only if the result has them.
	Columns []int
	// File returns the file of a row, for errors; rows are counted from 0 in the
	// order of the stream. It is called only while the stream is open or after it
	// was read to its end. For staging rows it may be called concurrently for as
	// long as the build side lives. Nil: files have no names.
	File func(row int64) string
}

// ReadAll reads the whole stream and releases it. It calls begin with the schema,
// and then see with each batch that has rows; see borrows the batch. A batch that
// does not have the stream's schema is an error, except that texts and binary values of
// Columns, if they are in no Key, may be coded (package batch). A nil error means that the whole
// stream was read: if ctx ended and the stream reported no error, its error is ctx's.
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
		if err := in.checkTypes(schema, b); err != nil {
			return err
		}
		if err := see(b); err != nil {
			return err
		}
	}
	return ended(ctx, reader)
}

// open opens the stream, guarded in builds with invariants.
func (in Input) open(ctx context.Context) (array.RecordReader, error) {
	reader, err := in.Open(ctx)
	if err != nil {
		return nil, err
	}
	if reader == nil {
		return nil, fault.New(fault.Internal, "Open returned no stream")
	}
	return batch.Guard(reader), nil
}

// ended returns the error of a stream whose Next returned false; nil if it was read
// to its end.
func ended(ctx context.Context, reader array.RecordReader) error {
	if err := reader.Err(); err != nil {
		return err
	}
	return ctx.Err()
}

// file returns the file of a row, or "".
func (in Input) file(row int64) string {
	if in.File == nil {
		return ""
	}
	return in.File(row)
}

// checkTypes checks a batch against its stream's schema, by which keys are read.
func (in Input) checkTypes(schema *arrow.Schema, record arrow.RecordBatch) error {
	if record.Schema() == schema {
		return nil
	}
	if int(record.NumCols()) != schema.NumFields() {
		return fault.New(fault.Internal, "a batch has %d columns and its stream has %d", record.NumCols(), schema.NumFields())
	}
	for i, c := range record.Columns() {
		dt := c.DataType()
		if slices.Contains(in.Columns, i) && !slices.Contains(in.Key, i) {
			dt = batch.ValueType(dt)
		}
		if f := schema.Field(i); !arrow.TypeEqual(f.Type, dt) {
			return fault.New(fault.Internal, "column %s is %s and its stream says %s", f.Name, dt, f.Type)
		}
	}
	return nil
}

// fieldsAt returns the fields of a schema at positions.
func fieldsAt(schema *arrow.Schema, at []int) ([]arrow.Field, error) {
	fields := make([]arrow.Field, len(at))
	for i, p := range at {
		if p < 0 || p >= schema.NumFields() {
			return nil, fault.New(fault.Internal, "position %d is not in a stream of %d columns", p, schema.NumFields())
		}
		fields[i] = schema.Field(p)
	}
	return fields, nil
}
