package scan_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/scan"
)

// long has one file of twenty row groups of a hundred rows.
func long(t testing.TB) *rig {
	r := newRig(t)
	r.grow(2000, 100, 1)
	return r
}

// sizes returns the bytes of the largest batch, and those of the largest stored row
// group and of the footer of the first file, which is held as long as it is open.
func sizes(t *testing.T, r *rig, columns ...string) (largest, stored int64) {
	t.Helper()
	rdr, err := r.scanner(scan.Options{}).Open(t.Context(), r.source(), r.columns(columns...))
	require.NoError(t, err)
	defer rdr.Release()
	for rdr.Next() {
		largest = max(largest, batch.Size(rdr.RecordBatch()))
	}
	require.NoError(t, rdr.Err())
	for _, q := range r.store.Requests() {
		stored = max(stored, int64(q.Bytes))
	}
	f := r.source().Files[0].File
	object, err := r.store.Open(t.Context(), f.Location, f.Bytes)
	require.NoError(t, err)
	defer func() { require.NoError(t, object.Close()) }()
	footer, err := parquet.ReadFooter(t.Context(), object, parquet.FooterLimits{})
	require.NoError(t, err)
	return largest, stored + footer.Bytes()
}

// libraryPages is what the library's buffers for small pages of a column take.
const libraryPages = 24 << 10

// TestMemoryIsBounded checks the maximum that a reader reserved from the budget.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	r := long(t)
	largest, stored := sizes(t, r, all...)
	for _, ahead := range []int64{scan.NoAhead, 1, 2 * largest, 5 * largest, 100 * largest} {
		limit := budget.New(1 << 40)
		got := r.read(r.scanner(scan.Options{Ahead: ahead, Budget: limit}), r.source(), r.columns(all...))
		require.NoError(t, got.err)
		require.Zero(t, limit.Used())
		// The batch in hand, one that was admitted by a low estimate, those that wait;
		// and buffers for the pages of the three columns that the library decodes.
		require.LessOrEqual(t, limit.Peak(), max(ahead, 0)+2*largest+stored+3*libraryPages)
		require.GreaterOrEqual(t, limit.Peak(), largest)
	}
}

// TestWaitingBatchesHoldTheirReservation stops the consumer and checks the reservations.
func TestWaitingBatchesHoldTheirReservation(t *testing.T) {
	t.Parallel()
	r := long(t)
	limit := budget.New(1 << 40)
	rdr, err := r.scanner(scan.Options{Budget: limit}).Open(t.Context(), r.source(), r.columns(all...))
	require.NoError(t, err)
	require.Zero(t, limit.Used(), "nothing is held before the first Next")
	require.True(t, rdr.Next())
	require.GreaterOrEqual(t, limit.Used(), batch.Size(rdr.RecordBatch()))
	rdr.Release()
	require.Zero(t, limit.Used())
}

// TestTightBudgets reads with every budget from too small to plentiful: reading works, or
// fails with the remedy, and it works with every budget larger than one that works.
func TestTightBudgets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(300, 60, 1)
	columns := r.columns(all...)
	largest, stored := sizes(t, r, all...)
	works := false
	for bytes := largest / 2; bytes < 4*(largest+stored); bytes += largest / 4 {
		limit := budget.New(bytes)
		got := r.read(r.scanner(scan.Options{Budget: limit}), r.source(), columns)
		require.Zero(t, limit.Used())
		require.LessOrEqual(t, limit.Peak(), bytes)
		if got.err != nil {
			require.False(t, works, "%d bytes are too little, less was enough", bytes)
			require.Equal(t, fault.Exhausted, fault.KindOf(got.err))
			require.ErrorContains(t, got.err, "raise the server's memory budget")
			require.ErrorContains(t, got.err, "ml.impressions@8812")
			continue
		}
		works = true
		require.Len(t, got.lines, 300)
	}
	require.True(t, works)
}

