package catalog_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
)

// TestPartitionText checks that values are rendered in the units of the Iceberg
// specification's transforms.
func TestPartitionText(t *testing.T) {
	t.Parallel()
	long := arrow.PrimitiveTypes.Int64
	for want, c := range map[string]struct {
		kind  catalog.TransformKind
		typ   arrow.DataType
		value any
	}{
		"null":                       {catalog.Day, arrow.FixedWidthTypes.Date32, nil},
		"2026":                       {catalog.Year, arrow.FixedWidthTypes.Date32, int64(56)},
		"1969":                       {catalog.Year, arrow.FixedWidthTypes.Date32, int64(-1)},
		"2026-10":                    {catalog.Month, arrow.FixedWidthTypes.Date32, int64(56*12 + 9)},
		"1969-12":                    {catalog.Month, arrow.FixedWidthTypes.Date32, int64(-1)},
		"2026-10-01":                 {catalog.Day, arrow.FixedWidthTypes.Timestamp_us, int64(20727)},
		"1969-12-31":                 {catalog.Day, nil, int64(-1)},
		"2026-10-01-13":              {catalog.Hour, arrow.FixedWidthTypes.Timestamp_us, int64(20727*24 + 13)},
		"1969-12-31-23":              {catalog.Hour, arrow.FixedWidthTypes.Timestamp_us, int64(-1)},
		"2024-01-01":                 {catalog.Identity, arrow.FixedWidthTypes.Date32, int64(19723)},
		"13:00:00.500000":            {catalog.Identity, arrow.FixedWidthTypes.Time64us, int64(13*3600e6 + 500_000)},
		"1969-12-31T23:59:59.999999": {catalog.Identity, &arrow.TimestampType{Unit: arrow.Microsecond}, int64(-1)},
		"2026-10-01T00:00:00Z":       {catalog.Identity, arrow.FixedWidthTypes.Timestamp_us, int64(20727 * 86400e6)},
		"1970-01-01T00:00:01":        {catalog.Identity, &arrow.TimestampType{Unit: arrow.Nanosecond}, int64(1e9)},
		"-7":                         {catalog.Truncate, long, int64(-7)},
		"3":                          {catalog.Bucket, arrow.FixedWidthTypes.Date32, int64(3)},
		"19724":                      {catalog.Other, arrow.FixedWidthTypes.Date32, int64(19724)},
		"z\xfcrich":                  {catalog.Identity, arrow.BinaryTypes.String, "z\xfcrich"},
		"00ff":                       {catalog.Identity, arrow.BinaryTypes.Binary, "\x00\xff"},
		"0102":                       {catalog.Truncate, &arrow.FixedSizeBinaryType{ByteWidth: 2}, "\x01\x02"},
		"-12.30":                     {catalog.Identity, &arrow.Decimal128Type{Precision: 4, Scale: 2}, "-12.30"},
		"true":                       {catalog.Identity, arrow.FixedWidthTypes.Boolean, true},
	} {
		field := catalog.PartitionField{Transform: catalog.Transform{Kind: c.kind}}
		require.Equal(t, want, field.Text(c.value, catalog.Field{Type: c.typ}))
	}
}
