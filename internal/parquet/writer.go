package parquet

import (
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock/penstock/internal/fault"
)

// writtenGroup is how many rows a row group has that a Writer writes.
const writtenGroup = 128 << 10

// Writer writes batches as one Parquet file, compressed with Zstandard, with the Arrow
// schema. It holds one row group.
type Writer struct{ to *pqarrow.FileWriter }

// NewWriter begins a file. Columns of a type that Parquet does not have, or this version
// does not write, are Invalid. The caller closes the writer; w stays open.
func NewWriter(w io.Writer, schema *arrow.Schema) (*Writer, error) {
	out, err := pqarrow.NewFileWriter(schema, struct{ io.Writer }{w},
		parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithMaxRowGroupLength(writtenGroup)),
		pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		return nil, fault.New(fault.Invalid, "the columns cannot be written as Parquet: %w", err).
			WithRemedy("leave out or cast the columns that are named, or take another format")
	}
	return &Writer{to: out}, nil
}

// Write appends a batch.
func (w *Writer) Write(batch arrow.RecordBatch) error { return w.to.WriteBuffered(batch) }

// Close writes what is left, and the footer: before that there is no file.
func (w *Writer) Close() error { return w.to.Close() }
