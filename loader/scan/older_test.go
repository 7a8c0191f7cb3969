package scan_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"github.com/twmb/murmur3"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/bucket/buckettest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// TestPromotedDates checks that a date column that was promoted to timestamps is filtered as
// timestamps, and prunes row groups that cannot match.
//
// spec: resolve-63
func TestPromotedDates(t *testing.T) {
	t.Parallel()
	for _, unit := range []arrow.TimeUnit{arrow.Microsecond, arrow.Nanosecond} {
		r := newRig(t)
		r.grow(100, 10, 1) // a day for each ten rows
		r.table.Fields[5].Type = &arrow.TimestampType{Unit: unit}
		days := r.rows[0].Column(5)
		for text, c := range map[string]struct {
			groups int
			pass   func(day int) bool
		}{
			"day = TIMESTAMP '1970-01-04 00:00:00'":                       {1, func(day int) bool { return day == 3 }},
			"day = TIMESTAMP '1970-01-04 00:00:01'":                       {0, func(int) bool { return false }},
			"day < TIMESTAMP '1970-01-04 00:00:01'":                       {4, func(day int) bool { return day <= 3 }},
			"day < TIMESTAMP '1970-01-04 00:00:00'":                       {3, func(day int) bool { return day < 3 }},
			"day > TIMESTAMP '1970-01-03 23:59:59'":                       {7, func(day int) bool { return day >= 3 }},
			"day >= TIMESTAMP '1970-01-04 00:00:01'":                      {6, func(day int) bool { return day > 3 }},
			"day < TIMESTAMP '0001-01-01 00:00:00'":                       {0, func(int) bool { return false }},
			"day IN (DATE '1970-01-01', TIMESTAMP '1970-01-10 00:00:00')": {2, func(day int) bool { return day == 0 || day == 9 }},
		} {
			source := r.source()
			source.Filter = r.filter(text)
			before := r.store.Counts().Reads
			got := r.read(r.scanner(scan.Options{ReadTail: scan.NoTail}), source, r.columns("id"))
			require.NoError(t, got.err, text)
			want := []string{}
			for i := range 100 {
				var day int
				_, err := fmt.Sscanf(days.ValueStr(i), "1970-01-%d", &day)
				if err == nil && c.pass(day-1) {
					want = append(want, strconv.Itoa(i))
				}
			}
			require.Equal(t, want, got.lines, text)
			// A bound of nanoseconds is known to the microsecond, which may take another group.
			require.InDelta(t, 1+c.groups, r.store.Counts().Reads-before, float64(unit-arrow.Microsecond), text)
		}
	}
}

// TestFilesOfSparkAreReserved checks that memory for older forms is reserved before it is
// used: INT96, two-level lists, fixed-length bytes as deltas.
func TestFilesOfSparkAreReserved(t *testing.T) {
	t.Parallel()
	stamp := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	element := func(kind arrow.DataType, nullable bool) arrow.DataType {
		return arrow.ListOfField(arrow.Field{Name: "element", Type: kind, Nullable: nullable})
	}
	decimal := func(precision, scale int32) arrow.DataType {
		return &arrow.Decimal128Type{Precision: precision, Scale: scale}
	}
	encodings := []catalog.Field{
		{ID: 2, Name: "long", Type: arrow.PrimitiveTypes.Int64},
		{ID: 4, Name: "large", Type: decimal(38, 4)},
		{ID: 8, Name: "list", Type: element(decimal(20, 2), true)},
		{ID: 9, Name: "required", Type: decimal(25, 1), Required: true},
	}
	for name, fields := range map[string][]catalog.Field{
		"spark-int96.parquet":       {{ID: 1, Name: "at", Type: stamp}, {ID: 5, Name: "list", Type: element(stamp, true)}},
		"spark-legacy.parquet":      {{ID: 1, Name: "ints", Type: element(arrow.PrimitiveTypes.Int32, false)}, {ID: 2, Name: "texts", Type: element(arrow.BinaryTypes.String, false)}},
		"spark-gzip-v2.parquet":     encodings,
		"spark-fallback-v2.parquet": encodings,
		"spark-lz4-v2.parquet":      encodings,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.table.Fields = fields
			content, err := os.ReadFile("../../internal/parquet/testdata/" + name)
			require.NoError(t, err)
			r.files.Put(locationOf(0), content)
			r.list = []catalog.File{{Location: locationOf(0), Bytes: int64(len(content)), Rows: 200, Partition: []any{nil}}}
			source := plan.Source{Table: r.table, Planned: everyColumn(r.table), Files: []plan.FileRange{{File: r.list[0], To: 200}}}
			got := r.read(r.scanner(scan.Options{BatchRows: 50}), source, fields)
			require.NoError(t, got.err)
			require.Len(t, got.lines, 200)
		})
	}
}

// foreignColumn is a column of another type than Iceberg writes.
type foreignColumn struct {
	stored, want arrow.DataType
	value        func(day int) int    // as it is stored
	number       func(day int) int    // as the table has it
	literal      func(day int) string // as filters have it
}

