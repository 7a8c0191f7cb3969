package parquet_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/parquet"
)

// split makes the rows that testdata/make.py writes to split-1 and split-2.
func split(t *testing.T) arrow.RecordBatch {
	t.Helper()
	large, small := &arrow.Decimal128Type{Precision: 38, Scale: 4}, &arrow.Decimal128Type{Precision: 20, Scale: 2}
	sc := arrow.NewSchema([]arrow.Field{
		{Name: "fixed", Type: &arrow.FixedSizeBinaryType{ByteWidth: 5}},
		nullable("large", large), nullable("list", list(small, true)),
		nullable("double", arrow.PrimitiveTypes.Float64),
		{Name: "int", Type: arrow.PrimitiveTypes.Int32},
	}, nil)
	unless := func(null bool, value string) string {
		if null {
			return "null"
		}
		return value
	}
	lines := make([]string, 300)
	for i := range lines {
		fixed := base64.StdEncoding.EncodeToString([]byte{byte(i % 7), byte(i % 3), 9, byte(i), 1})
		lines[i] = fmt.Sprintf(`{"fixed": %q, "large": %s, "list": %s, "double": %s, "int": %d}`, fixed,
			unless(i%7 == 0, fmt.Sprintf(`"%d00000000000000000000"`, i)),
			unless(i%5 == 0, several(i%4, func(j int) string { return fmt.Sprintf(`"%d"`, i*j) })),
			unless(i%9 == 0, fmt.Sprint(float64(i)/4)), i)
	}
	return table(t, sc, "["+strings.Join(lines, ",")+"]")
}

// TestFlippedDeltas flips bits of delta-encoded pages without checksums: that may change
// values of the same column, but neither the number of rows nor other columns.
func TestFlippedDeltas(t *testing.T) {
	t.Parallel()
	want := split(t)
	fields := ids(5)
	for version := 1; version <= 2; version++ {
		good, err := os.ReadFile(fmt.Sprintf("testdata/split-%d.parquet", version))
		require.NoError(t, err)
		for _, batchRows := range []int{0, 1, 64} {
			requireEqual(t, want, mustRead(t, open(t, good), parquet.ReadOptions{Fields: fields, Schema: want.Schema(), BatchRows: batchRows}))
		}
		ends := chunkEnds(t, good, 5)
		random := rand.New(rand.NewPCG(3, uint64(version)))
		flips, found, compared := 150/share, 0, 0
		if long() {
			flips *= 50
		}
		for i := range flips {
			bad := slices.Clone(good)
			at := random.IntN(ends[len(ends)-1])
			bad[at] ^= 1 << random.IntN(8)
			got, err := read(t, open(t, bad), parquet.ReadOptions{Fields: fields, Schema: want.Schema(), BatchRows: 64, Cores: cores.New(i % 3)})
			classified(t, err)
			if err != nil {
				found++
				continue
			}
			require.Equal(t, want.NumRows(), got.NumRows())
			hit, _ := slices.BinarySearch(ends, at+1)
			for column := range 5 {
				if hit%5 != column {
					requireColumn(t, want, got, column)
					compared++
				}
			}
		}
		require.Greater(t, found, 10/share)
		require.Greater(t, compared, 40/share)
	}
}

// sparkForm has columns of a file written by Spark.
type sparkForm struct {
	fields []int
	schema *arrow.Schema
}

func sparkForms() map[string]sparkForm {
	stamp := &arrow.TimestampType{Unit: arrow.Microsecond}
	pair := arrow.StructOf(nullable("a", arrow.PrimitiveTypes.Int32), nullable("b", arrow.BinaryTypes.String))
	decimal := &arrow.Decimal128Type{Precision: 38, Scale: 4}
	return map[string]sparkForm{
		"spark-int96.parquet": {[]int{1, 3, 5}, arrow.NewSchema([]arrow.Field{
			nullable("at", stamp), nullable("inner", arrow.StructOf(nullable("at", stamp))), nullable("list", list(stamp, true)),
		}, nil)},
		"spark-legacy-v2.parquet": {[]int{1, 2, 3, 5}, arrow.NewSchema([]arrow.Field{
			nullable("ints", list(arrow.PrimitiveTypes.Int32, false)), nullable("texts", list(arrow.BinaryTypes.String, false)),
			nullable("pairs", list(pair, false)), nullable("nested", list(list(arrow.PrimitiveTypes.Int64, false), false)),
		}, nil)},
		"spark-gzip-v2.parquet": {[]int{2, 4, 5}, arrow.NewSchema([]arrow.Field{
			{Name: "long", Type: arrow.PrimitiveTypes.Int64}, nullable("large", decimal), nullable("flag", arrow.FixedWidthTypes.Boolean),
		}, nil)},
		"spark-lz4-v1.parquet": {[]int{2, 4, 5}, arrow.NewSchema([]arrow.Field{
			{Name: "long", Type: arrow.PrimitiveTypes.Int64}, nullable("large", decimal), nullable("flag", arrow.FixedWidthTypes.Boolean),
		}, nil)},
	}
}

// TestFlippedSparkFiles flips bits of files with page checksums: a flip is detected or
// has no effect, except that a footer may lose a column.
func TestFlippedSparkFiles(t *testing.T) {
	t.Parallel()
	for name, c := range sparkForms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good, err := os.ReadFile("testdata/" + name)
			require.NoError(t, err)
			want, _, err := readAll(t, good, c.fields, c.schema)
			require.NoError(t, err)
			random := rand.New(rand.NewPCG(5, 6))
			flips, found := 100/share, 0
			if long() {
				flips *= 80
			}
			for range flips {
				bad := slices.Clone(good)
				at, bit := random.IntN(len(bad)), random.IntN(8)
				bad[at] ^= 1 << bit
				got, lacks, err := readAll(t, bad, c.fields, c.schema)
				classified(t, err)
				if err != nil {
					found++
					continue
				}
				require.Equal(t, want.NumRows(), got.NumRows())
				for i, id := range c.fields {
					if !slices.Contains(lacks, id) {
						require.True(t, array.Equal(want.Column(i), got.Column(i)), "byte %d, bit %d: column %s", at, bit, want.ColumnName(i))
					}
				}
			}
			require.Greater(t, found, 10/share)
		})
	}
}

// FuzzSparkFiles changes a byte of a file: reading returns as many rows as before, or an
// error.
func FuzzSparkFiles(f *testing.F) {
	names := slices.Sorted(maps.Keys(sparkForms()))
	f.Add(uint8(0), uint32(100), byte(1))
	f.Add(uint8(1), uint32(8000), byte(255))
	f.Fuzz(func(t *testing.T, which uint8, at uint32, mask byte) {
		name := names[int(which)%len(names)]
		content, err := os.ReadFile("testdata/" + name)
		require.NoError(t, err)
		content[int(at)%len(content)] ^= mask
		form := sparkForms()[name]
		got, _, err := readAll(t, content, form.fields, form.schema)
		classified(t, err)
		if err == nil {
			require.Equal(t, int64(sparkRows), got.NumRows())
		}
	})
}
