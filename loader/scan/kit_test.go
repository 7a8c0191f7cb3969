package scan_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"github.com/twmb/murmur3"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/bucket/buckettest"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/storetest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buckets is how many buckets the tests' tables have.
const buckets = 4

// fields are the columns of the tests' tables.
func fields() []catalog.Field {
	element := arrow.Field{Name: "element", Type: arrow.PrimitiveTypes.Int64}
	return []catalog.Field{
		{ID: 1, Name: "id", Type: arrow.PrimitiveTypes.Int64, Required: true},
		{ID: 2, Name: "key", Type: arrow.BinaryTypes.String},
		{ID: 3, Name: "x", Type: arrow.PrimitiveTypes.Float64},
		{ID: 4, Name: "tags", Type: arrow.ListOfField(element)},
		{ID: 5, Name: "price", Type: &arrow.Decimal128Type{Precision: 12, Scale: 2}},
		{ID: 6, Name: "day", Type: arrow.FixedWidthTypes.Date32},
		{ID: 7, Name: "flag", Type: arrow.FixedWidthTypes.Boolean},
	}
}

// newTable has one spec, 0, by bucket of key.
func newTable() *catalog.Table {
	return &catalog.Table{
		Name: "ml.impressions", Pin: dataset.TablePin{UUID: "u", Snapshot: 8812}, Fields: fields(),
		Specs: map[int]catalog.Spec{
			0: {{ID: 1000, Source: 2, Name: "key_bucket", Transform: catalog.Transform{Kind: catalog.Bucket, N: buckets}}},
			1: {
				{ID: 1001, Source: 6, Name: "day", Transform: catalog.Transform{Kind: catalog.Identity}},
				{ID: 1000, Source: 2, Name: "key_bucket", Transform: catalog.Transform{Kind: catalog.Bucket, N: buckets}},
			},
		},
	}
}

// keyOf returns the i-th key that hashes to a bucket; none of bucket.Null.
func keyOf(b int32, i int) (string, bool) {
	if b == bucket.Null {
		return "", false
	}
	for try := 0; ; try++ {
		key := fmt.Sprintf("k%d.%d", i, try)
		if buckettest.Of(int32(murmur3.Sum32([]byte(key))), buckets) == int(b) {
			return key, true
		}
	}
}

// makeRows makes n rows from number from on, with keys of a bucket.
func makeRows(from, n int, b int32) arrow.RecordBatch {
	list := fields()
	out := make([]arrow.Field, len(list))
	for i, f := range list {
		out[i] = f.Arrow()
	}
	rows := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(out, nil))
	for i := from; i < from+n; i++ {
		rows.Field(0).(*array.Int64Builder).Append(int64(i))
		if key, ok := keyOf(b, i); ok {
			rows.Field(1).(*array.StringBuilder).Append(key)
		} else {
			rows.Field(1).AppendNull()
		}
		l := rows.Field(3).(*array.ListBuilder)
		if i%5 == 0 {
			rows.Field(2).AppendNull()
			l.AppendNull()
		} else {
			rows.Field(2).(*array.Float64Builder).Append(float64(i) / 4)
			l.Append(true)
			for j := range i % 4 {
				l.ValueBuilder().(*array.Int64Builder).Append(int64(i*10 + j))
			}
		}
		rows.Field(4).(*array.Decimal128Builder).Append(decimal128.FromI64(int64(i * 5)))
		rows.Field(5).(*array.Date32Builder).Append(arrow.Date32(i / 10))
		rows.Field(6).(*array.BooleanBuilder).Append(i%3 == 0)
	}
	return rows.NewRecordBatch()
}

// rig is a table with files in memory.
type rig struct {
	t     testing.TB
	table *catalog.Table
	files *storetest.Memory
	store *errstore.Store
	list  []catalog.File
	rows  []arrow.RecordBatch // per file
	next  int                 // number of the next row
}

