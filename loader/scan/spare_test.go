package scan_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/scan"
)

// TestSmallFileIsOneRead checks that a file that fits in its tail costs one read, including
// its bloom filters, and that a file with a cached footer costs one read for each run of
// columns.
func TestSmallFileIsOneRead(t *testing.T) {
	r := newRig(t)
	r.grow(50, 10, 1)
	r.grow(50, 10, 2)
	r.store.Reset()
	got := r.read(r.scanner(scan.Options{}), r.source(), r.columns("id", "key", "tags"))
	require.NoError(t, got.err)
	require.Equal(t, 2, r.store.Counts().Reads)
}

// TestNextRowGroupIsReadAhead checks that the stored bytes of the next row group and of the
// next file are read while batches of a row group wait for their consumer.
func TestNextRowGroupIsReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		first, second := r.grow(200, 100, 1), r.grow(100, 100, 1)
		limit := budget.New(1 << 30)
		s := r.scanner(scan.Options{Budget: limit, ReadTail: scan.NoTail, Ahead: 1, BatchRows: 10})
		r.store.Reset()
		rdr, err := s.Open(t.Context(), r.source(), r.columns("id"))
		require.NoError(t, err)
		require.Zero(t, r.store.Counts().Reads)
		require.True(t, rdr.Next())
		reads := func(location string) int {
			n := 0
			for _, q := range r.store.Requests() {
				if q.Location == location {
					n++
				}
			}
			return n
		}
		synctest.Wait()
		require.Equal(t, 3, reads(first.Location), "footer and two row groups")
		require.Equal(t, 2, reads(second.Location), "footer and row group")
		rows := rdr.RecordBatch().NumRows()
		for rdr.Next() {
			rows += rdr.RecordBatch().NumRows()
		}
		require.NoError(t, rdr.Err())
		require.Equal(t, int64(300), rows)
		rdr.Release()
		require.Equal(t, 5, r.store.Counts().Reads)
		require.Zero(t, limit.Used())
	})
}

// TestReadAheadIsReleasedUnderPressure checks that memory needed elsewhere is taken from
// read-ahead, which is read again when it is needed.
func TestReadAheadIsReleasedUnderPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.grow(200, 100, 1)
		limit := budget.New(1 << 20)
		s := r.scanner(scan.Options{Budget: limit, Ahead: 1, BatchRows: 10})
		rdr, err := s.Open(t.Context(), r.source(), r.columns("id"))
		require.NoError(t, err)
		require.True(t, rdr.Next())
		synctest.Wait() // until the next row group is there
		held, err := limit.Reserve("another stream", limit.Limit()-limit.Used()+1)
		require.NoError(t, err)
		held.Release()
		rows := rdr.RecordBatch().NumRows()
		for rdr.Next() {
			rows += rdr.RecordBatch().NumRows()
		}
		require.NoError(t, rdr.Err())
		require.Equal(t, int64(200), rows)
		rdr.Release()
		require.Zero(t, limit.Used())
	})
}

// TestRowGroupBeingDecodedIsNotReleased checks that the row group after the one being
// decoded is released, whichever is asked first: the one being decoded cannot be.
//
// spec: storage-11
func TestRowGroupBeingDecodedIsNotReleased(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.grow(400, 100, 1)
			limit := budget.New(1 << 20)
			s := r.scanner(scan.Options{Budget: limit, ReadTail: scan.NoTail, Ahead: 1, BatchRows: 10})
			rdr, err := s.Open(t.Context(), r.source(), r.columns("id"))
			require.NoError(t, err)
			reads := func(n int) {
				t.Helper()
				synctest.Wait()
				require.Equal(t, n, r.store.Counts().Reads)
			}
			rdr.Begin()
			reads(2)
			require.True(t, rdr.Next())
			reads(3)
			ctx, stream := limit.Enter(t.Context(), "another stream") // waits for what is being read still
			require.NoError(t, limit.Await(ctx, "another stream", limit.Limit()-limit.Used()+1))
			stream.Release()
			rdr.Release()
			require.Zero(t, limit.Used())
		})
	}
}

// TestReadAheadThatFails checks that the error is that of the file that could not be read,
// and that the rows before it are returned.
func TestReadAheadThatFails(t *testing.T) {
	r := newRig(t)
	r.grow(100, 100, 1)
	second := r.grow(100, 100, 1)
	r.store.Set(errstore.Rule{Location: second.Location, Nth: 2, Action: errstore.Fail(nil)})
	got := r.read(r.scanner(scan.Options{ReadTail: scan.NoTail}), r.source(), r.columns("id"))
	require.ErrorContains(t, got.err, second.Location)
	require.Len(t, got.lines, 100)
}

// TestBegin checks that a reader after Begin reads its first row group before the first
// Next, once, decodes nothing, and leaves nothing behind if Next is never called.
func TestBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.grow(200, 100, 1)
		r.grow(100, 100, 1)
		limit := budget.New(1 << 30)
		s := r.scanner(scan.Options{Budget: limit, ReadTail: scan.NoTail})
		for _, asks := range []bool{true, false} {
			r.store.Reset()
			rdr, err := s.Open(t.Context(), r.source(), r.columns("id"))
			require.NoError(t, err)
			rdr.Begin()
			rdr.Begin()
			synctest.Wait()
			require.Equal(t, 2, r.store.Counts().Reads, "a footer and a row group")
			if asks {
				rows := int64(0)
				for rdr.Next() {
					rows += rdr.RecordBatch().NumRows()
				}
				require.NoError(t, rdr.Err())
				require.Equal(t, int64(300), rows)
				require.Equal(t, 5, r.store.Counts().Reads)
			}
			rdr.Release()
			require.Zero(t, limit.Used())
			require.Zero(t, r.store.Counts().Open)
		}
	})
}

// TestBeginWithoutMemory checks that work for which Begin has no memory is done by Next.
func TestBeginWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.grow(100, 100, 1)
		limit := budget.New(1 << 20)
		all, err := limit.Reserve("another stream", limit.Limit())
		require.NoError(t, err)
		rdr, err := r.scanner(scan.Options{Budget: limit}).Open(t.Context(), r.source(), r.columns("id"))
		require.NoError(t, err)
		rdr.Begin()
		synctest.Wait()
		require.Equal(t, 1, r.store.Counts().Reads)
		all.Release()
		require.True(t, rdr.Next())
		require.Equal(t, int64(100), rdr.RecordBatch().NumRows())
		rdr.Release()
		require.Zero(t, limit.Used())
	})
}
