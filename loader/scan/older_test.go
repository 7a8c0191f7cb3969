package scan_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// TestPromotedDates: a column of dates that has become one of timestamps is filtered as
// what it is now, and prunes row groups that cannot match.
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

// TestFilesOfSparkAreReserved: what reading takes of old forms is asked for before: INT96,
// lists of two levels, fixed-length bytes as deltas.
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
