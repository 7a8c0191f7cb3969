package scan_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

var all = []string{"id", "key", "x", "tags", "price", "day", "flag"}

// small has three files of several row groups.
func small(t testing.TB) *rig {
	r := newRig(t)
	r.grow(50, 20, 1)
	r.grow(7, 100, 1)
	r.grow(33, 11, 1)
	return r
}

func TestColumns(t *testing.T) {
	t.Parallel()
	r := small(t)
	for _, names := range [][]string{all, {"id"}, {"tags", "id"}, {"flag", "key", "price"}, {"id", "id"}, {}} {
		for _, batchRows := range []int{0, 1, 7, 20} {
			for _, ahead := range []int64{0, scan.NoAhead} {
				s := r.scanner(scan.Options{BatchRows: batchRows, Ahead: ahead, Cores: cores.New(batchRows % 3)})
				columns := r.columns(names...)
				got := r.read(s, r.source(), columns)
				require.NoError(t, got.err)
				require.Equal(t, r.want(r.source(), columns, nil), got.lines)
				require.Equal(t, locationOf(0), got.files[49])
				require.Equal(t, locationOf(1), got.files[50])
				require.Equal(t, locationOf(2), got.files[57])
				if batchRows > 0 {
					for _, n := range got.batches {
						require.LessOrEqual(t, n, int64(batchRows))
					}
				}
			}
		}
	}
}

func TestSchemaIsThatOfTheColumns(t *testing.T) {
	t.Parallel()
	r := small(t)
	rdr, err := r.scanner(scan.Options{}).Open(t.Context(), r.source(), r.columns("x", "id"))
	require.NoError(t, err)
	defer rdr.Release()
	require.True(t, rdr.Schema().Equal(arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	}, nil)), rdr.Schema().String())
}

// TestRowCounts reads no column at all.
func TestRowCounts(t *testing.T) {
	t.Parallel()
	r := small(t)
	source := r.source()
	source.Checked = nil
	got := r.read(r.scanner(scan.Options{BatchRows: 10}), source, nil)
	require.NoError(t, got.err)
	require.Len(t, got.lines, 90)
	require.Equal(t, 3, r.store.Counts().Reads, "footers are all that is read")
}

func TestNoFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	got := r.read(r.scanner(scan.Options{}), r.source(), r.columns(all...))
	require.NoError(t, got.err)
	require.Empty(t, got.lines)
}

func TestEmptyFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(0, 10, 1)
	r.grow(3, 10, 1)
	r.grow(0, 10, 1)
	got := r.read(r.scanner(scan.Options{}), r.source(), r.columns("id"))
	require.NoError(t, got.err)
	require.Equal(t, []string{"0", "1", "2"}, got.lines)
}

// TestEveryRange cuts one file of several row groups at every edge.
func TestEveryRange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(11, 4, 2)
	columns := r.columns("id", "tags")
	for _, batchRows := range []int{3, 100} {
		s := r.scanner(scan.Options{BatchRows: batchRows})
		for from := range int64(12) {
			for to := from; to <= 11; to++ {
				source := r.source()
				source.Files[0].From, source.Files[0].To = from, to
				got := r.read(s, source, columns)
				require.NoError(t, got.err)
				require.Equal(t, r.want(source, columns, nil), got.lines, "rows %d to %d, batches of %d", from, to, batchRows)
			}
		}
	}
}

// TestRangesReadOnlyTheirRowGroups counts requests.
func TestRangesReadOnlyTheirRowGroups(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(60, 20, 2)
	for _, c := range []struct{ from, to, groups int64 }{{0, 60, 3}, {0, 20, 1}, {19, 21, 2}, {20, 40, 1}, {40, 60, 1}, {59, 60, 1}, {30, 30, 0}} {
		source := r.source()
		source.Files[0].From, source.Files[0].To = c.from, c.to
		r.store.Reset()
		got := r.read(r.scanner(scan.Options{ReadTail: scan.NoTail}), source, r.columns(all...))
		require.NoError(t, got.err)
		require.Equal(t, int(1+c.groups), r.store.Counts().Reads, "%+v: the footer, and each row group once", c)
	}
}

