// Package parquettest writes Parquet files for tests.
package parquettest

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// Codec is a compression of pages.
type Codec int

// The codecs of Write.
const (
	Zstd Codec = iota
	Snappy
	LZ4
	Gzip
	Uncompressed
	HadoopLZ4
)

func (c Codec) codec() compress.Compression {
	known := compress.Codecs
	return [...]compress.Compression{known.Zstd, known.Snappy, known.Lz4Raw, known.Gzip, known.Uncompressed, known.Lz4}[c]
}

// defaultRowGroupRows is Iceberg's usual limit.
const defaultRowGroupRows = 1 << 20

// Options are the options of Write. The zero value writes files like those of other
// engines.
type Options struct {
	// FieldIDs are the Iceberg field ids of the top-level columns; ids of nested fields
	// follow the largest. Nil uses the ids in the schema's PARQUET:field_id metadata, if
	// there are any.
	FieldIDs []int
	// Codec compresses pages; the default is Zstd.
	Codec Codec
	// RowGroupRows is the maximum number of rows of a row group; 0 means 1,048,576.
	RowGroupRows int64
	// PageBytes is the approximate uncompressed size of data pages; 0 means 1 MiB.
	PageBytes int64
	// Plain disables dictionaries.
	Plain bool
	// PageV2 writes version 2 data pages.
	PageV2 bool
	// PageIndex writes column and offset indexes.
	PageIndex bool
	// DecimalAsInteger stores decimals of up to 18 digits as integers, as Spark does.
	DecimalAsInteger bool
	// Encoding is the encoding of all values, and disables dictionaries. With 0, values are
	// dictionary-encoded unless Plain is set, and plain once a dictionary becomes too large.
	Encoding parquet.Encoding
	// NoStatistics omits minima, maxima and null counts.
	NoStatistics bool
	// CreatedBy is the name of the writer in the file; "" means arrow-go's.
	CreatedBy string
	// Memory allocates buffers and need not clear them; nil means Go memory.
	Memory memory.Allocator
}

// Write writes all batches of a reader to a Parquet file. Row groups do not depend on the
// lengths of the batches. The caller releases the reader and closes w.
func Write(w io.Writer, batches array.RecordReader, opts Options) error {
	sc, err := numbered(batches.Schema(), opts.FieldIDs)
	if err != nil {
		return err
	}
	out, err := pqarrow.NewFileWriter(sc, open{w}, opts.properties(), pqarrow.NewArrowWriterProperties(pqarrow.WithAllocator(opts.memory())))
	if err != nil {
		return err
	}
	for batches.Next() {
		batch := array.NewRecordBatch(sc, batches.RecordBatch().Columns(), batches.RecordBatch().NumRows())
		err := out.WriteBuffered(batch)
		batch.Release()
		if err != nil {
			return err
		}
	}
	return errors.Join(batches.Err(), out.Close())
}

func (o Options) memory() memory.Allocator {
	if o.Memory == nil {
		return memory.DefaultAllocator
	}
	return o.Memory
}

func (o Options) properties() *parquet.WriterProperties {
	rows := o.RowGroupRows
	if rows <= 0 {
		rows = defaultRowGroupRows
	}
	props := []parquet.WriterProperty{
		parquet.WithAllocator(o.memory()),
		parquet.WithCompression(o.Codec.codec()),
		parquet.WithMaxRowGroupLength(rows),
		parquet.WithDictionaryDefault(!o.Plain),
		parquet.WithPageIndexEnabled(o.PageIndex),
		parquet.WithStoreDecimalAsInteger(o.DecimalAsInteger),
		parquet.WithStats(!o.NoStatistics),
		parquet.WithVersion(parquet.V2_LATEST),
	}
	if o.PageBytes > 0 {
		props = append(props, parquet.WithDataPageSize(o.PageBytes))
	}
	if o.PageV2 {
		props = append(props, parquet.WithDataPageVersion(parquet.DataPageV2))
	}
	if o.Encoding != parquet.Encodings.Plain {
		props = append(props, parquet.WithDictionaryDefault(false), parquet.WithEncoding(o.Encoding))
	}
	if o.CreatedBy != "" {
		props = append(props, parquet.WithCreatedBy(o.CreatedBy))
	}
	return parquet.NewWriterProperties(props...)
}

// open hides the Close method of a writer.
type open struct{ io.Writer }

// fieldIDKey is the metadata key of field ids in arrow-go's schemas.
const fieldIDKey = "PARQUET:field_id"

// numbered returns a schema with field ids; those of nested fields follow the largest.
func numbered(sc *arrow.Schema, ids []int) (*arrow.Schema, error) {
	if ids == nil {
		return sc, nil
	}
	if len(ids) != sc.NumFields() {
		return nil, fmt.Errorf("%d field ids are given for %d columns", len(ids), sc.NumFields())
	}
	next := 0
	for _, id := range ids {
		next = max(next, id+1)
	}
	fields := make([]arrow.Field, len(ids))
	for i, id := range ids {
		fields[i] = withID(sc.Field(i), id, &next)
	}
	return arrow.NewSchema(fields, nil), nil
}

func withID(f arrow.Field, id int, next *int) arrow.Field {
	nested := func(f arrow.Field) arrow.Field {
		*next++
		return withID(f, *next-1, next)
	}
	f.Metadata = arrow.NewMetadata([]string{fieldIDKey}, []string{strconv.Itoa(id)})
	switch t := f.Type.(type) {
	case *arrow.ListType:
		f.Type = arrow.ListOfField(nested(t.ElemField()))
	case *arrow.MapType:
		f.Type = arrow.MapOfFields(nested(t.KeyField()), nested(t.ItemField()))
	case *arrow.StructType:
		fields := make([]arrow.Field, t.NumFields())
		for i := range fields {
			fields[i] = nested(t.Field(i))
		}
		f.Type = arrow.StructOf(fields...)
	}
	return f
}
