package warehouse

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
)

// style is the settings of a writer.
type style struct {
	codec    compress.Compression
	pages    parquet.DataPageVersion
	plain    bool // write no dictionaries
	integers bool // write short decimals as integers, like Spark
	group    int64
	groups   bool // write statistics of row groups
	bare     bool // omit columns whose values are partition values, like Hive
	migrated bool // write no field ids, like writers without Iceberg
	facts    facts
}

func newStyle(r *rand.Rand) style {
	s := style{
		codec: compress.Codecs.Uncompressed, pages: parquet.DataPageV1, plain: r.IntN(2) == 0, integers: r.IntN(2) == 0, group: 3, groups: r.IntN(6) > 0, bare: r.IntN(3) == 0, migrated: r.IntN(4) == 0,
		facts: facts{none: r.IntN(6) == 0, counts: r.IntN(8) == 0, length: []int{2, 4, 16, 16}[r.IntN(4)]},
	}
	switch r.IntN(8) {
	case 0:
		s.codec = compress.Codecs.Zstd
	case 1, 2:
		s.codec = compress.Codecs.Snappy
	}
	if r.IntN(2) == 0 {
		s.pages = parquet.DataPageV2
	}
	if r.IntN(6) == 0 {
		s.group = 100
	}
	return s
}

// storedRows makes the columns of a file from the rows as they are to be read. The values of a
// replaced column come from before, the rows before the change. The values of a dropped column are
// made up.
func storedRows(all []physical, rows, before arrow.RecordBatch) (arrow.RecordBatch, error) {
	fields, values := make([]arrow.Field, len(all)), make([]arrow.Array, len(all))
	for i, p := range all {
		var err error
		switch {
		case p.from == gone:
			values[i] = numbers(int(rows.NumRows()))
		case p.was:
			values[i], err = relabelled(before.Column(p.from), p.arrow.Type)
		default:
			values[i], err = relabelled(rows.Column(p.from), p.arrow.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", p.Name, err)
		}
		fields[i] = p.arrow
		if _, ok := p.Type.(iceberg.UUIDType); ok {
			fields[i].Type = extensions.NewUUIDType()
			values[i] = array.NewExtensionArrayWithStorage(extensions.NewUUIDType(), values[i])
		}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), values, rows.NumRows()), nil
}

// numbers returns values of a dropped column, which is no longer read.
func numbers(n int) arrow.Array {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	for i := range n {
		b.Append(int64(1000 + i))
	}
	return b.NewArray()
}

// relabelled converts values to the type in a file: a type from which the column was promoted, or
// the same type with field ids inside.
func relabelled(values arrow.Array, t arrow.DataType) (arrow.Array, error) {
	if values.DataType().ID() == t.ID() && arrow.IsNested(t.ID()) {
		return array.MakeFromData(withType(values.Data(), t)), nil
	}
	if arrow.TypeEqual(values.DataType(), t) {
		values.Retain()
		return values, nil
	}
	return compute.CastArray(context.Background(), values, compute.SafeCastOptions(t))
}

// withType returns an array's data with another type of the same shape.
func withType(data arrow.ArrayData, t arrow.DataType) arrow.ArrayData {
	children := make([]arrow.ArrayData, len(data.Children()))
	nested, _ := t.(arrow.NestedType)
	for i, child := range data.Children() {
		children[i] = child
		if nested != nil {
			children[i] = withType(child, nested.Fields()[i].Type)
		}
	}
	return array.NewData(t, data.Len(), data.Buffers(), children, data.NullN(), data.Offset())
}

// write encodes rows as a Parquet file.
func (s style) write(rows arrow.RecordBatch) ([]byte, error) {
	var out bytes.Buffer
	properties := parquet.NewWriterProperties(
		parquet.WithCompression(s.codec), parquet.WithDataPageVersion(s.pages), parquet.WithDictionaryDefault(!s.plain),
		parquet.WithMaxRowGroupLength(s.group), parquet.WithStats(s.groups), parquet.WithStoreDecimalAsInteger(s.integers),
		parquet.WithVersion(parquet.V2_LATEST), parquet.WithBatchSize(16),
	)
	w, err := pqarrow.NewFileWriter(rows.Schema(), &out, properties, pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, err
	}
	if err := w.Write(rows); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
