package parquet_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/cores"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// project returns the columns of a schema at the given positions.
func project(sc *arrow.Schema, at ...int) *arrow.Schema {
	var fields []arrow.Field
	for _, i := range at {
		fields = append(fields, sc.Field(i))
	}
	return arrow.NewSchema(fields, nil)
}

func TestFooter(t *testing.T) {
	content := write(t, parquettest.Options{RowGroupRows: 400, FieldIDs: []int{7, 3, 20, 1}}, numbers(t, 0, 1000))
	f := open(t, content)
	require.Equal(t, location, f.Location())
	require.Equal(t, int64(1000), f.Rows())
	require.Equal(t, int64(len(content)), f.FileSize())
	require.Positive(t, f.Bytes())
	groups := f.RowGroups()
	require.Len(t, groups, 3)
	for i, g := range groups {
		require.Equal(t, int64(i*400), g.FirstRow)
		require.Equal(t, []int64{400, 400, 200}[i], g.Rows)
		require.Equal(t, g.Bytes, f.Stored(i, []int{7, 3, 20, 1}))
		require.Positive(t, f.Stored(i, []int{3}))
		require.Zero(t, f.Stored(i, []int{99}))
	}
	require.True(t, f.HasFieldIDs())
	var names []string
	var fieldIDs, leaves []int
	for _, field := range f.Fields() {
		names = append(names, field.Name)
		fieldIDs = append(fieldIDs, field.ID)
		leaves = append(leaves, field.Leaves...)
	}
	require.Equal(t, []string{"id", "f", "s", "l"}, names)
	require.Equal(t, []int{7, 3, 20, 1}, fieldIDs)
	require.Equal(t, []int{0, 1, 2, 3}, leaves)
	field, ok := f.Field(1)
	require.True(t, ok)
	require.Equal(t, "l", field.Name)
	_, ok = f.Field(parquet.NoFieldID)
	require.False(t, ok)
}

func TestWithoutFieldIDs(t *testing.T) {
	f := open(t, write(t, parquettest.Options{FieldIDs: []int{}}, array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 0)))
	require.False(t, f.HasFieldIDs())
	rdr, err := array.NewRecordReader(numbersSchema(), []arrow.RecordBatch{numbers(t, 0, 10)})
	require.NoError(t, err)
	defer rdr.Release()
	var out writer
	err = parquettest.Write(&out, rdr, parquettest.Options{})
	require.NoError(t, err)
	f = open(t, out.content)
	require.False(t, f.HasFieldIDs())
	require.Equal(t, parquet.NoFieldID, f.Fields()[0].ID)
}

type writer struct {
	content []byte
	closed  bool
}

func (w *writer) Write(p []byte) (int, error) {
	w.content = append(w.content, p...)
	return len(p), nil
}

func (w *writer) Close() error {
	w.closed = true
	return nil
}

func TestWriteLeavesTheWriterOpen(t *testing.T) {
	var out writer
	rdr, err := array.NewRecordReader(numbersSchema(), []arrow.RecordBatch{numbers(t, 0, 10), numbers(t, 10, 5)})
	require.NoError(t, err)
	defer rdr.Release()
	require.NoError(t, parquettest.Write(&out, rdr, parquettest.Options{FieldIDs: ids(4), RowGroupRows: 6}))
	require.False(t, out.closed)
	f := open(t, out.content)
	require.Equal(t, int64(15), f.Rows())
	require.Len(t, f.RowGroups(), 3)
	requireEqual(t, numbers(t, 0, 15), mustRead(t, f, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema()}))
}

func TestProjections(t *testing.T) {
	all := numbers(t, 0, 1000)
	f := open(t, write(t, parquettest.Options{RowGroupRows: 300}, all))
	for _, at := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2}, {3}, {1, 3}, {0, 0}} {
		var fields []int
		for _, i := range at {
			fields = append(fields, i+1)
		}
		got := mustRead(t, f, parquet.ReadOptions{Fields: fields, Schema: project(numbersSchema(), at...), BatchRows: 128})
		for out, in := range at {
			require.True(t, array.Equal(all.Column(in), got.Column(out)), "%v: column %d", at, out)
		}
	}
}

