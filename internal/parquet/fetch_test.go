package parquet_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/storetest"
)

// purse grants memory for reading ahead.
type purse struct {
	mu    sync.Mutex
	none  bool
	held  int64
	given int
	lent  int
	drops []func()
}

type spare struct {
	of    *purse
	bytes int64
	once  sync.Once
}

func (s *spare) MarkInFlight() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.lent++
}

func (s *spare) Release() {
	s.once.Do(func() {
		s.of.mu.Lock()
		defer s.of.mu.Unlock()
		s.of.held -= s.bytes
	})
}

func (p *purse) ahead(n int64, drop func()) (parquet.Spare, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.none {
		return nil, false
	}
	p.given++
	p.held += n
	p.drops = append(p.drops, drop)
	return &spare{of: p, bytes: n}, true
}

func (p *purse) drop() {
	p.mu.Lock()
	drops := p.drops
	p.mu.Unlock()
	for _, d := range drops {
		d()
	}
}

// faulty returns a file of four row groups in a store with fault injection.
func faulty(t *testing.T) (*errstore.Store, *parquet.File) {
	t.Helper()
	return opened(t, write(t, parquettest.Options{RowGroupRows: 250, Codec: parquettest.Uncompressed, Plain: true}, numbers(t, 0, 1000)), nil)
}

// TestFetchReadsNextRowGroup reads each next row group once while the open one is
// decoded, and returns the same rows.
func TestFetchReadsNextRowGroup(t *testing.T) {
	s, f := faulty(t)
	s.Reset()
	p := &purse{}
	rdr, err := f.Read(t.Context(), parquet.ReadOptions{
		Fields: ids(4), Schema: numbersSchema(), BatchRows: 100, Memory: allocator(t), Scratch: allocator(t), Ahead: p.ahead,
	})
	require.NoError(t, err)
	require.True(t, rdr.Next())
	require.Equal(t, 1, p.given)
	require.Equal(t, f.Stored(1, ids(4)), p.held)
	rows := rdr.RecordBatch().NumRows()
	for rdr.Next() {
		rows += rdr.RecordBatch().NumRows()
	}
	require.NoError(t, rdr.Err())
	require.Equal(t, int64(1000), rows)
	rdr.Release()
	require.Equal(t, 4, s.Counts().Reads)
	require.Equal(t, 3, p.given)
	require.Zero(t, p.held)

	p = &purse{}
	want := mustRead(t, f, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema()})
	requireEqual(t, want, mustRead(t, f, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), Ahead: p.ahead, RowGroups: []int{0, 1, 2, 3}}))
	require.Zero(t, p.held)
}

// TestFetchBeforeFirstNext reads the first row group ahead.
func TestFetchBeforeFirstNext(t *testing.T) {
	s, f := faulty(t)
	s.Reset()
	p := &purse{}
	rdr, err := f.Read(t.Context(), parquet.ReadOptions{
		Fields: ids(4), Schema: numbersSchema(), RowGroups: []int{2}, Memory: allocator(t), Scratch: allocator(t), Ahead: p.ahead,
	})
	require.NoError(t, err)
	rdr.Fetch()
	rdr.Fetch()
	require.True(t, rdr.Next())
	require.Equal(t, 1, s.Counts().Reads)
	require.Equal(t, 1, p.given)
	require.False(t, rdr.Next())
	rdr.Release()
	require.Zero(t, p.held)
}

// TestFetchWithoutMemory gets no memory: nothing is read ahead, and the rows are the
// same.
//
// spec: storage-11
func TestFetchWithoutMemory(t *testing.T) {
	_, f := faulty(t)
	p := &purse{none: true}
	got := mustRead(t, f, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), Ahead: p.ahead})
	require.Equal(t, int64(1000), got.NumRows())
	require.Zero(t, p.given)
}

// TestFetchDropped drops what was read ahead: it is read again, and its memory is
// returned at once, or when the read ends.
//
// spec: storage-11
func TestFetchDropped(t *testing.T) {
	s, f := faulty(t)
	for _, running := range []bool{false, true} {
		p := &purse{}
		rdr, err := f.Read(t.Context(), parquet.ReadOptions{
			Fields: ids(4), Schema: numbersSchema(), RowGroups: []int{0, 1}, Memory: allocator(t), Scratch: allocator(t), Ahead: p.ahead,
		})
		require.NoError(t, err)
		gate := make(chan struct{})
		if running {
			s.Set(errstore.Rule{Nth: 2, Action: errstore.Hold(gate)})
		}
		require.True(t, rdr.Next())
		if !running {
			rdr.AwaitFetch()
		}
		p.drop()
		if running {
			require.Equal(t, 1, p.lent)
		} else {
			require.Zero(t, p.held)
		}
		s.Set()
		require.True(t, rdr.Next())
		require.Zero(t, p.held)
		p.drop() // too late
		require.Equal(t, int64(250), rdr.RecordBatch().NumRows())
		require.False(t, rdr.Next())
		require.NoError(t, rdr.Err())
		rdr.Release()
		close(gate)
	}
}

