package scan_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// addRepeated adds a file whose rows have few keys.
func (r *rig) addRepeated(n, group int, b int32) {
	rows := makeRows(r.next, n, b)
	r.next += n
	keys := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range n {
		key, _ := keyOf(b, i%5)
		keys.Append(key)
	}
	columns := append([]arrow.Array{rows.Column(0), keys.NewArray()}, rows.Columns()[2:]...)
	r.add(array.NewRecordBatch(rows.Schema(), columns, int64(n)), b, parquettest.Options{RowGroupRows: int64(group)})
}

// codedColumns counts the columns of a source's batches that have codes.
func (r *rig) codedColumns(s *scan.Scanner, source plan.Source, columns []catalog.Field) (coded int) {
	rdr, err := s.Open(r.t.Context(), source, columns)
	require.NoError(r.t, err)
	defer rdr.Release()
	for rdr.Next() {
		for _, c := range rdr.RecordBatch().Columns() {
			if batch.IsCoded(c) {
				coded++
			}
		}
	}
	require.NoError(r.t, rdr.Err())
	return coded
}

// TestRepeatedTextsComeAsCodes checks which columns come as codes: those that the source names, and
// whose values the scan itself does not look at. The rows are the same.
func TestRepeatedTextsComeAsCodes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.addRepeated(300, 100, 1)
	r.grow(40, 40, 1) // values that do not repeat
	r.addRepeated(100, 100, 1)
	columns := r.columns("key", "id")
	source := r.source()
	source.Coded, source.Checked = []int{2}, nil
	for name, c := range map[string]struct {
		options scan.Options
		change  func(*plan.Source)
		coded   int // columns of batches
		rows    func(row int64) bool
	}{
		"coded":            {change: func(*plan.Source) {}, coded: 16},
		"none":             {options: scan.Options{MinRepeats: scan.NoCodes}, change: func(*plan.Source) {}},
		"not asked for":    {change: func(s *plan.Source) { s.Coded = nil }},
		"too rare":         {options: scan.Options{MinRepeats: 50}, change: func(*plan.Source) {}},
		"checked":          {change: func(s *plan.Source) { s.Checked = r.columns("key") }},
		"another filtered": {change: func(s *plan.Source) { s.Filter = r.filter("id >= 20") }, coded: 16, rows: func(row int64) bool { return row >= 20 }},
		"filtered":         {change: func(s *plan.Source) { s.Filter = r.filter("key LIKE 'k%'") }},
	} {
		c.options.BatchRows = 25
		source := source
		c.change(&source)
		s := r.scanner(c.options)
		require.Equal(t, c.coded, r.codedColumns(s, source, columns), name)
		got := r.read(s, source, columns)
		require.NoError(t, got.err, name)
		require.Equal(t, r.want(source, columns, c.rows), got.lines, name)
	}
	r.list[0].Deletes.Equality = []*catalog.EqualityGroup{group(r.equality("e", 9, r.columns("key"), columnOf(arrow.BinaryTypes.String, "none")))}
	source = r.source()
	source.Coded, source.Checked, source.Files = []int{2}, nil, source.Files[:1]
	require.Zero(t, r.codedColumns(r.scanner(scan.Options{}), source, columns), "compared by deletes")
	_, err := scan.New(scan.Options{Files: catalogtest.FromStore(r.store), MinRepeats: -2})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// TestScansChargeDictionariesOnce reads coded batches, and keeps them all: the reservations are
// those of the dictionaries, until the last batch is released.
func TestScansChargeDictionariesOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.addRepeated(1000, 1000, 1)
	limit := budget.New(1 << 30)
	source := r.source()
	source.Coded, source.Checked = []int{2}, nil
	s, err := scan.New(scan.Options{Files: catalogtest.FromStore(r.store), Budget: limit, BatchRows: 10})
	require.NoError(t, err)
	rdr, err := s.Open(t.Context(), source, r.columns("key"))
	require.NoError(t, err)
	var all []arrow.RecordBatch
	for rdr.Next() {
		b := rdr.RecordBatch()
		b.Retain()
		all = append(all, b)
	}
	require.NoError(t, rdr.Err())
	rdr.Release()
	require.Len(t, all, 100)
	dictionary := all[0].Column(0).(*array.Dictionary).Dictionary()
	bytes := int64(0)
	for _, b := range dictionary.Data().Buffers()[1:] {
		bytes += int64(b.Len())
	}
	for _, b := range all {
		require.Equal(t, bytes, limit.Used())
		b.Release()
	}
	require.Zero(t, limit.Used())

	// What one batch and its row group take.
	long := makeRows(0, 1000, 1)
	keys := array.NewStringBuilder(memory.DefaultAllocator)
	for i := range 1000 {
		keys.Append(strings.Repeat(strconv.Itoa(i%5), 100_000))
	}
	r.add(array.NewRecordBatch(long.Schema(), append([]arrow.Array{long.Column(0), keys.NewArray()}, long.Columns()[2:]...), 1000), 1, parquettest.Options{})
	source = r.source()
	source.Coded, source.Checked, source.Files = []int{2}, nil, source.Files[1:]
	s, err = scan.New(scan.Options{Files: catalogtest.FromStore(r.store), Budget: limit, BatchRows: 10, Ahead: scan.NoAhead})
	require.NoError(t, err)
	rdr, err = s.Open(t.Context(), source, r.columns("key"))
	require.NoError(t, err)
	defer rdr.Release()
	for rdr.Next() {
		require.True(t, batch.IsCoded(rdr.RecordBatch().Column(0)))
		require.Less(t, limit.Used(), int64(5*100_000*5/2), "the dictionary's page, and its values")
	}
	require.NoError(t, rdr.Err())
}
