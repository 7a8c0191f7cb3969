package scan_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// parts divides a source of one file into sources of equal numbers of rows.
func parts(source plan.Source, n int64) []plan.Source {
	whole := source.Files[0]
	out := make([]plan.Source, n)
	for i := range n {
		out[i] = source
		part := whole
		part.From, part.To = whole.From+i*(whole.To-whole.From)/n, whole.From+(i+1)*(whole.To-whole.From)/n
		out[i].Files = []plan.FileRange{part}
	}
	return out
}

// readInTurn reads one batch of each source after another, until all are at their end, and
// returns the rows of each.
func (r *rig) readInTurn(s *scan.Scanner, sources []plan.Source, columns []catalog.Field) [][]string {
	r.t.Helper()
	return r.readInTurnWith(r.t.Context(), s, sources, columns)
}

func (r *rig) readInTurnWith(ctx context.Context, s *scan.Scanner, sources []plan.Source, columns []catalog.Field) [][]string {
	r.t.Helper()
	readers := make([]*scan.Reader, len(sources))
	out := make([][]string, len(sources))
	for i, source := range sources {
		var err error
		readers[i], err = s.Open(ctx, source, columns)
		require.NoError(r.t, err)
		out[i] = []string{}
	}
	for open := len(readers); open > 0; {
		open = 0
		for i, rdr := range readers {
			if rdr.Next() {
				out[i] = append(out[i], texts(rdr.RecordBatch())...)
				open++
			}
			require.NoError(r.t, rdr.Err())
		}
	}
	for _, rdr := range readers {
		rdr.Release()
	}
	return out
}

// expectAll announces all sources.
func expectAll(shared *scan.SharedScans, sources []plan.Source) []plan.Source {
	sources = slices.Clone(sources)
	for i, source := range sources {
		sources[i] = shared.Expect(source)
	}
	return sources
}

// requests returns how often each range of a file was requested, and the requested bytes.
func (r *rig) requests() (counts map[errstore.Request]int, bytes int64) {
	counts = map[errstore.Request]int{}
	for _, q := range r.store.Requests() {
		counts[q]++
		bytes += int64(q.Bytes)
	}
	return counts, bytes
}

// sharing returns a scanner whose requests are only those of column chunks, once the footers are
// known.
func (r *rig) sharing(opts scan.Options) *scan.Scanner {
	footers, err := cache.New[*parquet.Footer](1 << 20)
	require.NoError(r.t, err)
	r.t.Cleanup(footers.Close)
	opts.Footers, opts.ReadTail = footers, scan.NoTail
	return r.scanner(opts)
}

// TestScansOfARowGroupShareItsBytes checks that eight scans in the same row groups, which are read
// in turn, request each column chunk once, as one scan of all rows does, reserve it once, and
// return the same rows as scans that share nothing.
//
// spec: storage-14
func TestScansOfARowGroupShareItsBytes(t *testing.T) {
	for name, group := range map[string]int{"one row group": 400, "some row groups": 90, "many row groups": 10} {
		for _, ahead := range []int64{0, scan.NoAhead} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t)
				r.grow(400, group, 1)
				limit := budget.New(1 << 30)
				s := r.sharing(scan.Options{Budget: limit, BatchRows: 7, Ahead: ahead, ReadGap: 1})
				columns := r.columns("id", "tags", "price")
				whole := r.read(s, r.source(), columns) // reads the footer
				require.NoError(t, whole.err)
				r.store.Reset()
				_ = r.read(s, r.source(), columns)
				want, wantBytes := r.requests()
				r.store.Reset()
				shared := s.Share()
				got := r.readInTurn(s, expectAll(shared, parts(r.source(), 8)), columns)
				require.Equal(t, whole.lines, slices.Concat(got...))
				requested, bytes := r.requests()
				require.Equal(t, want, requested)
				require.Equal(t, wantBytes, bytes)
				require.Zero(t, limit.Used(), "nothing is needed after the last scan")
				shared.Close()
				require.Equal(t, got, r.readInTurn(s, parts(r.source(), 8), columns))
			})
		}
	}
}

