package manifests

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// blockSize is the value of a field that manifests of format version 1 must have, and that readers
// ignore.
const blockSize = 64 << 20

// Data converts a data file. It returns an error if a partition value is missing, or if the
// partition spec cannot have the value.
func (form ManifestForm) Data(f commit.DataFile, version int) (iceberg.DataFile, error) {
	partition, err := form.partition(f.Partition)
	if err != nil {
		return nil, err
	}
	b, err := iceberg.NewDataFileBuilder(form.Spec, iceberg.EntryContentData, f.Location, iceberg.ParquetFile, partition, nil, nil, f.Rows, f.Bytes)
	if err != nil {
		return nil, err
	}
	m := f.ColumnMetrics
	b.ColumnSizes(m.ColumnBytes).ValueCounts(m.Values).NullValueCounts(m.Nulls).NaNValueCounts(m.NaNs)
	b.LowerBoundValues(m.Lower).UpperBoundValues(m.Upper)
	if len(f.Splits) > 0 {
		b.SplitOffsets(f.Splits)
	}
	if f.SortOrder != 0 {
		b.SortOrderID(f.SortOrder)
	}
	if version == 1 {
		b.BlockSizeInBytes(blockSize)
	}
	if f.FirstRow != nil {
		b.FirstRowID(*f.FirstRow)
	}
	return b.Build(), nil
}

// Deletes converts position deletes of one data file, or a deletion vector. For position deletes,
// it sets both bounds of the location column to the location of their data file, because iceberg-go
// writes no reference to the data file into manifests of format version 2.
func (form ManifestForm) Deletes(d catalog.DeleteFile) (iceberg.DataFile, error) {
	partition, err := form.partition(d.Partition)
	if err != nil {
		return nil, err
	}
	format := iceberg.ParquetFile
	if d.Kind == catalog.DeletionVector {
		format = iceberg.PuffinFile
	}
	b, err := iceberg.NewDataFileBuilder(form.Spec, iceberg.EntryContentPosDeletes, d.Location, format, partition, nil, nil, d.Rows, d.Bytes)
	if err != nil {
		return nil, err
	}
	b.ReferencedDataFile(d.Data)
	if d.Kind == catalog.DeletionVector {
		return b.ContentOffset(d.Offset).ContentSizeInBytes(d.Length).Build(), nil
	}
	bounds := map[int][]byte{catalog.PathField: []byte(d.Data)}
	return b.LowerBoundValues(bounds).UpperBoundValues(bounds).Build(), nil
}

// partition converts partition values. There is one for each field of the spec except void fields.
func (form ManifestForm) partition(values []any) (map[int]any, error) {
	types := form.Spec.PartitionType(form.Schema).FieldList
	if len(types) != form.Spec.NumFields() {
		return nil, fmt.Errorf("partition spec %d has a field whose column is unknown", form.Spec.ID())
	}
	out := make(map[int]any, len(types))
	next := 0
	for i, field := range types {
		if _, void := form.Spec.Field(i).Transform.(iceberg.VoidTransform); void {
			out[field.ID] = nil
			continue
		}
		if next == len(values) {
			return nil, fmt.Errorf("it has no partition value %s", field.Name)
		}
		v, ok := typed(values[next], field.Type)
		if bucket, is := form.Spec.Field(i).Transform.(iceberg.BucketTransform); is && v != nil && ok {
			n, _ := v.(int32)
			ok = n >= 0 && int(n) < bucket.NumBuckets
		}
		if !ok {
			return nil, fmt.Errorf("partition value %s is %v, a %T, which is not one of %s of type %s",
				field.Name, values[next], values[next], form.Spec.Field(i).Transform, field.Type)
		}
		out[field.ID] = v
		next++
	}
	if next < len(values) {
		return nil, fmt.Errorf("it has %d partition values, but spec %d has %d", len(values), form.Spec.ID(), next)
	}
	return out, nil
}

// typed converts a partition value from the type that catalog.File documents to iceberg-go's type.
// It returns false if that is not possible.
func typed(v any, to iceberg.Type) (any, bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case bool:
		return v, to == iceberg.PrimitiveTypes.Bool
	case int64:
		return typedInt(v, to)
	case float64:
		switch to.(type) {
		case iceberg.Float32Type:
			return float32(v), float64(float32(v)) == v || math.IsNaN(v)
		case iceberg.Float64Type:
			return v, true
		}
	case string:
		return typedText(v, to)
	}
	return nil, false
}

func typedInt(v int64, to iceberg.Type) (any, bool) {
	fits := v >= math.MinInt32 && v <= math.MaxInt32
	switch to.(type) {
	case iceberg.Int32Type:
		return int32(v), fits //nolint:gosec // checked
	case iceberg.DateType:
		return iceberg.Date(v), fits //nolint:gosec // checked
	case iceberg.Int64Type:
		return v, true
	case iceberg.TimeType:
		return iceberg.Time(v), true
	case iceberg.TimestampType, iceberg.TimestampTzType:
		return iceberg.Timestamp(v), true
	case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		return iceberg.TimestampNano(v), true
	}
	return nil, false
}

func typedText(v string, to iceberg.Type) (any, bool) {
	switch to := to.(type) {
	case iceberg.StringType:
		return v, true
	case iceberg.BinaryType:
		return []byte(v), true
	case iceberg.FixedType:
		return []byte(v), len(v) == to.Len()
	case iceberg.UUIDType:
		id, err := uuid.FromBytes([]byte(v))
		return id, err == nil
	case iceberg.DecimalType:
		n, err := decimal128.FromString(v, int32(to.Precision()), int32(to.Scale())) //nolint:gosec // at most 38
		return iceberg.Decimal{Val: n, Scale: to.Scale()}, err == nil
	}
	return nil, false
}
