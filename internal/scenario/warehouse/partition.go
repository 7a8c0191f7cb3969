package warehouse

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/scenario"
)

// partition converts a file's partition values to the form that iceberg-go writes.
func (w *table) partition(spec *iceberg.PartitionSpec, commit int, p scenario.Part) (map[int]any, error) {
	out := map[int]any{}
	at := 0
	fields := spec.PartitionType(w.at(commit)).FieldList
	for i, f := range fields {
		if _, void := spec.Field(i).Transform.(iceberg.VoidTransform); void {
			out[f.ID] = nil
			continue
		}
		var err error
		if out[f.ID], err = partitionValue(f.Type, p.Partition[at]); err != nil {
			return nil, fmt.Errorf("partition field %s of table %s: %w", f.Name, w.name, err)
		}
		if width := twin(fields, i); width > 0 {
			if out[f.ID], err = twinValue(out[f.ID], width); err != nil {
				return nil, fmt.Errorf("partition field %s of table %s: %w", f.Name, w.name, err)
			}
		}
		at++
	}
	return out, nil
}

// logicalTypes returns the logical types of a spec's fields, by field id, for fields whose values
// iceberg-go cannot write otherwise.
func (w *table) logicalTypes(spec *iceberg.PartitionSpec, commit int) map[int]string {
	out := map[int]string{}
	fields := spec.PartitionType(w.at(commit)).FieldList
	for i, f := range fields {
		if _, is := f.Type.(iceberg.DecimalType); is && twin(fields, i) == 0 {
			out[f.ID] = "decimal"
		}
	}
	return out
}

// partitionValue converts one of the values that catalog.File documents.
func partitionValue(t iceberg.Type, v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil //nolint:nilnil // a partition value that is null
	case bool:
		return v, nil
	case int64:
		return partitionNumber(t, v)
	case string:
		return partitionText(t, v)
	default:
		return nil, fmt.Errorf("a %T cannot be a partition value", v)
	}
}

func partitionNumber(t iceberg.Type, v int64) (any, error) {
	switch t.(type) {
	case iceberg.Int32Type:
		return int32(v), nil
	case iceberg.Int64Type:
		return v, nil
	case iceberg.DateType:
		return iceberg.Date(v), nil
	case iceberg.TimeType:
		return iceberg.Time(v), nil
	case iceberg.TimestampType, iceberg.TimestampTzType:
		return iceberg.Timestamp(v), nil
	case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		return iceberg.TimestampNano(v), nil
	default:
		return nil, fmt.Errorf("%d is no %s", v, t)
	}
}

func partitionText(t iceberg.Type, v string) (any, error) {
	switch t := t.(type) {
	case iceberg.StringType:
		return v, nil
	case iceberg.BinaryType, iceberg.FixedType:
		return []byte(v), nil
	case iceberg.UUIDType:
		return uuid.FromBytes([]byte(v))
	case iceberg.DecimalType:
		unscaled, ok := new(big.Int).SetString(strings.Replace(v, ".", "", 1), 10)
		if !ok {
			return nil, fmt.Errorf("%q is no decimal", v)
		}
		return iceberg.DecimalLiteral{Val: decimal128.FromBigInt(unscaled), Scale: t.Scale()}, nil
	default:
		return nil, fmt.Errorf("%q is no %s", v, t)
	}
}