// TestExpectedBytesAreKept checks that the bytes of a row group stay for a scan that is expected
// and not open yet, and no longer.
func TestExpectedBytesAreKept(t *testing.T) {
	for name, end := range map[string]func(*scan.SharedScans, plan.Source){
		"done":   func(_ *scan.SharedScans, last plan.Source) { last.Shared.Done() },
		"closed": func(shared *scan.SharedScans, _ plan.Source) { shared.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.grow(100, 100, 1)
			limit := budget.New(1 << 30)
			s := r.sharing(scan.Options{Budget: limit})
			columns := r.columns("id", "tags")
			shared := s.Share()
			defer shared.Close()
			sources := expectAll(shared, parts(r.source(), 4))
			r.store.Reset()
			for i, source := range sources[:3] {
				got := r.read(s, source, columns)
				require.NoError(t, got.err)
				require.Equal(t, r.want(source, columns, nil), got.lines)
				require.Positive(t, limit.Used(), "bytes are kept for the scans after %d", i)
			}
			require.Equal(t, 2, r.store.Counts().Reads, "the footer and the row group")
			end(shared, sources[3])
			require.Zero(t, limit.Used())
			require.Equal(t, r.want(sources[3], columns, nil), r.read(s, sources[3], columns).lines, "it is read again")
			require.Equal(t, 3, r.store.Counts().Reads)
			require.Zero(t, limit.Used())
		})
	}
}

// TestScansBeyondTheRowGroupDoNotKeepIt checks that a row group is released when all expected
// scans are past it, while they are still open.
func TestScansBeyondTheRowGroupDoNotKeepIt(t *testing.T) {
	r := newRig(t)
	r.grow(300, 100, 1)
	limit := budget.New(1 << 30)
	s := r.sharing(scan.Options{Budget: limit, Ahead: scan.NoAhead, BatchRows: 50})
	columns := r.columns("id", "tags")
	shared := s.Share()
	defer shared.Close()
	first := shared.Expect(r.source())
	second := shared.Expect(r.source())
	require.NoError(t, r.read(s, first, columns).err)
	all := limit.Used()
	rdr, err := s.Open(t.Context(), second, columns)
	require.NoError(t, err)
	defer rdr.Release()
	var held []int64
	for rdr.Next() {
		held = append(held, limit.Used())
	}
	require.NoError(t, rdr.Err())
	require.Len(t, held, 6)
	require.Less(t, held[2], held[0]-all/4, "without a third of the bytes")
	require.Less(t, held[4], held[2]-all/4)
	require.Zero(t, limit.Used())
}

// TestSharedBytesAreGivenUpUnderPressure checks that bytes that are kept for an expected scan are
// released when their memory is needed elsewhere, and then read again.
//
// spec: storage-14
func TestSharedBytesAreGivenUpUnderPressure(t *testing.T) {
	r := newRig(t)
	r.grow(300, 100, 1)
	limit := budget.New(1 << 20)
	s := r.sharing(scan.Options{Budget: limit, BatchRows: 10})
	columns := r.columns("id", "tags")
	shared := s.Share()
	defer shared.Close()
	sources := expectAll(shared, parts(r.source(), 4))
	require.NoError(t, r.read(s, sources[0], columns).err)
	require.Positive(t, limit.Used())
	r.store.Reset()
	held, err := limit.Reserve("another stream", limit.Limit())
	require.NoError(t, err)
	held.Release()
	require.Zero(t, limit.Used())
	for _, source := range sources[1:] {
		require.Equal(t, r.want(source, columns, nil), r.read(s, source, columns).lines)
	}
	require.Equal(t, 3, r.store.Counts().Reads, "each row group once")
	require.Zero(t, limit.Used())
}

// TestScansTakeTurnsWithMemory reads eight scans in turn, each in a row group of its own, with memory
// for few of the row groups: scans whose consumers do not wait give theirs up, and read them again.
//
// spec: storage-14
func TestScansTakeTurnsWithMemory(t *testing.T) {
	r := newRig(t)
	rows := makeRows(0, 8000, 1)
	r.add(rows, 1, parquettest.Options{RowGroupRows: 1000, Codec: parquettest.Uncompressed, Plain: true})
	columns := r.columns("id", "tags", "price", "key")
	for _, filter := range []string{"TRUE", "flag"} {
		source := r.source()
		source.Filter = r.filter(filter)
		r.takeTurns(source, columns)
	}
}

