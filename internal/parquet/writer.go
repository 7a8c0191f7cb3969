package parquet

import (
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock/penstock/internal/fault"
)

// WriterGroupRows is the number of rows in the row groups of a Writer.
const WriterGroupRows = 128 << 10

// Writer writes batches to a Parquet file, compressed with Zstandard and including the
// Arrow schema. It holds one row group in memory.
type Writer struct{ to *pqarrow.FileWriter }

// NewWriter starts a file. It returns Invalid for columns of a type that Parquet lacks,
// or that this version does not write. The caller closes the Writer; w stays open.
func NewWriter(w io.Writer, schema *arrow.Schema) (*Writer, error) {
	out, err := pqarrow.NewFileWriter(schema, struct{ io.Writer }{w},
		parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithMaxRowGroupLength(WriterGroupRows)),
		pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		return nil, fault.New(fault.Invalid, "the columns cannot be written as Parquet: %w", err).
			WithRemedy("leave out or cast the named columns, or use another format")
	}
	return &Writer{to: out}, nil
}

// Write appends a batch.
func (w *Writer) Write(batch arrow.RecordBatch) error { return w.to.WriteBuffered(batch) }

// Close writes the remaining rows and the footer. Without it the file is not valid.
func (w *Writer) Close() error { return w.to.Close() }
