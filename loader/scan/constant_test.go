package scan_test

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/scan"
)

// partitionedBy adds a column p to the table, and a file that lacks it, whose partition
// says what it is in all of its five rows.
func (r *rig) partitionedBy(dt arrow.DataType, required bool, value any) {
	r.t.Helper()
	r.table.Fields = append(r.table.Fields, catalog.Field{ID: 8, Name: "p", Type: dt, Required: required})
	r.table.Specs[2] = catalog.Spec{
		{ID: 1000, Source: 2, Name: "key_bucket", Transform: catalog.Transform{Kind: catalog.Bucket, N: buckets}},
		{ID: 1002, Source: 8, Name: "p_trunc", Transform: catalog.Transform{Kind: catalog.Truncate, N: 1}},
		{ID: 1003, Source: 8, Name: "p", Transform: catalog.Transform{Kind: catalog.Identity}},
	}
	f := r.grow(5, 5, 1)
	f.Spec, f.Partition = 2, []any{int64(1), nil, value}
}

// TestPartitionColumns checks that columns that files of migrated tables lack are filled
// from their partitions (Iceberg specification, "Column Projection").
//
// spec: resolve-49
func TestPartitionColumns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dt    arrow.DataType
		value any
		want  string
	}{
		"bool":      {arrow.FixedWidthTypes.Boolean, true, "true"},
		"int":       {arrow.PrimitiveTypes.Int32, int64(-7), "-7"},
		"long":      {arrow.PrimitiveTypes.Int64, int64(1 << 60), "1152921504606846976"},
		"float":     {arrow.PrimitiveTypes.Float32, 0.5, "0.5"},
		"double":    {arrow.PrimitiveTypes.Float64, 0.1, "0.1"},
		"date":      {arrow.FixedWidthTypes.Date32, int64(3), "1970-01-04"},
		"time":      {arrow.FixedWidthTypes.Time64us, int64(61_000_000), "00:01:01.000000"},
		"timestamp": {&arrow.TimestampType{Unit: arrow.Microsecond}, int64(1_000_000), "1970-01-01T00:00:01"},
		"string":    {arrow.BinaryTypes.String, "de", "de"},
		"binary":    {arrow.BinaryTypes.Binary, "\x01", "AQ=="},
		"fixed":     {&arrow.FixedSizeBinaryType{ByteWidth: 2}, "ab", "YWI="},
		"decimal":   {&arrow.Decimal128Type{Precision: 9, Scale: 2}, "-12.30", "-12.3"},
		"null":      {arrow.BinaryTypes.String, nil, "(null)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.partitionedBy(c.dt, false, c.value)
			r.grow(3, 3, 1) // of another spec: there the column is null
			got := r.read(r.scanner(scan.Options{BatchRows: 2}), r.source(), r.columns("id", "p"))
			require.NoError(t, got.err)
			var want []string
			for i := range 8 {
				want = append(want, fmt.Sprint(i, " | ", map[bool]string{true: c.want, false: "(null)"}[i < 5]))
			}
			require.Equal(t, want, got.lines)
			for text, rows := range map[string]int{"p IS NULL": 3, "p IS NOT NULL": 5} {
				if c.value == nil {
					rows = map[string]int{"p IS NULL": 8}[text]
				}
				source := r.source()
				source.Filter = r.filter(text)
				got := r.read(r.scanner(scan.Options{}), source, r.columns("id"))
				require.NoError(t, got.err)
				require.Len(t, got.lines, rows, text)
			}
		})
	}
}

// TestInvalidPartitionColumnValues checks values in the manifest that are not of the
// column's type, and nulls of required columns.
//
// spec: resolve-49
func TestInvalidPartitionColumnValues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dt    arrow.DataType
		value any
		text  string
	}{
		"too large":          {arrow.PrimitiveTypes.Int32, int64(1 << 40), "a int64, as the file's value of column p"},
		"too fine":           {arrow.PrimitiveTypes.Float32, 0.1, "a float64, as the file's value of column p"},
		"too long":           {&arrow.FixedSizeBinaryType{ByteWidth: 2}, "abc", "a string, as the file's value of column p"},
		"of another scale":   {&arrow.Decimal128Type{Precision: 9, Scale: 2}, "1.234", "a string, as the file's value of column p"},
		"of too many digits": {&arrow.Decimal128Type{Precision: 3, Scale: 2}, "123.45", "a string, as the file's value of column p"},
		"no number":          {&arrow.Decimal128Type{Precision: 9, Scale: 2}, "x", "a string, as the file's value of column p"},
		"a number as text":   {arrow.BinaryTypes.String, int64(1), "a int64, as the file's value of column p"},
		"a nested one":       {arrow.ListOf(arrow.PrimitiveTypes.Int64), int64(1), "a int64, as the file's value of column p"},
		"of no kind":         {arrow.BinaryTypes.String, []byte("x"), "a []uint8, as the file's value of column p"},
		"null":               {arrow.BinaryTypes.String, nil, "no column p (field id 8), which the table requires"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.partitionedBy(c.dt, true, c.value)
			got := r.read(r.scanner(scan.Options{}), r.source(), r.columns("p"))
			require.Equal(t, fault.Corrupt, fault.KindOf(got.err), "%v", got.err)
			require.ErrorContains(t, got.err, c.text)
		})
	}
}

// TestPartitionColumnsInStructs checks that such columns are returned by themselves, but not
// as part of their struct.
//
// spec: resolve-49
func TestPartitionColumnsInStructs(t *testing.T) {
	t.Parallel()
	r := nestedKeys(t)
	r.table.Nested = append(r.table.Nested, catalog.Field{ID: 99, Name: "user.day", Type: arrow.PrimitiveTypes.Int64})
	r.table.Specs[0] = append(r.table.Specs[0], catalog.PartitionField{ID: 1001, Source: 99, Name: "day", Transform: catalog.Transform{Kind: catalog.Identity}})
	r.addNested(3, longsOf(3, 2)...)
	r.list[0].Partition = append(r.list[0].Partition, int64(5))
	source := r.source()
	source.Checked = r.table.Nested[:1]
	got := r.read(r.scanner(scan.Options{}), source, []catalog.Field{r.table.Nested[1]})
	require.NoError(t, got.err)
	require.Equal(t, []string{"5", "5"}, got.lines)
	got = r.read(r.scanner(scan.Options{}), source, r.columns("user"))
	require.Equal(t, fault.Invalid, fault.KindOf(got.err))
	require.ErrorContains(t, got.err, "column user.day is not in the file but only in its partition values")
}

// TestInitialDefaultsOfPartitionColumns checks that the value of the partition takes
// precedence over the initial default.
//
// spec: resolve-49, resolve-70
func TestInitialDefaultsOfPartitionColumns(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]any{"(null)": nil, "de": "de"} {
		r := newRig(t)
		r.partitionedBy(arrow.BinaryTypes.String, false, value)
		r.grow(1, 1, 1) // of another spec
		r.table.Defaults = map[int]arrow.Array{8: one(t, arrow.BinaryTypes.String, `"xx"`)}
		got := r.read(r.scanner(scan.Options{}), r.source(), r.columns("id", "p"))
		require.NoError(t, got.err)
		require.Equal(t, []string{"0 | " + want, "1 | " + want, "2 | " + want, "3 | " + want, "4 | " + want, "5 | xx"}, got.lines)
	}
}