func newRig(t testing.TB) *rig {
	files := storetest.NewMemory()
	return &rig{t: t, table: newTable(), files: files, store: errstore.New(files)}
}

// add writes rows as a file and lists it.
func (r *rig) add(rows arrow.RecordBatch, b int32, opts parquettest.Options) *catalog.File {
	r.t.Helper()
	if opts.FieldIDs == nil {
		for i := range int(rows.NumCols()) {
			opts.FieldIDs = append(opts.FieldIDs, i+1)
		}
	}
	rdr, err := array.NewRecordReader(rows.Schema(), []arrow.RecordBatch{rows})
	require.NoError(r.t, err)
	defer rdr.Release()
	var content bytes.Buffer
	err = parquettest.Write(&content, rdr, opts)
	require.NoError(r.t, err)
	location := fmt.Sprintf("file:///t/%d.parquet", len(r.list))
	r.files.Put(location, content.Bytes())
	f := catalog.File{Location: location, Bytes: int64(content.Len()), Rows: rows.NumRows(), Partition: []any{nil}}
	if b != bucket.Null {
		f.Partition[0] = int64(b)
	}
	r.list, r.rows = append(r.list, f), append(r.rows, rows)
	return &r.list[len(r.list)-1]
}

// grow adds a file of n rows in row groups of some rows.
func (r *rig) grow(n, group int, b int32) *catalog.File {
	r.t.Helper()
	rows := makeRows(r.next, n, b)
	r.next += n
	return r.add(rows, b, parquettest.Options{RowGroupRows: int64(group), PageBytes: 64, Codec: parquettest.Snappy})
}

// everyColumn is the field ids of all columns of a table.
func everyColumn(t *catalog.Table) []int {
	var ids []int
	for _, f := range slices.Concat(t.Fields, t.Nested) {
		ids = append(ids, f.ID)
	}
	slices.Sort(ids)
	return ids
}

// source is all files whole, checked by key.
func (r *rig) source() plan.Source {
	s := plan.Source{Table: r.table, Planned: everyColumn(r.table), Checked: r.table.Fields[1:2]}
	for _, f := range r.list {
		s.Files = append(s.Files, plan.FileRange{File: f, To: f.Rows})
	}
	return s
}

func (r *rig) filter(text string) *expr.Filter {
	r.t.Helper()
	parsed, err := expr.Parse(text)
	require.NoError(r.t, err)
	bound, err := parsed.Bind(r.table.Schema())
	require.NoError(r.t, err)
	return bound
}

// columns picks columns of the table by name.
func (r *rig) columns(names ...string) []catalog.Field {
	r.t.Helper()
	var out []catalog.Field
	for _, name := range names {
		f, ok := r.table.Field(name)
		require.True(r.t, ok, name)
		out = append(out, f)
	}
	return out
}

// scanner makes one with allocators that know what leaks, and what is taken before
// it is reserved.
func (r *rig) scanner(opts scan.Options) *scan.Scanner {
	r.t.Helper()
	if opts.Files == nil {
		opts.Files = catalogtest.FromStore(r.store)
	}
	if opts.Budget == nil {
		opts.Budget = budget.New(1 << 50)
	}
	meter := &metered{limit: opts.Budget}
	if opts.Memory == nil {
		checked := memory.NewCheckedAllocator(batch.Default())
		opts.Memory = checked
		if t, ok := r.t.(*testing.T); ok {
			t.Cleanup(func() { checked.AssertSize(t, 0) })
		}
	}
	if t, ok := r.t.(*testing.T); ok {
		t.Cleanup(func() { meter.check(t) })
		opts.Memory = meter.put(opts.Memory)
	}
	s, err := scan.New(opts)
	require.NoError(r.t, err)
	if _, ok := r.t.(*testing.T); ok {
		s.SetScratch(meter.put(batch.NewAllocator()))
	}
	return s
}