func TestNoColumns(t *testing.T) {
	f := open(t, write(t, parquettest.Options{RowGroupRows: 300}, numbers(t, 0, 1000)))
	got := mustRead(t, f, parquet.ReadOptions{Schema: arrow.NewSchema(nil, nil), BatchRows: 128})
	require.Equal(t, int64(1000), got.NumRows())
}

func TestRowGroups(t *testing.T) {
	all := numbers(t, 0, 1000)
	f := open(t, write(t, parquettest.Options{RowGroupRows: 300}, all))
	for _, groups := range [][]int{{0}, {3}, {1, 2}, {3, 0}, {}} {
		var parts []arrow.RecordBatch
		for _, g := range groups {
			rg := f.RowGroups()[g]
			parts = append(parts, all.NewSlice(rg.FirstRow, rg.FirstRow+rg.Rows))
		}
		for _, batchRows := range []int{0, 1, 299, 300, 301} {
			got := mustRead(t, f, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), RowGroups: groups, BatchRows: batchRows})
			requireEqual(t, concat(t, numbersSchema(), parts), got)
		}
	}
	_, err := f.Read(t.Context(), parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), RowGroups: []int{4}})
	require.ErrorContains(t, err, "row group 4")
}

func TestEmptyFile(t *testing.T) {
	f := open(t, write(t, parquettest.Options{}, numbers(t, 0, 0)))
	require.Zero(t, f.Rows())
	require.Zero(t, mustRead(t, f, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema()}).NumRows())
}

func TestAbsentColumns(t *testing.T) {
	f := open(t, write(t, parquettest.Options{RowGroupRows: 30}, numbers(t, 0, 100)))
	wanted := func(nullable bool) *arrow.Schema {
		return arrow.NewSchema([]arrow.Field{
			{Name: "new", Type: list(arrow.BinaryTypes.String, true), Nullable: nullable},
			{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		}, nil)
	}
	opts := parquet.ReadOptions{Fields: []int{50, 1}, Schema: wanted(true)}
	_, err := read(t, f, opts)
	require.ErrorContains(t, err, "the file has no column new (field id 50)")
	require.Equal(t, fault.Invalid, fault.KindOf(err))

	opts.NullIfAbsent = true
	got := mustRead(t, f, opts)
	require.Equal(t, 100, got.Column(0).NullN())
	require.True(t, array.Equal(numbers(t, 0, 100).Column(0), got.Column(1)))

	opts.Fields, opts.Schema = []int{50}, project(wanted(true), 0)
	require.Equal(t, 100, mustRead(t, f, opts).Column(0).NullN())

	opts.Fields, opts.Schema = []int{50, 1}, wanted(false)
	_, err = read(t, f, opts)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

func TestBatchesLiveUntilNext(t *testing.T) {
	all := numbers(t, 0, 1000)
	f := open(t, write(t, parquettest.Options{RowGroupRows: 300}, all))
	rdr, err := f.Read(t.Context(), parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), BatchRows: 100, Memory: allocator(t), Scratch: batch.NewPoison(&batch.Pool{})})
	require.NoError(t, err)
	var kept []arrow.RecordBatch
	for rdr.Next() {
		rdr.RecordBatch().Retain()
		kept = append(kept, rdr.RecordBatch())
	}
	require.NoError(t, rdr.Err())
	require.Nil(t, rdr.RecordBatch())
	rdr.Retain()
	rdr.Release()
	rdr.Release()
	require.False(t, rdr.Next())
	requireEqual(t, all, concat(t, numbersSchema(), kept))
	for _, b := range kept {
		b.Release()
	}
}