// TestFootersAreCharged checks that footers are charged as long as their files are open.
func TestFootersAreCharged(t *testing.T) {
	t.Parallel()
	r := long(t)
	limit := budget.New(1000)
	got := r.read(r.scanner(scan.Options{Budget: limit}), r.source(), r.columns(all...))
	require.Equal(t, fault.Exhausted, fault.KindOf(got.err))
	require.ErrorContains(t, got.err, "the footer of a file needs")
	require.Zero(t, limit.Used())
}

// TestReadAheadLeavesMemoryToOthers fills most of the budget: reading continues, and the
// remaining memory is not used for batches that were not requested yet.
func TestReadAheadLeavesMemoryToOthers(t *testing.T) {
	t.Parallel()
	r := long(t)
	largest, stored := sizes(t, r, all...)
	free := 3*largest + 2*stored
	limit := budget.New(100 * free)
	other, err := limit.Reserve("another stream", 99*free)
	require.NoError(t, err)
	defer other.Release()
	got := r.read(r.scanner(scan.Options{Budget: limit, Ahead: 50 * largest}), r.source(), r.columns(all...))
	require.NoError(t, got.err)
	require.Len(t, got.lines, 2000)
	require.LessOrEqual(t, limit.Peak()-99*free, free)
}

// TestReadsNoFurtherThanAhead counts requests while the consumer does not read.
func TestReadsNoFurtherThanAhead(t *testing.T) {
	t.Parallel()
	r := long(t)
	s := r.scanner(scan.Options{Ahead: scan.NoAhead, ReadTail: scan.NoTail})
	rdr, err := s.Open(t.Context(), r.source(), r.columns(all...))
	require.NoError(t, err)
	r.store.Reset()
	for n := 1; rdr.Next(); n++ {
		require.Equal(t, 1+n, r.store.Counts().Reads, "the footer, and a row group for each batch that was asked for")
	}
	require.NoError(t, rdr.Err())
	rdr.Release()

	largest, _ := sizes(t, r, all...)
	rdr, err = r.scanner(scan.Options{Ahead: 3 * largest, ReadTail: scan.NoTail, ReadAhead: scan.NoAhead}).Open(t.Context(), r.source(), r.columns(all...))
	require.NoError(t, err)
	defer rdr.Release()
	r.store.Reset()
	for n := 1; rdr.Next(); n++ {
		// Estimates may be half of what batches take in the end; the stored
		// bytes of one more row group may have been read.
		require.LessOrEqual(t, r.store.Counts().Reads, 1+n+2*3+1)
	}
	require.NoError(t, rdr.Err())
}

// TestLanesShareTheQueue checks that the queues of the scans of several lanes hold together as much
// as the queue of one lane, but each at least one batch.
func TestLanesShareTheQueue(t *testing.T) {
	t.Parallel()
	const batchRows = 100
	r := long(t)
	largest, _ := sizes(t, r, all...)
	decoded := func(ahead int64, lanes int) (rows int64) {
		synctest.Test(t, func(t *testing.T) {
			s := r.scanner(scan.Options{Ahead: ahead})
			source := r.source()
			source.Lanes = lanes
			rdr, err := s.Open(t.Context(), source, r.columns(all...))
			require.NoError(t, err)
			defer rdr.Release()
			require.True(t, rdr.Next())
			synctest.Wait()
			rows = s.Decoded()
		})
		return rows
	}
	require.Equal(t, decoded(12*largest, 1), decoded(12*largest, 0))
	require.Equal(t, decoded(3*largest, 0), decoded(12*largest, 4))
	require.Greater(t, decoded(12*largest, 1), decoded(12*largest, 4))
	require.EqualValues(t, 2*batchRows, decoded(12*largest, 1000), "the batch of the consumer and one in the queue")
}

// telling is a store that says when a file is opened.
type telling struct {
	store.Store
	location string
	opened   chan struct{}
}

