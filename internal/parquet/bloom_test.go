package parquet_test

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/storetest"
)

// bloomColumns are the columns of testdata/make_spark.py with bloom filters: their types
// in a table, and the values of keys.
func bloomColumns() map[int]struct {
	as    arrow.DataType
	value func(key int64) any
} {
	type column = struct {
		as    arrow.DataType
		value func(key int64) any
	}
	scaled := func(key, power int64) any {
		return new(big.Int).Mul(big.NewInt(key), new(big.Int).Exp(big.NewInt(10), big.NewInt(power), nil))
	}
	plain := func(key int64) any { return key }
	return map[int]column{
		1:  {arrow.PrimitiveTypes.Int64, plain}, // promoted since
		2:  {arrow.PrimitiveTypes.Int64, func(key int64) any { return key * 1_000_000_000_000 }},
		3:  {arrow.BinaryTypes.String, func(key int64) any { return fmt.Sprintf("key %d", key) }},
		4:  {arrow.BinaryTypes.Binary, func(key int64) any { return strconv.FormatInt(key, 10) }},
		5:  {&arrow.Decimal128Type{Precision: 12, Scale: 2}, func(key int64) any { return big.NewInt(key) }},
		6:  {&arrow.Decimal128Type{Precision: 30, Scale: 4}, func(key int64) any { return scaled(key, 20) }},
		7:  {arrow.FixedWidthTypes.Date32, plain},
		8:  {&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, func(key int64) any { return key*3_600_000_000 + key }},
		10: {arrow.PrimitiveTypes.Int64, plain},
	}
}

func bloomKey(row int64) int64 { return row*7919%1000*2 - 1000 }

// TestSparkBloomFilters looks up every value: those in a row group are never missed, and
// few others are reported.
//
// spec: resolve-64
func TestSparkBloomFilters(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/spark-bloom.parquet")
	require.NoError(t, err)
	f := open(t, content)
	for id, c := range bloomColumns() {
		asked, found := 0, 0
		for group, g := range f.RowGroups() {
			for row := range int64(sparkRows) {
				key := bloomKey(row)
				may, err := f.MayHold(t.Context(), group, id, c.as, []any{c.value(key)})
				require.NoError(t, err)
				if within := row >= g.FirstRow && row < g.FirstRow+g.Rows && row%7 != 0; within {
					require.True(t, may, "column %d, row group %d, row %d", id, group, row)
					may, err = f.MayHold(t.Context(), group, id, c.as, []any{c.value(key + 1), c.value(key), c.value(key + 1)})
					require.NoError(t, err)
					require.True(t, may, "one of several")
					continue
				}
				asked++
				if may {
					found++
				}
			}
		}
		require.Less(t, found*10, asked, "column %d: found %d of %d absent values", id, found, asked)
	}
}

// TestUnusableBloomFilters expects that the row group is read where a filter cannot be
// used.
func TestUnusableBloomFilters(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/spark-bloom.parquet")
	require.NoError(t, err)
	f := open(t, content)
	i64 := arrow.PrimitiveTypes.Int64
	many := make([]any, 17)
	for i := range many {
		many[i] = int64(1)
	}
	for name, c := range map[string]struct {
		id     int
		as     arrow.DataType
		values []any
	}{
		"no filter":             {11, arrow.PrimitiveTypes.Int32, []any{int64(9999)}},
		"no such column":        {77, i64, []any{int64(1)}},
		"a struct":              {9, i64, []any{int64(1)}},
		"another unit":          {8, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}, []any{int64(1)}},
		"another scale":         {5, &arrow.Decimal128Type{Precision: 9, Scale: 3}, []any{big.NewInt(1)}},
		"another type":          {7, &arrow.TimestampType{Unit: arrow.Microsecond}, []any{int64(1)}},
		"a float value":         {1, i64, []any{1.5}},
		"a null value":          {1, i64, []any{nil}},
		"a string for a number": {1, i64, []any{"1"}},
		"a number for a string": {3, arrow.BinaryTypes.String, []any{int64(1)}},
		"too many values":       {1, i64, many},
	} {
		may, err := f.MayHold(t.Context(), 0, c.id, c.as, c.values)
		require.NoError(t, err, name)
		require.True(t, may, name)
	}
	may, err := f.MayHold(t.Context(), 0, 1, i64, []any{int64(1) << 40, int64(-1) << 31})
	require.NoError(t, err)
	require.False(t, may, "one value exceeds 32 bits, the other is not in the filter")
}