// texts writes a batch as one line per row.
func texts(b arrow.RecordBatch) []string {
	out := make([]string, b.NumRows())
	for i := range out {
		var cells []string
		for _, c := range b.Columns() {
			cells = append(cells, c.ValueStr(i))
		}
		out[i] = strings.Clone(strings.Join(cells, " | ")) // of one cell, Join returns the cell itself
	}
	return out
}

// want is what a source must give: the rows of its ranges that pass, by number.
func (r *rig) want(s plan.Source, columns []catalog.Field, pass func(row int64) bool) []string {
	r.t.Helper()
	out := []string{}
	for _, f := range s.Files {
		for i, own := range r.list {
			if own.Location != f.File.Location {
				continue
			}
			ids := r.rows[i].Column(0).(*array.Int64)
			projected := make([]arrow.Array, len(columns))
			names := make([]arrow.Field, len(columns))
			for c, column := range columns {
				projected[c], names[c] = r.rows[i].Column(column.ID-1), column.Arrow()
			}
			lines := texts(array.NewRecordBatch(arrow.NewSchema(names, nil), projected, own.Rows))
			for at := f.From; at < f.To; at++ {
				if pass == nil || pass(ids.Value(int(at))) {
					out = append(out, lines[at])
				}
			}
		}
	}
	return out
}

// outcome is what came out of a scan.
type outcome struct {
	lines   []string
	files   []string // of each row
	batches []int64
	err     error
}

// read reads a source to its end, checking the reader's contract on the way.
func (r *rig) read(s *scan.Scanner, source plan.Source, columns []catalog.Field) outcome {
	r.t.Helper()
	return r.readWith(context.Background(), s, source, columns)
}

func (r *rig) readWith(ctx context.Context, s *scan.Scanner, source plan.Source, columns []catalog.Field) outcome {
	r.t.Helper()
	out := outcome{lines: []string{}}
	reads := r.store.Counts().Opens
	rdr, err := s.Open(ctx, source, columns)
	if err != nil {
		out.err = err
		return out
	}
	require.Equal(r.t, reads, r.store.Counts().Opens, "something was opened before the first Next")
	rows := int64(0)
	for rdr.Next() {
		b := rdr.RecordBatch()
		require.Positive(r.t, b.NumRows())
		require.True(r.t, batch.SameValues(b.Schema(), rdr.Schema()))
		require.Len(r.t, b.Columns(), len(columns))
		out.lines = append(out.lines, texts(b)...)
		out.batches = append(out.batches, b.NumRows())
		require.Equal(r.t, rdr.Files()(rows), rdr.Files()(rows+b.NumRows()-1), "a batch of two files")
		rows += b.NumRows()
		require.Empty(r.t, rdr.Files()(rows))
	}
	require.Nil(r.t, rdr.RecordBatch())
	require.False(r.t, rdr.Next())
	out.err = rdr.Err()
	rdr.Release()
	for i := range rows {
		out.files = append(out.files, rdr.Files()(i))
	}
	require.Zero(r.t, r.store.Counts().Open, "files stay open")
	return out
}

func locationOf(i int) string { return fmt.Sprintf("file:///t/%d.parquet", i) }

// addAsIs is add with the field ids that the rows' own schema gives.
func (r *rig) addAsIs(rows arrow.RecordBatch, b int32) {
	r.t.Helper()
	rdr, err := array.NewRecordReader(rows.Schema(), []arrow.RecordBatch{rows})
	require.NoError(r.t, err)
	defer rdr.Release()
	var content bytes.Buffer
	err = parquettest.Write(&content, rdr, parquettest.Options{})
	require.NoError(r.t, err)
	f := catalog.File{Location: locationOf(len(r.list)), Bytes: int64(content.Len()), Rows: rows.NumRows(), Partition: []any{nil}}
	if b != bucket.Null {
		f.Partition[0] = int64(b)
	}
	r.files.Put(f.Location, content.Bytes())
	r.list, r.rows = append(r.list, f), append(r.rows, rows)
}