func TestEarlyRelease(t *testing.T) {
	f := open(t, write(t, parquettest.Options{RowGroupRows: 300}, numbers(t, 0, 1000)))
	for nexts := range 5 {
		rdr, err := f.Read(t.Context(), parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), BatchRows: 100, Memory: allocator(t), Cores: cores.New(2)})
		require.NoError(t, err)
		for range nexts {
			require.True(t, rdr.Next())
		}
		rdr.Release()
		require.False(t, rdr.Next())
	}
}

// opened opens a file in a store with fault injection.
func opened(t testing.TB, content []byte, footer *parquet.Footer) (*errstore.Store, *parquet.File) {
	t.Helper()
	m := storetest.NewMemory()
	m.Put(location, content)
	s := errstore.New(m)
	o, err := s.Open(t.Context(), location, int64(len(content)))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, o.Close())
		require.Zero(t, s.Counts().Open)
	})
	f, err := parquet.Open(t.Context(), o, parquet.Options{Footer: footer})
	require.NoError(t, err)
	return s, f
}

func TestRequests(t *testing.T) {
	wide := arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Int64},
		{Name: "gap", Type: arrow.BinaryTypes.Binary},
		{Name: "b", Type: arrow.PrimitiveTypes.Int64},
		{Name: "c", Type: arrow.PrimitiveTypes.Int64},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, wide)
	for i := range 2000 {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.BinaryBuilder).Append(make([]byte, 100))
		b.Field(2).(*array.Int64Builder).Append(int64(-i))
		b.Field(3).(*array.Int64Builder).Append(int64(i))
	}
	content := write(t, parquettest.Options{RowGroupRows: 1000, Codec: parquettest.Uncompressed, Plain: true, PageIndex: true}, b.NewRecordBatch())
	s, f := opened(t, content, nil)
	require.Equal(t, errstore.Counts{Opens: 1, Open: 1, Reads: 1, Bytes: 64 << 10}, s.Counts(), "one read of the tail")

	s.Reset()
	rdr, err := f.Read(t.Context(), parquet.ReadOptions{Fields: []int{4, 1, 3}, Schema: project(wide, 3, 0, 2)})
	require.NoError(t, err)
	require.Zero(t, s.Counts().Reads, "nothing is read before the first Next")
	require.True(t, rdr.Next())
	require.Equal(t, 2, s.Counts().Reads, "column a, and columns b and c together")
	require.Equal(t, f.Stored(0, []int{1, 3, 4}), s.Counts().Bytes)
	require.True(t, rdr.Next())
	require.Equal(t, 4, s.Counts().Reads)
	require.False(t, rdr.Next())
	require.NoError(t, rdr.Err())
	rdr.Release()
	require.Equal(t, 4, s.Counts().Reads, "page indexes are not read")

	s2, again := opened(t, content, f.Footer)
	require.Zero(t, s2.Counts().Reads, "a known footer is not read again")
	require.Equal(t, int64(2000), mustRead(t, again, parquet.ReadOptions{Fields: []int{1}, Schema: project(wide, 0)}).NumRows())
}

func TestLongFooterTakesTwoReads(t *testing.T) {
	sc := make([]arrow.Field, 300)
	for i := range sc {
		sc[i] = arrow.Field{Name: "a_column_with_quite_a_long_name_" + string(rune('a'+i%26)) + string(rune('a'+i/26)), Type: arrow.PrimitiveTypes.Int32, Nullable: true}
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(sc, nil))
	for i := range sc {
		b.Field(i).(*array.Int32Builder).AppendValues([]int32{1, 2, 3, 4}, nil)
	}
	want := b.NewRecordBatch()
	content := write(t, parquettest.Options{RowGroupRows: 1, Codec: parquettest.Uncompressed, Plain: true}, want)
	s, f := opened(t, content, nil)
	require.Equal(t, 2, s.Counts().Reads)
	requireEqual(t, want, mustRead(t, f, parquet.ReadOptions{Fields: ids(300), Schema: want.Schema()}))
}

func TestFooterOfAnotherFile(t *testing.T) {
	a := open(t, write(t, parquettest.Options{}, numbers(t, 0, 10)))
	_, err := parquet.Open(t.Context(), object(t, write(t, parquettest.Options{}, numbers(t, 0, 1000))), parquet.Options{Footer: a.Footer})
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
}