// takeTurns reads eighths of a source in turn, with less and less memory.
func (r *rig) takeTurns(source plan.Source, columns []catalog.Field) {
	t := r.t
	t.Helper()
	whole := r.read(r.sharing(scan.Options{}), source, columns)
	require.NoError(t, whole.err)
	group := r.list[0].Bytes / 8
	for _, groups := range []int64{16, 6, 4} {
		limit := budget.New(groups * group)
		s := r.sharing(scan.Options{Budget: limit, BatchRows: 100})
		ctx, stream := limit.Enter(t.Context(), "a host")
		shared := s.Share()
		r.store.Reset()
		got := r.readInTurnWith(ctx, s, expectAll(shared, parts(source, 8)), columns)
		shared.Close()
		stream.Release()
		require.Equal(t, whole.lines, slices.Concat(got...))
		require.Zero(t, limit.Used())
		if requested, _ := r.requests(); groups < 8 {
			repeated := 0
			for _, n := range requested {
				repeated = max(repeated, n)
			}
			require.Greater(t, repeated, 1, "row groups are read again")
		}
	}
}

// TestScansOfOtherColumnsDoNotShare checks that scans that read other columns have their own bytes.
func TestScansOfOtherColumnsDoNotShare(t *testing.T) {
	r := newRig(t)
	r.grow(100, 100, 1)
	s := r.sharing(scan.Options{})
	shared := s.Share()
	defer shared.Close()
	sources := expectAll(shared, parts(r.source(), 2))
	for _, names := range [][]string{{"id"}, {"id", "price"}, {"tags"}, {"id"}} {
		columns := r.columns(names...)
		for _, source := range sources {
			require.Equal(t, r.want(source, columns, nil), r.read(s, source, columns).lines)
		}
	}
}

// TestSharedReadsThatFail checks that an error of storage ends the scan that read, and that the
// others read again.
func TestSharedReadsThatFail(t *testing.T) {
	r := newRig(t)
	f := r.grow(100, 100, 1)
	limit := budget.New(1 << 30)
	s := r.sharing(scan.Options{Budget: limit})
	columns := r.columns("id")
	shared := s.Share()
	defer shared.Close()
	sources := expectAll(shared, parts(r.source(), 3))
	r.store.Set(errstore.Rule{Location: f.Location, Nth: 2, Action: errstore.Fail(nil)})
	require.Error(t, r.read(s, sources[0], columns).err)
	r.store.Set()
	for _, source := range sources {
		require.Equal(t, r.want(source, columns, nil), r.read(s, source, columns).lines)
	}
	require.Zero(t, limit.Used())
}

// TestConcurrentScansShare reads all parts at once, with memory that is often needed elsewhere,
// and some scans that are released early.
func TestConcurrentScansShare(t *testing.T) {
	r := newRig(t)
	rows := makeRows(0, 1000, 1)
	r.add(rows, 1, parquettest.Options{RowGroupRows: 300, PageBytes: 64})
	limit := budget.New(1 << 20)
	s := r.sharing(scan.Options{Budget: limit, BatchRows: 11})
	columns := r.columns("id", "tags", "price", "key")
	for range 20 {
		shared := s.Share()
		sources := expectAll(shared, parts(r.source(), 8))
		var group sync.WaitGroup
		for i, source := range sources {
			group.Go(func() {
				rdr, err := s.Open(t.Context(), source, columns)
				if err != nil {
					t.Error(err)
					return
				}
				defer rdr.Release()
				if i%3 == 0 {
					rdr.Begin()
				}
				var got []string
				for rdr.Next() {
					if i == 5 && len(got) > 20 {
						source.Shared.Done()
						return
					}
					got = append(got, texts(rdr.RecordBatch())...)
				}
				if err := rdr.Err(); err != nil {
					t.Error(err)
				} else if want := r.want(source, columns, nil); !slices.Equal(want, got) {
					t.Errorf("part %d: other rows", i)
				}
			})
		}
		group.Go(func() {
			for range 50 {
				if held, err := limit.Reserve("another stream", limit.Limit()/2); err == nil {
					held.Release()
				}
			}
		})
		group.Wait()
		shared.Close()
		require.Zero(t, limit.Used())
	}
}
