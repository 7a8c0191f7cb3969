package parquet

import "github.com/apache/arrow-go/v18/arrow"

// widening says how the values of a column are stored that was promoted since: the
// type promotions of the Iceberg specification, "Schema Evolution".
type widening int

const (
	sameWidth widening = iota
	toInt64            // from int32
	toFloat64          // from float32
)

// stored returns the bytes of a value in the file.
func (w widening) stored() int {
	switch w {
	case toInt64:
		return arrow.Int32SizeBytes
	case toFloat64:
		return arrow.Float32SizeBytes
	case sameWidth:
	}
	return arrow.Int64SizeBytes
}

// widens says whether one type may have been promoted to another. Decimals of any
// precision are decoded to one width.
func widens(have, want arrow.DataType) (widening, bool) {
	switch a := have.(type) {
	case *arrow.Int32Type:
		if want.ID() == arrow.INT64 {
			return toInt64, true
		}
	case *arrow.Float32Type:
		if want.ID() == arrow.FLOAT64 {
			return toFloat64, true
		}
	case *arrow.Decimal128Type:
		b, ok := want.(*arrow.Decimal128Type)
		return sameWidth, ok && a.Scale == b.Scale && a.Precision <= b.Precision
	}
	return sameWidth, false
}

// widen converts values, also those under nulls.
func widen[From int32 | float32, To int64 | float64](out []To, values []From) {
	for i := range out {
		out[i] = To(values[i])
	}
}