func TestStorageErrors(t *testing.T) {
	content := write(t, parquettest.Options{RowGroupRows: 300, Codec: parquettest.Uncompressed}, numbers(t, 0, 1000))
	for nth := 1; nth <= 4; nth++ {
		s, f := opened(t, content, nil)
		s.Set(errstore.Rule{Nth: nth, Action: errstore.Fail(nil)})
		_, err := read(t, f, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), BatchRows: 100})
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
		require.Equal(t, location, fault.As(err).File)
		require.Equal(t, nth-1, *fault.As(err).RowGroup)

		mine := errors.New("mine")
		s.Set(errstore.Rule{Nth: nth, Action: errstore.Fail(mine)})
		_, err = read(t, f, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), BatchRows: 100})
		require.ErrorIs(t, err, mine)
		require.Equal(t, fault.Internal, fault.KindOf(err), "an unclassified error of a store is not damage")
	}
	m := storetest.NewMemory()
	m.Put(location, content)
	s := errstore.New(m, errstore.Rule{Action: errstore.Fail(nil)})
	o, err := s.Open(t.Context(), location, store.SizeUnknown)
	require.NoError(t, err)
	_, err = parquet.Open(t.Context(), o, parquet.Options{})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
}

func TestCancelled(t *testing.T) {
	s, f := opened(t, write(t, parquettest.Options{RowGroupRows: 300}, numbers(t, 0, 1000)), nil)
	ctx, cancel := context.WithCancel(t.Context())
	rdr, err := f.Read(ctx, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), Memory: allocator(t)})
	require.NoError(t, err)
	defer rdr.Release()
	require.True(t, rdr.Next())
	s.Set(errstore.Rule{Action: errstore.Hold(nil)})
	done := make(chan bool)
	go func() { done <- rdr.Next() }()
	cancel()
	require.False(t, <-done)
	require.ErrorIs(t, rdr.Err(), context.Canceled)
	require.Equal(t, fault.Internal, fault.KindOf(rdr.Err()))
	require.False(t, rdr.Next())
}

func TestConcurrentReaders(t *testing.T) {
	all := numbers(t, 0, 3000)
	f := open(t, write(t, parquettest.Options{RowGroupRows: 500, DecimalAsInteger: true}, all))
	pool := &batch.Pool{}
	var group errgroup.Group
	for i := range 8 {
		group.Go(func() error {
			rdr, err := f.Read(t.Context(), parquet.ReadOptions{
				Fields: ids(4), Schema: numbersSchema(), BatchRows: 100 + i*37, Memory: pool, Scratch: pool, Cores: cores.New(i % 3),
			})
			if err != nil {
				return err
			}
			defer rdr.Release()
			var row int64
			for rdr.Next() {
				if _, ok := f.Statistics(i%6, 1+i%4, arrow.PrimitiveTypes.Int64); !ok && i%4 != 3 {
					return errors.New("no statistics")
				}
				b := rdr.RecordBatch()
				if !array.RecordEqual(all.NewSlice(row, row+b.NumRows()), b) {
					return errors.New("wrong rows")
				}
				row += b.NumRows()
			}
			return rdr.Err()
		})
	}
	require.NoError(t, group.Wait())
}

func TestRowsDoNotDependOnRowGroups(t *testing.T) {
	all := numbers(t, 0, 500)
	var parts []arrow.RecordBatch
	for from := 0; from < 500; from += 90 {
		parts = append(parts, all.NewSlice(int64(from), int64(min(500, from+90))))
	}
	for _, rows := range []int64{23, 90, 499, 500, 0} {
		f := open(t, write(t, parquettest.Options{RowGroupRows: rows}, parts...))
		requireEqual(t, all, mustRead(t, f, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), BatchRows: 64}))
		require.True(t, slices.IsSortedFunc(f.RowGroups(), func(a, b parquet.RowGroup) int { return int(a.FirstRow - b.FirstRow) }))
	}
}