// TestDamagedBloomFilters flips bits of a header: a filter that contradicts its footer is
// ignored.
func TestDamagedBloomFilters(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile("testdata/spark-bloom.parquet")
	require.NoError(t, err)
	const at, header = 14915, 144 - 128 // offset and size of the first filter's header, by pyarrow
	absent := []any{int64(1)}
	may, err := open(t, good).MayHold(t.Context(), 0, 1, arrow.PrimitiveTypes.Int32, absent)
	require.NoError(t, err)
	require.False(t, may)
	for bit := range 8 * header {
		bad := slices.Clone(good)
		bad[at+bit/8] ^= 1 << (bit % 8)
		may, err := open(t, bad).MayHold(t.Context(), 0, 1, arrow.PrimitiveTypes.Int32, absent)
		require.NoError(t, err, "bit %d", bit)
		require.True(t, may, "bit %d of the header", bit)
	}
	cut := slices.Delete(slices.Clone(good), 100, 101) // pages are a byte shorter, and everything after them is shifted
	length := len(cut) - 8 - int(binary.LittleEndian.Uint32(cut[len(cut)-8:]))
	require.Positive(t, length)
	may, err = open(t, cut).MayHold(t.Context(), 0, 1, arrow.PrimitiveTypes.Int32, absent)
	require.NoError(t, err)
	require.True(t, may, "something else is at the offset")
}

// TestBloomFilterReadErrors expects an error where storage fails.
func TestBloomFilterReadErrors(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/spark-bloom.parquet")
	require.NoError(t, err)
	files := storetest.NewMemory()
	files.Put(location, content)
	broken := errstore.New(files, errstore.Rule{Call: errstore.Read, Nth: 2, Action: errstore.Fail(nil)}) // after the footer
	o, err := broken.Open(t.Context(), location, int64(len(content)))
	require.NoError(t, err)
	f, err := parquet.Open(t.Context(), o, parquet.Options{})
	require.NoError(t, err)
	_, err = f.MayHold(t.Context(), 0, 1, arrow.PrimitiveTypes.Int32, []any{int64(1)})
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "read a bloom filter of "+location)
	require.NoError(t, o.Close())
}

// TestBloomFiltersAcrossTypes looks up plain integers that the table has as dates or
// timestamps as the integers that they are stored as. Timestamps of another unit are not
// looked up.
//
// spec: resolve-64, resolve-66, resolve-81
func TestBloomFiltersAcrossTypes(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/spark-bloom.parquet")
	require.NoError(t, err)
	f := open(t, content)
	stamp := func(unit arrow.TimeUnit, zone string) arrow.DataType {
		return &arrow.TimestampType{Unit: unit, TimeZone: zone}
	}
	for name, c := range map[string]struct {
		id    int
		as    arrow.DataType
		value func(key int64) any
		asked bool
	}{
		"int to date":        {1, arrow.FixedWidthTypes.Date32, func(key int64) any { return key }, true},
		"long to timestamp":  {2, stamp(arrow.Microsecond, ""), func(key int64) any { return key * 1_000_000_000_000 }, true},
		"long to instant":    {2, stamp(arrow.Microsecond, "UTC"), func(key int64) any { return key * 1_000_000_000_000 }, true},
		"instant to local":   {8, stamp(arrow.Microsecond, ""), func(key int64) any { return key*3_600_000_000 + key }, true},
		"instant in nanos":   {8, stamp(arrow.Nanosecond, "UTC"), func(key int64) any { return (key*3_600_000_000 + key) * 1000 }, false},
		"long to time":       {2, arrow.FixedWidthTypes.Time64us, func(key int64) any { return key * 1_000_000_000_000 }, false},
		"long to nanosecond": {2, stamp(arrow.Nanosecond, ""), func(key int64) any { return key * 1_000_000_000_000 }, false},
	} {
		pruned := 0
		for group, g := range f.RowGroups() {
			for row := range int64(sparkRows) {
				key := bloomKey(row)
				may, err := f.MayHold(t.Context(), group, c.id, c.as, []any{c.value(key)})
				require.NoError(t, err)
				if row >= g.FirstRow && row < g.FirstRow+g.Rows && row%7 != 0 {
					require.True(t, may, "%s, row group %d, row %d", name, group, row)
				} else if !may {
					pruned++
				}
			}
		}
		require.Equal(t, c.asked, pruned > 100, "%s: %d", name, pruned)
	}
}