func (s *telling) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	if location == s.location {
		close(s.opened)
	}
	return s.Store.Open(ctx, location, size)
}

// TestNextFileIsOpenedAhead returns the rows of the first file only after the second file
// was opened.
func TestNextFileIsOpenedAhead(t *testing.T) {
	t.Parallel()
	r := small(t)
	opened := make(chan struct{})
	r.store.Set(errstore.Rule{Location: locationOf(0), Call: errstore.Read, Nth: 2, Action: errstore.Hold(opened)})
	s := r.scanner(scan.Options{Files: catalogtest.FromStore(&telling{Store: r.store, location: locationOf(1), opened: opened})})
	got := r.read(s, r.source(), r.columns("id"))
	require.NoError(t, got.err)
	require.Len(t, got.lines, 90)
}

// TestEarlyRelease releases after every number of batches, and keeps one.
func TestEarlyRelease(t *testing.T) {
	t.Parallel()
	r := small(t)
	columns := r.columns("id", "key", "tags")
	source := r.source()
	source.Filter = r.filter("NOT flag")
	whole := r.read(r.scanner(scan.Options{BatchRows: 9}), source, columns)
	require.NoError(t, whole.err)
	for n := range len(whole.batches) + 2 {
		for _, ahead := range []int64{0, scan.NoAhead} {
			limit := budget.New(1 << 30)
			rdr, err := r.scanner(scan.Options{BatchRows: 9, Ahead: ahead, Budget: limit}).Open(t.Context(), source, columns)
			require.NoError(t, err)
			rdr.Retain()
			var kept arrow.RecordBatch
			for i := range n {
				require.Equal(t, i < len(whole.batches), rdr.Next())
				if i == n/2 && rdr.RecordBatch() != nil {
					kept = rdr.RecordBatch()
					kept.Retain()
				}
			}
			rdr.Release()
			rdr.Release()
			require.False(t, rdr.Next())
			require.Zero(t, limit.Used())
			require.Zero(t, r.store.Counts().Open)
			if kept != nil {
				first := 0
				for _, rows := range whole.batches[:n/2] {
					first += int(rows)
				}
				require.Equal(t, whole.lines[first:first+int(kept.NumRows())], texts(kept), "what was retained outlives the reader")
				kept.Release()
			}
		}
	}
}

// TestFootersAreReadOnce checks that a footer is read once per file, even by concurrent
// readers.
func TestFootersAreReadOnce(t *testing.T) {
	t.Parallel()
	r := small(t)
	footers, err := cache.New[*parquet.Footer](1 << 20)
	require.NoError(t, err)
	defer footers.Close()
	s := r.scanner(scan.Options{Footers: footers, ReadTail: scan.NoTail})
	want := r.want(r.source(), r.columns("id"), nil)
	require.Equal(t, want, r.read(s, r.source(), r.columns("id")).lines)
	first := r.store.Counts().Reads
	r.store.Reset()
	require.Equal(t, want, r.read(s, r.source(), r.columns("id")).lines)
	require.Equal(t, first-3, r.store.Counts().Reads)

	r.files.Put(locationOf(1), []byte("another file, under a name that was taken"))
	r.list[1].Bytes = 41
	got := r.read(s, r.source(), r.columns("id"))
	require.Equal(t, fault.Corrupt, fault.KindOf(got.err), "a footer is good for the file that it was read from alone")
}

