package inputs

import (
	"context"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/parquet/foreign"
)

// opener is a function that opens a file and returns a reader of its rows. The caller releases the
// reader.
type opener func(ctx context.Context, f File) (array.RecordReader, error)

// sequence reads files one after the other.
type sequence struct {
	array.RecordReader
	files   []File
	open    opener
	current array.RecordReader // nil before the first file and after the last
	schema  *arrow.Schema
	columns []int // for each column of the schema, its index in the current file
	number  int   // the index of the current file
}

// inSequence returns the rows of files, one file after the other. All files must have the columns
// of the first file.
func inSequence(ctx context.Context, files []File, open opener) (fileRows, error) {
	s := &sequence{files: files, open: open, number: -1}
	if err := s.next(ctx); err != nil {
		return nil, err
	}
	s.RecordReader = batch.FromFuncContext(ctx, s.schema, s.batch, s.close)
	return s, nil
}

// File implements fileRows.
func (s *sequence) File() int { return s.number }

func (s *sequence) close() {
	if s.current != nil {
		s.current.Release()
		s.current = nil
	}
}

// next opens the next file. It returns io.EOF if there is no next file.
func (s *sequence) next(ctx context.Context) (err error) {
	s.close()
	if s.number++; s.number == len(s.files) {
		return io.EOF
	}
	f := s.files[s.number]
	if s.current, err = s.open(ctx, f); err != nil {
		s.current = nil
		return err
	}
	if s.schema == nil {
		s.schema = s.current.Schema()
	}
	if s.columns, err = foreign.MatchColumns(s.schema, s.current.Schema(), f.Name); err != nil {
		s.close()
	}
	return err
}

// batch returns the next batch, or nil at the end.
func (s *sequence) batch(ctx context.Context) (arrow.RecordBatch, error) {
	for !s.current.Next() {
		if err := s.current.Err(); err != nil {
			return nil, err
		}
		if err := s.next(ctx); err == io.EOF { //nolint:errorlint // next returns io.EOF unwrapped
			return nil, nil //nolint:nilnil // the end, as batch.FromFunc defines it
		} else if err != nil {
			return nil, err
		}
	}
	return foreign.Arrange(s.schema, s.current.RecordBatch(), s.columns), nil
}