// TestRowsDoNotDependOnCuts divides the rows of all files at random: rows and order stay the
// same.
func TestRowsDoNotDependOnCuts(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 7))
	r := newRig(t)
	for range 5 {
		r.grow(random.IntN(60), 1+random.IntN(25), 3)
	}
	filters := []string{"", "id >= 40 AND id < 95", "flag", "x IS NULL", "price > 1.5 AND NOT flag"}
	for i := range 10 {
		whole := r.source()
		if text := filters[i%len(filters)]; text != "" {
			whole.Filter = r.filter(text)
		}
		columns := r.columns("id", "x", "tags")
		uncut := r.read(r.scanner(scan.Options{}), whole, columns)
		require.NoError(t, uncut.err)
		var lines, files []string
		cut := plan.Source{Table: whole.Table, Planned: whole.Planned, Filter: whole.Filter, Checked: whole.Checked}
		flush := func() {
			got := r.read(r.scanner(scan.Options{BatchRows: 1 + random.IntN(30), Ahead: int64(random.IntN(5000)) - 1}), cut, columns)
			require.NoError(t, got.err)
			lines, files = append(lines, got.lines...), append(files, got.files...)
			cut.Files = nil
		}
		for _, f := range whole.Files {
			for from := int64(0); from < f.File.Rows; {
				to := min(f.File.Rows, from+1+random.Int64N(30))
				cut.Files = append(cut.Files, plan.FileRange{File: f.File, From: from, To: to})
				from = to
				if random.IntN(3) == 0 {
					flush()
				}
			}
		}
		flush()
		require.Equal(t, uncut.lines, lines)
		require.Equal(t, uncut.files, files)
	}
}

// TestFilters compares with the rows' numbers, with and without statistics.
func TestFilters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		pass func(row int64) bool
	}{
		{"id < 25", func(i int64) bool { return i < 25 }},
		{"id = 30", func(i int64) bool { return i == 30 }},
		{"id IN (3, 44, 89)", func(i int64) bool { return i == 3 || i == 44 || i == 89 }},
		{"id > 1000", func(int64) bool { return false }},
		{"id >= 0", func(int64) bool { return true }},
		{"x < 5 AND id > 2", func(i int64) bool { return i%5 != 0 && i < 20 && i > 2 }},
		{"x IS NULL", func(i int64) bool { return i%5 == 0 }},
		{"x IS NOT NULL AND flag", func(i int64) bool { return i%5 != 0 && i%3 == 0 }},
		{"price BETWEEN 1.00 AND 2.00", func(i int64) bool { return i >= 20 && i <= 40 }},
		{"day = DATE '1970-01-04'", func(i int64) bool { return i/10 == 3 }},
		{"key IS NULL", func(int64) bool { return false }},
		{"key LIKE 'k1%'", func(i int64) bool { return strings.HasPrefix(strconv.FormatInt(i, 10), "1") }},
		{"key NOT LIKE 'k%' OR id < 3", func(i int64) bool { return i < 3 }},
		{"key LIKE 'l%'", func(int64) bool { return false }},
		{"TRUE", func(int64) bool { return true }},
		{"FALSE", func(int64) bool { return false }},
		{"tags IS NULL", func(i int64) bool { return i%5 == 0 }},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			for _, none := range []bool{false, true} {
				r := newRig(t)
				for _, n := range []int{50, 7, 33} {
					rows := makeRows(r.next, n, 1)
					r.next += n
					r.add(rows, 1, parquettest.Options{RowGroupRows: 11, NoStatistics: none, Codec: parquettest.Snappy})
				}
				source := r.source()
				source.Filter = r.filter(c.text)
				for _, names := range [][]string{all, {"tags"}, {}, {"id", "x"}} {
					got := r.read(r.scanner(scan.Options{BatchRows: 8}), source, r.columns(names...))
					require.NoError(t, got.err)
					require.Equal(t, r.want(source, r.columns(names...), c.pass), got.lines)
				}
			}
		})
	}
}

