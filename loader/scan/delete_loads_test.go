package scan_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// TestDeletesAreLoadedOnce checks that a delete file is read once by concurrent readers, and
// by consecutive ones while the deletes are kept.
//
// spec: delete-7
func TestDeletesAreLoadedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 6 {
		r.grow(20, 5, 1)
		r.list[i].Sequence = 1
	}
	of := map[string][]int64{}
	for i := range r.list {
		of[locationOf(i)] = []int64{int64(i)}
	}
	shared := catalog.Deletes{
		Positions: []*catalog.DeleteFile{r.positions("positions", of)},
		Equality:  []*catalog.EqualityGroup{group(r.equality("equality", 5, r.columns("id"), columnOf(arrow.PrimitiveTypes.Int64, "19", "39", "59", "79", "99", "119")))},
	}
	for i := range r.list {
		r.list[i].Deletes = shared
	}
	limit := budget.New(1 << 30)
	s := r.scanner(scan.Options{Budget: limit, Memory: memory.DefaultAllocator})
	kept := s.Keep(r.table, r.list)
	for range 2 {
		var readers errgroup.Group
		for i := range r.list {
			readers.Go(func() error {
				source := r.source()
				source.Files = source.Files[i:]
				rdr, err := s.Open(context.Background(), source, r.columns("id"))
				if err != nil {
					return err
				}
				defer rdr.Release()
				rows := int64(0)
				for rdr.Next() {
					rows += rdr.RecordBatch().NumRows()
				}
				if want := int64(18 * (len(r.list) - i)); rdr.Err() == nil && rows != want {
					return fmt.Errorf("%d rows, not %d", rows, want)
				}
				return rdr.Err()
			})
		}
		require.NoError(t, readers.Wait())
	}
	opens := map[string]int{}
	for _, request := range r.store.Requests() {
		if request.Location == "positions" || request.Location == "equality" {
			opens[request.Location]++
		}
	}
	once := opens["positions"]
	require.Positive(t, limit.Used(), "what is kept is paid for")
	kept.Release()
	require.Zero(t, limit.Used())

	r.store.Reset()
	require.NoError(t, r.read(s, plan.Source{Table: r.table, Planned: everyColumn(r.table), Files: []plan.FileRange{{File: r.list[0], To: 20}}}, r.columns("id")).err)
	again := 0
	for _, request := range r.store.Requests() {
		if request.Location == "positions" {
			again++
		}
	}
	require.Equal(t, again, once, "twelve readers made as many requests as one")
}

// TestDeletesBeyondTheBudget checks that deletes that do not fit are Exhausted before they
// are held, with an error that names what to compact.
//
// spec: delete-7
func TestDeletesBeyondTheBudget(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(20, 5, 1)
	texts := make([]string, 50_000)
	for i := range texts {
		texts[i] = strconv.Itoa(100 + i)
	}
	r.list[0].Deletes.Equality = []*catalog.EqualityGroup{group(r.equality("d", 5, r.columns("id"), columnOf(arrow.PrimitiveTypes.Int64, texts...)))}
	limit := budget.New(4 << 20)
	got := r.read(r.scanner(scan.Options{Budget: limit}), r.source(), r.columns("id"))
	require.Equal(t, fault.Exhausted, fault.KindOf(got.err), "%v", got.err)
	require.ErrorContains(t, got.err, "hold the equality deletes of table ml.impressions")
	require.ErrorContains(t, got.err, "rewrite_data_files with delete-file-threshold 1")
	require.Zero(t, limit.Used())
	require.LessOrEqual(t, limit.Peak(), int64(4<<20))

	limit = budget.New(16 << 20)
	got = r.read(r.scanner(scan.Options{Budget: limit}), r.source(), r.columns("id"))
	require.NoError(t, got.err)
	require.Len(t, got.lines, 20)
	require.Zero(t, limit.Used())
}

// TestDeleteLoadsWaitForMemory checks that streams whose deletes each need most of the
// budget continue one after the other.
//
// spec: delete-7
func TestDeleteLoadsWaitForMemory(t *testing.T) {
	t.Parallel()
	const streams, files, rows = 8, 300, 100
	for _, kind := range []catalog.DeleteKind{catalog.PositionDeletes, catalog.EqualityDeletes} {
		r := newRig(t)
		for i := range streams {
			r.grow(20, 5, 1)
			name := fmt.Sprint("d", i)
			if kind == catalog.PositionDeletes {
				of := map[string][]int64{locationOf(i): {1}}
				for k := range files {
					for at := range int64(rows) {
						other := fmt.Sprint("file:///other/", k)
						of[other] = append(of[other], at*70_000)
					}
				}
				r.list[i].Deletes.Positions = []*catalog.DeleteFile{r.positions(name, of)}
				continue
			}
			ids := make([]string, 20_000)
			for k := range ids {
				ids[k] = strconv.Itoa(1_000 + k)
			}
			ids[0] = strconv.Itoa(20*i + 1)
			r.list[i].Deletes.Equality = []*catalog.EqualityGroup{group(r.equality(name, 5, r.columns("id"), columnOf(arrow.PrimitiveTypes.Int64, ids...)))}
		}
		limit := budget.New(8 << 20)
		s := r.scanner(scan.Options{Budget: limit, Memory: memory.DefaultAllocator})
		var readers errgroup.Group
		for i := range streams {
			readers.Go(func() error {
				ctx, stream := limit.Enter(t.Context(), "")
				defer stream.Release()
				rdr, err := s.Open(ctx, plan.Source{Table: r.table, Planned: everyColumn(r.table), Files: []plan.FileRange{{File: r.list[i], To: 20}}}, r.columns("id"))
				if err != nil {
					return err
				}
				defer rdr.Release()
				got := int64(0)
				for rdr.Next() {
					got += rdr.RecordBatch().NumRows()
				}
				if rdr.Err() == nil && got != 19 {
					return fmt.Errorf("%d rows", got)
				}
				return rdr.Err()
			})
		}
		require.NoError(t, readers.Wait(), "%s", kind)
		require.Zero(t, limit.Used())
		require.LessOrEqual(t, limit.Peak(), int64(8<<20))
	}
}
