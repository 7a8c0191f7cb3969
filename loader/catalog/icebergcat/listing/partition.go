package listing

import (
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
)

// partition converts the partition values of a file, in the order of its own spec and without void
// fields. It returns Corrupt for a value that is missing or that the field's transform cannot
// produce: otherwise, joins would silently miss the rows of a file in the wrong bucket.
func (l *Listing) partition(values map[int]any, f catalog.File, manifest string) ([]any, error) {
	spec, ok := l.specs[f.Spec]
	if !ok {
		return nil, metafile.Corrupt(l.meta.Name, manifest, "file %s has partition spec %d, which table %s does not have",
			f.Location, f.Spec, l.meta.Name)
	}
	var out []any
	for _, field := range spec.Fields() {
		transform, ok := metadata.ConvertTransform(field)
		if !ok {
			continue
		}
		raw, ok := values[field.FieldID]
		if !ok {
			return nil, metafile.Corrupt(l.meta.Name, manifest, "manifest %s gives file %s no partition value %s (id %d)",
				manifest, f.Location, field.Name, field.FieldID)
		}
		v, ok := partitionValue(raw)
		if n, isInt := v.(int64); transform.Kind == catalog.Bucket && v != nil && (!isInt || n < 0 || n >= int64(transform.N)) {
			ok = false
		}
		if !ok {
			return nil, metafile.Corrupt(l.meta.Name, manifest, "manifest %s gives file %s partition value %s = %v, a %T",
				manifest, f.Location, field.Name, raw, raw)
		}
		out = append(out, v)
	}
	return out, nil
}

// partitionValue converts a partition value from iceberg-go's type to the type that catalog.File
// documents. It returns false for an unknown type.
func partitionValue(raw any) (any, bool) {
	switch v := raw.(type) {
	case nil, bool, int64, float64, string:
		return v, true
	case int32:
		return int64(v), true
	case iceberg.Date:
		return int64(v), true
	case iceberg.Time:
		return int64(v), true
	case iceberg.Timestamp:
		return int64(v), true
	case iceberg.TimestampNano:
		return int64(v), true
	case float32:
		return float64(v), true
	case []byte:
		return string(v), true
	case uuid.UUID:
		return string(v[:]), true
	case iceberg.DecimalLiteral:
		return v.Val.ToString(int32(v.Scale)), true
	case iceberg.Decimal:
		return v.Val.ToString(int32(v.Scale)), true
	default:
		return nil, false
	}
}