// TestPruning counts the row groups that remain to be read with a filter.
func TestPruning(t *testing.T) {
	t.Parallel()
	for text, groups := range map[string]int{
		"id < 20": 2, "id < 21": 3, "id > 1000": 0, "day = DATE '1970-01-04'": 1, "price = 1.00": 1, "key IS NULL": 0,
		"x < 0": 0, "x > 24.8": 10, "flag OR id = 5": 10, "id >= 0": 10,
	} {
		r := newRig(t)
		r.grow(100, 10, 1)
		source := r.source()
		source.Filter = r.filter(text)
		got := r.read(r.scanner(scan.Options{ReadTail: scan.NoTail}), source, r.columns("x"))
		require.NoError(t, got.err)
		require.Equal(t, 1+groups, r.store.Counts().Reads, text)
	}
}

// TestAbsentColumns reads files older than a column.
func TestAbsentColumns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(10, 4, 1)
	r.table.Fields = append(r.table.Fields, catalog.Field{ID: 8, Name: "late", Type: arrow.ListOf(arrow.BinaryTypes.String)},
		catalog.Field{ID: 9, Name: "later", Type: arrow.PrimitiveTypes.Int32})
	got := r.read(r.scanner(scan.Options{BatchRows: 3}), r.source(), r.columns("late", "id", "later"))
	require.NoError(t, got.err)
	require.Len(t, got.lines, 10)
	require.Equal(t, "(null) | 9 | (null)", got.lines[9])

	source := r.source()
	source.Filter = r.filter("later = 1")
	r.store.Reset()
	got = r.read(r.scanner(scan.Options{}), source, r.columns("id"))
	require.NoError(t, got.err)
	require.Empty(t, got.lines)
	require.Equal(t, 1, r.store.Counts().Reads, "a column of nulls rules the file out")

	source.Filter = r.filter("later IS NULL AND id > 7")
	got = r.read(r.scanner(scan.Options{}), source, r.columns("id"))
	require.NoError(t, got.err)
	require.Equal(t, []string{"8", "9"}, got.lines)
}

// TestNestedFieldsHaveTheirIDs reads a struct whose field was dropped and added again under
// its old name: in older files, the new field is null.
//
// spec: resolve-45
func TestNestedFieldsHaveTheirIDs(t *testing.T) {
	t.Parallel()
	for id, same := range map[string]bool{"11": true, "12": false} {
		r := nestedKeys(t)
		r.addNested(3, longsOf(3, 2)...)
		in := r.table.Fields[1].Type.(*arrow.StructType).Field(0)
		in.Metadata = arrow.NewMetadata([]string{catalog.FieldIDKey}, []string{id})
		r.table.Fields[1].Stored = arrow.StructOf(in)
		got := r.read(r.scanner(scan.Options{}), r.source(), r.columns("user"))
		require.NoError(t, got.err)
		for _, line := range got.lines {
			require.Equal(t, same, strings.Contains(line, "key"), line)
		}
	}
}

// TestOnlyPlannedColumnsAreRead checks output columns, filter columns and key columns.
//
// spec: resolve-43
func TestOnlyPlannedColumnsAreRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(10, 4, 1)
	source := r.source()
	source.Planned = []int{2}
	filtered := source
	filtered.Filter = r.filter("id = 1")
	unchecked := r.source()
	unchecked.Planned = []int{1}
	for _, c := range []struct {
		source plan.Source
		column string
		named  string
	}{{source, "id", "id"}, {filtered, "key", "id"}, {unchecked, "id", "key"}} {
		_, err := r.scanner(scan.Options{}).Open(t.Context(), c.source, r.columns(c.column))
		require.Equal(t, fault.Internal, fault.KindOf(err))
		require.ErrorContains(t, err, "column "+c.named+" of table")
	}
	require.Zero(t, r.store.Counts().Reads)
}

// TestNullBucket reads the file of null keys.
func TestNullBucket(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(10, 4, bucket.Null)
	got := r.read(r.scanner(scan.Options{}), r.source(), r.columns("id", "key"))
	require.NoError(t, got.err)
	require.Len(t, got.lines, 10)
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	_, err := scan.New(scan.Options{BatchRows: -1, Ahead: -2})
	for _, name := range []string{"files", "batch_rows", "ahead"} {
		require.ErrorContains(t, err, name)
	}
}