func foreignColumns() map[string]foreignColumn {
	stamp := func(unit arrow.TimeUnit, zone string) arrow.DataType {
		return &arrow.TimestampType{Unit: unit, TimeZone: zone}
	}
	word := func(format, layout string) func(day int) string {
		return func(day int) string { return fmt.Sprintf(format, arrow.Date32(day).ToTime().Format(layout)) }
	}
	at, date := word("TIMESTAMP '%s'", time.DateTime), word("DATE '%s'", time.DateOnly)
	times := func(unit int) func(day int) int { return func(day int) int { return day * 86_400 * unit } }
	same, later := func(day int) int { return day }, func(day int) int { return day + 50 }
	micros := stamp(arrow.Microsecond, "")
	return map[string]foreignColumn{
		"byte":         {arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int32, same, same, strconv.Itoa},
		"short":        {arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int64, same, same, strconv.Itoa},
		"unsigned":     {arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int32, later, later, func(day int) string { return strconv.Itoa(day + 50) }},
		"days":         {arrow.PrimitiveTypes.Int32, arrow.FixedWidthTypes.Date32, same, same, date},
		"microseconds": {arrow.PrimitiveTypes.Int64, micros, times(1_000_000), times(1_000_000), at},
		"instants":     {micros, stamp(arrow.Microsecond, "UTC"), times(1_000_000), times(1_000_000), at},
		"local millis": {stamp(arrow.Millisecond, ""), stamp(arrow.Microsecond, "UTC"), times(1000), times(1_000_000), at},
		"local nanos":  {stamp(arrow.Nanosecond, "UTC"), micros, times(1_000_000_000), times(1_000_000), at},
	}
}

// foreignFile adds a file with the rows of some days, in row groups of ten.
func (r *rig) foreignFile(c foreignColumn, days ...int) *catalog.File {
	r.t.Helper()
	r.table.Fields = []catalog.Field{{ID: 1, Name: "id", Type: arrow.PrimitiveTypes.Int64}, {ID: 2, Name: "c", Type: c.want}}
	lines := make([]string, len(days))
	for i, day := range days {
		lines[i] = fmt.Sprintf(`{"id":%d,"c":%d}`, day, c.value(day))
	}
	sc := arrow.NewSchema([]arrow.Field{nullable("id", arrow.PrimitiveTypes.Int64), nullable("c", c.stored)}, nil)
	rows, _, err := array.RecordFromJSON(memory.DefaultAllocator, sc, strings.NewReader("["+strings.Join(lines, ",")+"]"))
	require.NoError(r.t, err)
	return r.add(rows, bucket.Null, parquettest.Options{RowGroupRows: 10, Codec: parquettest.Snappy})
}

// TestForeignColumnsAreFiltered checks that columns with types that Iceberg does not write
// are filtered by their table type, and prune row groups that cannot match.
//
// spec: resolve-66, resolve-67, resolve-81
func TestForeignColumnsAreFiltered(t *testing.T) {
	t.Parallel()
	const first, last = -50, 49
	for name, c := range foreignColumns() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var days []int
			for day := first; day <= last; day++ {
				days = append(days, day)
			}
			r.foreignFile(c, days...)
			for text, want := range map[string]struct {
				groups int
				pass   func(day int) bool
			}{
				"c = " + c.literal(-20):  {1, func(day int) bool { return day == -20 }},
				"c < " + c.literal(-41):  {1, func(day int) bool { return day < -41 }},
				"c >= " + c.literal(35):  {2, func(day int) bool { return day >= 35 }},
				"c > " + c.literal(60):   {0, func(int) bool { return false }},
				"c <= " + c.literal(-51): {0, func(int) bool { return false }},
				"c IS NULL":              {0, func(int) bool { return false }},
				"c <> " + c.literal(99):  {10, func(int) bool { return true }},
			} {
				source := r.source()
				source.Checked, source.Filter = nil, r.filter(text)
				before := r.store.Counts().Reads
				got := r.read(r.scanner(scan.Options{ReadTail: scan.NoTail}), source, r.columns("id"))
				require.NoError(t, got.err, text)
				lines := []string{}
				for _, day := range days {
					if want.pass(day) {
						lines = append(lines, strconv.Itoa(day))
					}
				}
				require.Equal(t, lines, got.lines, text)
				require.Equal(t, 1+want.groups, r.store.Counts().Reads-before, text)
			}
		})
	}
}

// TestForeignKeysAreHashed checks that such keys are hashed by their values in the table, if
// a file has a bucket.
//
// spec: resolve-66, resolve-67, resolve-81
func TestForeignKeysAreHashed(t *testing.T) {
	t.Parallel()
	for name, c := range foreignColumns() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for day := -3; day < 20; day++ {
				value := binary.LittleEndian.AppendUint64(nil, uint64(c.number(day)))
				right := buckettest.Of(int32(murmur3.Sum32(value)), buckets)
				for says := range buckets {
					r := newRig(t)
					r.foreignFile(c, day).Partition = []any{int64(says)}
					got := r.read(r.scanner(scan.Options{}), r.source(), r.columns("id"))
					if says == right {
						require.NoError(t, got.err)
						require.Equal(t, []string{strconv.Itoa(day)}, got.lines)
						continue
					}
					require.Equal(t, fault.Corrupt, fault.KindOf(got.err), "%v", got.err)
					require.ErrorContains(t, got.err, "which belongs to bucket "+strconv.Itoa(right))
				}
			}
		})
	}
}