// TestFetchFails expects that an error of reading ahead ends the reader when it reaches
// that row group, and names the group.
func TestFetchFails(t *testing.T) {
	s, f := faulty(t)
	mine := errors.New("mine")
	for _, c := range []error{nil, mine} {
		s.Set(errstore.Rule{Nth: 2, Action: errstore.Fail(c)})
		p := &purse{}
		rdr, err := f.Read(t.Context(), parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), Memory: allocator(t), Scratch: allocator(t), Ahead: p.ahead})
		require.NoError(t, err)
		require.True(t, rdr.Next())
		require.False(t, rdr.Next())
		require.Equal(t, 1, *fault.As(rdr.Err()).RowGroup)
		if c == nil {
			require.Equal(t, fault.Unavailable, fault.KindOf(rdr.Err()))
		} else {
			require.ErrorIs(t, rdr.Err(), mine)
		}
		rdr.Release()
		require.Zero(t, p.held)
	}
}

// TestReleaseEndsFetch releases readers during a fetch: nothing runs afterwards, and the
// memory of a read that hangs stays reserved until the read ends.
func TestReleaseEndsFetch(t *testing.T) {
	s, f := faulty(t)
	p := &purse{}
	s.Set(errstore.Rule{Nth: 2, Action: errstore.Hold(nil)})
	rdr, err := f.Read(t.Context(), parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), Memory: allocator(t), Scratch: allocator(t), Ahead: p.ahead})
	require.NoError(t, err)
	require.True(t, rdr.Next())
	rdr.Release()
	require.Zero(t, p.held)

	synctest.Test(t, func(t *testing.T) {
		m := storetest.NewMemory()
		content := write(t, parquettest.Options{RowGroupRows: 250, Codec: parquettest.Uncompressed, Plain: true}, numbers(t, 0, 1000))
		m.Put(location, content)
		hanging := errstore.New(m)
		o, err := store.NewBounded(hanging, store.NewCalls(store.Options{})).Open(t.Context(), location, int64(len(content)))
		require.NoError(t, err)
		f, err := parquet.Open(t.Context(), o, parquet.Options{})
		require.NoError(t, err)
		asked, gate := make(chan struct{}), make(chan struct{})
		hanging.Set(errstore.Rule{Nth: 2, Action: errstore.Hang(asked, gate)})
		scratch := memory.NewCheckedAllocator(batch.Default())
		rdr, err := f.Read(t.Context(), parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), Memory: allocator(t), Scratch: scratch, Ahead: p.ahead})
		require.NoError(t, err)
		require.True(t, rdr.Next())
		<-asked
		rdr.Release()
		require.Positive(t, p.held)
		require.Positive(t, scratch.CurrentAlloc())
		close(gate)
		synctest.Wait()
		require.Zero(t, p.held)
		scratch.AssertSize(t, 0)
		require.NoError(t, o.Close())
	})
}

// TestEndIsNotReadAgain reads a file inside its End without storage, and no byte of a
// larger file twice.
func TestEndIsNotReadAgain(t *testing.T) {
	for _, rows := range []int{100, 3000, 40_000} {
		want := numbers(t, 0, rows)
		content := write(t, parquettest.Options{RowGroupRows: int64(rows/3 + 1), Codec: parquettest.Uncompressed, Plain: true, PageIndex: true}, want)
		m := storetest.NewMemory()
		m.Put(location, content)
		s := errstore.New(m)
		o, err := s.Open(t.Context(), location, int64(len(content)))
		require.NoError(t, err)
		footer, end, err := parquet.ReadFooterAndTail(t.Context(), o, parquet.FooterLimits{Tail: 32 << 10})
		require.NoError(t, err)
		require.Equal(t, min(int64(len(content)), 32<<10), end.Bytes())
		f, err := parquet.Open(t.Context(), o, parquet.Options{Footer: footer, End: end})
		require.NoError(t, err)
		requireEqual(t, want, mustRead(t, f, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema(), Ahead: (&purse{}).ahead}))
		if len(content) <= 32<<10 {
			require.Equal(t, 1, s.Counts().Reads)
		}
		requests := s.Requests()
		slices.SortFunc(requests, func(a, b errstore.Request) int { return int(a.Offset - b.Offset) })
		for i := 1; i < len(requests); i++ {
			before := requests[i-1]
			require.GreaterOrEqual(t, requests[i].Offset, before.Offset+int64(before.Bytes), "%d rows: bytes are read twice", rows)
		}
		require.NoError(t, o.Close())
	}
}