// TestFootersAreNotSharedBetweenFiles checks that a footer is not used for a file of the
// same name in another table, nor for a file of a different length in the same table.
func TestFootersAreNotSharedBetweenFiles(t *testing.T) {
	t.Parallel()
	footers, err := cache.New[*parquet.Footer](1 << 20)
	require.NoError(t, err)
	defer footers.Close()
	lengths := map[int64]int{}
	for _, c := range []struct {
		table      string
		from, rows int
	}{{"first", 1200, 60}, {"second", 2400, 60}, {"second", 3600, 120}} {
		r := newRig(t)
		r.table.Pin.UUID = c.table
		f := r.add(makeRows(c.from, c.rows, bucket.Null), bucket.Null, parquettest.Options{Codec: parquettest.Uncompressed})
		lengths[f.Bytes]++
		source := r.source()
		source.Filter = r.filter(fmt.Sprintf("id >= %d", c.from))
		got := r.read(r.scanner(scan.Options{Footers: footers}), source, r.columns("id"))
		require.NoError(t, got.err)
		require.Equal(t, r.want(r.source(), r.columns("id"), nil), got.lines, "%s, from %d", c.table, c.from)
	}
	require.Len(t, lengths, 2, "the first two files are of one length")
}

// stubborn is a store whose first read continues after its context has ended, until the gate
// opens.
type stubborn struct {
	store.Store
	reading, gate chan struct{}
	first         sync.Once
	under         atomic.Int64 // reads under way
	early         atomic.Bool  // an object was closed under a read
}

func (s *stubborn) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	o, err := s.Store.Open(ctx, location, size)
	return &stubbornObject{Object: o, store: s}, err
}

type stubbornObject struct {
	store.Object
	store *stubborn
}

func (o *stubbornObject) ReadAt(ctx context.Context, p *memory.Buffer, off int64) error {
	o.store.under.Add(1)
	defer o.store.under.Add(-1)
	o.store.first.Do(func() {
		close(o.store.reading)
		<-o.store.gate
	})
	return o.Object.ReadAt(ctx, p, off)
}

func (o *stubbornObject) Close() error {
	if o.store.under.Load() > 0 {
		o.store.early.Store(true)
	}
	return o.Object.Close()
}

// TestFooterLoadsAreWaitedFor checks that, if a reader is released while the cache loads a
// footer for it, nothing uses its file afterwards.
func TestFooterLoadsAreWaitedFor(t *testing.T) {
	t.Parallel()
	r := small(t)
	footers, err := cache.New[*parquet.Footer](1 << 20)
	require.NoError(t, err)
	defer footers.Close()
	slow := &stubborn{Store: r.store, reading: make(chan struct{}), gate: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	rdr, err := r.scanner(scan.Options{Files: catalogtest.FromStore(slow), Footers: footers}).Open(ctx, r.source(), r.columns("id"))
	require.NoError(t, err)
	go func() {
		<-slow.reading
		cancel()
	}()
	require.False(t, rdr.Next(), "the consumer does not wait for storage that does not answer")
	require.ErrorIs(t, rdr.Err(), context.Canceled)
	released := make(chan struct{})
	go func() {
		rdr.Release()
		close(released)
	}()
	for range 10_000 { // time for what must not happen
		runtime.Gosched()
	}
	close(slow.gate)
	<-released
	require.False(t, slow.early.Load(), "the file was closed under the read of its footer")
	require.Zero(t, r.store.Counts().Open)
}

// TestManyReaders checks that readers can share a scanner, a budget and an allocator.
func TestManyReaders(t *testing.T) {
	t.Parallel()
	r := small(t)
	limit := budget.New(1 << 30)
	s := r.scanner(scan.Options{BatchRows: 11, Budget: limit})
	columns := r.columns(all...)
	want := r.want(r.source(), columns, nil)
	var readers sync.WaitGroup
	lines := make([][]string, 8)
	for i := range lines {
		readers.Go(func() {
			rdr, err := s.Open(t.Context(), r.source(), columns)
			if err != nil {
				t.Error(err)
				return
			}
			defer rdr.Release()
			for rdr.Next() {
				lines[i] = append(lines[i], texts(rdr.RecordBatch())...)
			}
		})
	}
	readers.Wait()
	require.Zero(t, limit.Used())
	for _, got := range lines {
		require.True(t, slices.Equal(want, got))
	}
}
