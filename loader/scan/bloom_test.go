package scan_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// blooming is the file that Spark wrote with bloom filters: seven row groups, in which
// every column reaches from about the least value to the greatest.
func blooming(t *testing.T) (*rig, plan.Source) {
	t.Helper()
	r := newRig(t)
	r.table.Fields = []catalog.Field{
		{ID: 1, Name: "int", Type: arrow.PrimitiveTypes.Int64},
		{ID: 3, Name: "text", Type: arrow.BinaryTypes.String},
		{ID: 5, Name: "price", Type: &arrow.Decimal128Type{Precision: 9, Scale: 2}},
		{ID: 7, Name: "day", Type: arrow.FixedWidthTypes.Date32},
		{ID: 8, Name: "at", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}},
		{ID: 11, Name: "row", Type: arrow.PrimitiveTypes.Int32},
	}
	content, err := os.ReadFile("../../internal/parquet/testdata/spark-bloom.parquet")
	require.NoError(t, err)
	r.files.Put(locationOf(0), content)
	f := catalog.File{Location: locationOf(0), Bytes: int64(len(content)), Rows: 200, Partition: []any{nil}}
	return r, plan.Source{Table: r.table, Planned: everyColumn(r.table), Files: []plan.FileRange{{File: f, To: 200}}}
}

// TestBloomFilters: row groups that cannot hold a value are not read, and no row is lost.
//
// spec: resolve-64
func TestBloomFilters(t *testing.T) {
	t.Parallel()
	key := func(row int) int { return row*7919%1000*2 - 1000 }
	const firstFilter = 14915 // behind all pages
	r, source := blooming(t)
	stored := key(9)
	for _, c := range []struct {
		text string
		want []string
		most int // row groups that are read
	}{
		{fmt.Sprintf("int = %d", stored), []string{"9"}, 2},
		{fmt.Sprintf("int = %d", stored+1), []string{}, 1},
		{fmt.Sprintf("text = 'key %d'", stored), []string{"9"}, 2},
		{fmt.Sprintf("price = %.2f", float64(stored)/100), []string{"9"}, 2},
		{fmt.Sprintf("int IN (%d, %d, -999)", stored, key(150)), []string{"9", "150"}, 3},
		{fmt.Sprintf("int = %d AND text = 'key 1'", stored), []string{}, 1},
		{fmt.Sprintf("int = %d OR text = 'key %d'", stored, key(10)), []string{"9", "10"}, 3},
		{fmt.Sprintf("int = %d OR \"row\" = 150", stored), []string{"9", "150"}, 7},
		{fmt.Sprintf("NOT int <> %d", stored), []string{"9"}, 2},
	} {
		source.Filter = r.filter(c.text)
		r.store.Reset()
		got := r.read(r.scanner(scan.Options{}), source, r.columns("row"))
		require.NoError(t, got.err, c.text)
		require.Equal(t, c.want, got.lines, c.text)
		read := 0
		for _, q := range r.store.Requests() {
			if q.Offset > 0 && q.Offset < firstFilter { // at 0 the footer is read, and all with it
				read++
			}
		}
		require.LessOrEqual(t, read, c.most, "%s: %v", c.text, r.store.Requests())
	}
}

// TestBloomFiltersThatCannotBeRead end the stream.
func TestBloomFiltersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r, source := blooming(t)
	source.Filter = r.filter("int = 1")
	r.store.Set(errstore.Rule{Call: errstore.Read, Nth: 2, Action: errstore.Fail(nil)})
	got := r.read(r.scanner(scan.Options{ReadTail: scan.NoTail}), source, r.columns("row"))
	require.Equal(t, fault.Unavailable, fault.KindOf(got.err), "%v", got.err)
	require.Empty(t, got.lines)
}

// TestPageIndex checks that, if a footer has no bounds of a column, such as of long strings,
// row groups that cannot match are skipped by the page index.
//
// spec: resolve-65
func TestPageIndex(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../internal/parquet/testdata/spark-long.parquet")
	require.NoError(t, err)
	for text, c := range map[string]struct {
		want []string
		most int // row groups that are read
	}{
		"long < '002'":                     {[]string{"0", "1"}, 1},
		"long >= '198'":                    {[]string{"198", "199"}, 1},
		"long > '0995' AND long < '1005'":  {[]string{"99"}, 2},
		"long LIKE '02%' AND \"row\" > 27": {[]string{"28", "29"}, 1},
		"long = '050'":                     {[]string{}, 1},
		"long IS NULL AND \"row\" < 10":    {[]string{"3"}, 1},
		"long < '000'":                     {[]string{}, 0},
		"long < '002' OR \"row\" = 7":      {[]string{"0", "1", "7"}, 1},
	} {
		r := newRig(t)
		r.table.Fields = []catalog.Field{{ID: 1, Name: "long", Type: arrow.BinaryTypes.String}, {ID: 2, Name: "row", Type: arrow.PrimitiveTypes.Int32}}
		r.files.Put(locationOf(0), content)
		f := catalog.File{Location: locationOf(0), Bytes: int64(len(content)), Rows: 200, Partition: []any{nil}}
		source := plan.Source{Table: r.table, Planned: everyColumn(r.table), Files: []plan.FileRange{{File: f, To: 200}}}
		source.Filter = r.filter(text)
		got := r.read(r.scanner(scan.Options{ReadTail: scan.NoTail}), source, r.columns("row"))
		require.NoError(t, got.err, text)
		require.Equal(t, c.want, got.lines, text)
		groups := map[int64]bool{}
		for _, q := range r.store.Requests() {
			if q.Offset > 0 && q.Bytes > 180 { // an index takes less
				groups[q.Offset] = true
			}
		}
		require.LessOrEqual(t, len(groups), c.most, "%s: %v", text, r.store.Requests())
	}
}