// TestReadSize splits long reads into several reads of whole chunks, and does not join
// distant chunks.
func TestReadSize(t *testing.T) {
	content := write(t, parquettest.Options{Codec: parquettest.Uncompressed, Plain: true}, numbers(t, 0, 10_000))
	m := storetest.NewMemory()
	m.Put(location, content)
	s := errstore.New(m)
	o, err := s.Open(t.Context(), location, int64(len(content)))
	require.NoError(t, err)
	footer, err := parquet.ReadFooter(t.Context(), o, parquet.FooterLimits{})
	require.NoError(t, err)
	for size, reads := range map[int64]int{0: 1, 1: 4, int64(len(content)): 1} {
		s.Reset()
		f, err := parquet.Open(t.Context(), o, parquet.Options{Footer: footer, ReadSize: size})
		require.NoError(t, err)
		got, err := read(t, f, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema()})
		require.NoError(t, err)
		requireEqual(t, numbers(t, 0, 10_000), got)
		require.Equal(t, reads, s.Counts().Reads, "read size %d", size)
	}
	for gap, reads := range map[int64]int{1: 2, int64(len(content)): 1} {
		s.Reset()
		f, err := parquet.Open(t.Context(), o, parquet.Options{Footer: footer, Gap: gap})
		require.NoError(t, err)
		_, err = read(t, f, parquet.ReadOptions{Fields: []int{1, 4}, Schema: project(numbersSchema(), 0, 3)})
		require.NoError(t, err)
		require.Equal(t, reads, s.Counts().Reads, "gap %d", gap)
	}
}

// TestParallelReadsFail expects the error of the first of several concurrent reads to
// fail, and the others to end.
func TestParallelReadsFail(t *testing.T) {
	content := write(t, parquettest.Options{Codec: parquettest.Uncompressed, Plain: true}, numbers(t, 0, 10_000))
	m := storetest.NewMemory()
	m.Put(location, content)
	s := errstore.New(m)
	o, err := s.Open(t.Context(), location, int64(len(content)))
	require.NoError(t, err)
	f, err := parquet.Open(t.Context(), o, parquet.Options{ReadSize: 1})
	require.NoError(t, err)
	s.Set(errstore.Rule{Nth: 3, Action: errstore.Fail(nil)}, errstore.Rule{Action: errstore.Hold(nil)})
	_, err = read(t, f, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema()})
	require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String(), "%v", err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rdr, err := f.Read(ctx, parquet.ReadOptions{Fields: ids(4), Schema: numbersSchema()})
	require.NoError(t, err)
	require.False(t, rdr.Next())
	require.ErrorIs(t, rdr.Err(), context.Canceled)
	rdr.Release()
	require.NoError(t, o.Close())
}

// taggedObject has a tag, like objects in an object store.
type taggedObject struct {
	store.Object
	tag, expected string
}

func (o *taggedObject) Tag() string { return o.tag }

func (o *taggedObject) Expect(tag string) error {
	o.expected = tag
	return nil
}

// TestOpenExpectsFooterTag opens objects with a known footer: the object gets the tag
// that the file had when the footer was read.
//
// spec: storage-3
func TestOpenExpectsFooterTag(t *testing.T) {
	content := write(t, parquettest.Options{}, numbers(t, 0, 10))
	first := &taggedObject{Object: object(t, content), tag: "one"}
	footer, err := parquet.ReadFooter(t.Context(), first, parquet.FooterLimits{})
	require.NoError(t, err)
	renamed, err := footer.ApplyNameMapping(func([]string) (int, int, bool) { return 0, 0, false })
	require.NoError(t, err)
	for _, known := range []*parquet.Footer{footer, renamed} {
		later := &taggedObject{Object: object(t, content)}
		_, err = parquet.Open(t.Context(), later, parquet.Options{Footer: known})
		require.NoError(t, err)
		require.Equal(t, "one", later.expected)
	}
}
