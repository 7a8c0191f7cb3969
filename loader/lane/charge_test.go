package lane_test

import (
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/lane"
)

// paying returns a reader whose batches are reserved from a budget.
func (p *ranges) paying(q int64, b *budget.Budget, limit int64, lanes ...lane.Lane) *lane.Reader {
	for i := range lanes {
		lanes[i].Ranges, lanes[i].Windows = p.rows[lanes[i].Number], p.windowsOf(lanes[i].Number)
	}
	return lane.New(context.Background(), lane.Options{
		Lanes: lanes, Rows: q, Steps: lane.Unknown, Open: p.open, Memory: &batch.Pool{}, Budget: b, MaxBytes: limit,
		SizedBy: lane.SizedBy{Field: "batch_rows", Batches: 1},
		Layout:  lane.Layout{Schema: schema, Columns: []lane.Column{{Index: 0, Field: lane.Plain}, {Index: 1, Field: 0}}},
	})
}

// TestBatchesAreReserved: a batch is reserved as long as it is referenced, with at least the
// bytes that it takes.
//
// spec: wire-9
func TestBatchesAreReserved(t *testing.T) {
	t.Parallel()
	for _, q := range []int64{1, 2, 3, 4, 7, 20, 400} {
		p := world(t, map[int][]int64{1: {30, 2}, 3: {8, 19}})
		b := budget.New(1 << 20)
		lanes := []lane.Lane{{Number: 1}, {Number: 3}}
		if q == 400 { // one lane: columns are shared with the batches of its range
			p.rows[1], p.cut, lanes = []int64{2000}, 500, lanes[:1]
		}
		r := p.paying(q, b, 0, lanes...)
		var held []arrow.RecordBatch
		sum := int64(0)
		for r.Next() {
			one := r.RecordBatch()
			one.Retain()
			held = append(held, one)
			bytes := one.(*batch.Charged).Bytes()
			sum += bytes
			require.Equal(t, sum, b.Used())
			require.GreaterOrEqual(t, bytes, batch.ArraySize(one.Columns()...), "%d rows", one.NumRows())
		}
		require.NoError(t, r.Err())
		r.Release()
		require.Equal(t, sum, b.Used())
		for _, one := range held {
			one.Release()
		}
		require.Zero(t, b.Used())
	}
}

// TestPassedBatchesAreReserved: a batch of a thousand rows is cut from many batches of its
// ranges, which are reserved as long as they are held.
//
// spec: wire-9
func TestPassedBatchesAreReserved(t *testing.T) {
	t.Parallel()
	p := world(t, map[int][]int64{1: {700, 300}})
	p.cut = 50
	b := budget.New(1 << 20)
	r := p.paying(1000, b, 0, lane.Lane{Number: 1})
	require.True(t, r.Next())
	require.NoError(t, r.Err())
	passed := int64(0)
	for i, given := range p.sizes {
		if i < 19 { // the range has the last one
			passed += given.rows
		}
		if i < 19 { // a row refers to each dictionary row
			passed += given.dictionary
		}
	}
	require.Len(t, p.sizes, 20)
	require.Equal(t, b.Used()+passed, b.Peak(), "beside the batch itself")
	require.Positive(t, passed)
	r.Release()
	require.Zero(t, b.Used())

	tight := budget.New(passed / 2)
	r = p.paying(1000, tight, 0, lane.Lane{Number: 1})
	require.False(t, r.Next())
	require.Equal(t, fault.Exhausted, fault.KindOf(r.Err()))
	r.Release()
	require.Zero(t, tight.Used())
}

// TestEndedRangesAreReleased: if a lane opens its next range within a batch, it keeps only those
// rows of the last one's build sides that the batch needs.
//
// spec: wire-9
func TestEndedRangesAreReleased(t *testing.T) {
	t.Parallel()
	const staged = 10_000 // rows of a dictionary
	for _, known := range []bool{true, false} {
		mem := memory.NewCheckedAllocator(batch.Default())
		joined := arrow.NewSchema([]arrow.Field{{Name: "indexed", Type: dictionaryType}}, nil)
		before := []int{}
		open := func(_ context.Context, _ int, at lane.Position) (lane.Sequence, error) {
			number := at.Range
			before = append(before, mem.CurrentAlloc())
			s := &dictionaries{memory: mem, made: []arrow.Array{rowsOf(mem, number, staged)}}
			given := false
			return lane.AsStored(batch.FromFunc(joined, func() (arrow.RecordBatch, error) {
				if given {
					return nil, nil //nolint:nilnil // the end of a stream
				}
				given = true
				return s.batch(joined, 0, []int32{9999, 9999, 7, 0}), nil
			}, func() { s.made[0].Release() })), nil
		}
		of := lane.Lane{Ranges: []int64{4, 4, 4}}
		if !known {
			of.Ranges = []int64{lane.Unknown, lane.Unknown, lane.Unknown}
		}
		b := budget.New(1 << 20)
		r := lane.New(t.Context(), lane.Options{
			Lanes: []lane.Lane{of}, Rows: 12, Steps: lane.Unknown, Open: open, Memory: mem, Budget: b,
			Layout: lane.Layout{Schema: arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil), Columns: []lane.Column{{Index: 0, Field: 0}}},
		})
		require.True(t, r.Next())
		require.Equal(t, "[9999 9999 7 (null) 10099 10099 107 (null) 10199 10199 207 (null)]", r.RecordBatch().Column(0).String())
		require.Len(t, before, 3)
		for _, held := range before {
			require.Less(t, held, 4096, "a dictionary of %d rows is not among it", staged)
		}
		require.Less(t, b.Peak(), int64(8192))
		require.Greater(t, b.Peak(), b.Used(), "the copies are reserved")
		require.False(t, r.Next())
		r.Release()
		require.Zero(t, b.Used())
		mem.AssertSize(t, 0)
	}
}

// TestTailsAreCopied: a few rows at the end of a range, whose staging rows were copied, do not
// reserve the whole batch.
//
// spec: wire-9
func TestTailsAreCopied(t *testing.T) {
	for _, known := range []bool{true, false} {
		mem := memory.DefaultAllocator
		const rows, q, staged, ends = 1010, 500, 10_000, 2
		joined := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64}, {Name: "indexed", Type: dictionaryType}}, nil)
		open := func(_ context.Context, _ int, at lane.Position) (lane.Sequence, error) {
			number := at.Range
			dict := rowsOf(mem, number, staged)
			given := !known && number == 1 // a range without rows
			return lane.AsStored(batch.FromFunc(joined, func() (arrow.RecordBatch, error) {
				if given {
					return nil, nil //nolint:nilnil // the end of a stream
				}
				given = true
				x, at := array.NewInt64Builder(mem), array.NewInt32Builder(mem)
				for i := range rows {
					x.Append(int64(i))
					at.Append(1)
				}
				xs, ats := x.NewArray(), at.NewArray()
				d := array.NewDictionaryArray(dictionaryType, ats, dict)
				return array.NewRecordBatch(joined, []arrow.Array{xs, d}, rows), nil
			}, func() { dict.Release() })), nil
		}
		of := lane.Lane{Ranges: []int64{rows, rows}}
		if !known {
			of.Ranges = []int64{lane.Unknown, lane.Unknown}
		}
		b := budget.New(10 << 20)
		r := lane.New(t.Context(), lane.Options{
			Lanes: []lane.Lane{of}, Rows: q, Steps: lane.Unknown, Open: open, Memory: mem, Budget: b, MaxBytes: 8000,
			Layout: lane.Layout{Schema: arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64}, {Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil), Columns: []lane.Column{{Index: 0, Field: lane.Plain}, {Index: 1, Field: 0}}},
		})
		got := int64(0)
		for r.Next() {
			got += r.RecordBatch().NumRows()
		}
		require.NoError(t, r.Err(), "known: %v", known)
		want := int64(rows)
		if known {
			want *= ends
		}
		require.Equal(t, want, got)
		r.Release()
		require.Zero(t, b.Used())
	}
}

// TestBatchesBeyondTheLimit are refused before their memory is allocated.
//
// spec: wire-8
func TestBatchesBeyondTheLimit(t *testing.T) {
	t.Parallel()
	p := world(t, map[int][]int64{1: {300}, 3: {300}})
	p.cut = 300
	b := budget.New(1 << 20)
	r := p.paying(100, b, 2500, lane.Lane{Number: 1}, lane.Lane{Number: 3})
	require.False(t, r.Next())
	require.Equal(t, fault.Exhausted, fault.KindOf(r.Err()))
	defer r.Release()
	require.ErrorContains(t, r.Err(), "a batch of 200 rows takes 3840 bytes, more than the limit of 2500 (max_batch_bytes)")
	require.Contains(t, fault.As(r.Err()).Remedy, "batch_rows of at most 96")
	require.Zero(t, b.Used())
	again := p.paying(45, b, 2500, lane.Lane{Number: 1}, lane.Lane{Number: 3})
	got, _ := drain(t, again)
	require.Len(t, got, 7, "the size that it names fits")
}

// TestBatchesBeyondTheBudget fail, and leave nothing reserved.
func TestBatchesBeyondTheBudget(t *testing.T) {
	t.Parallel()
	p := world(t, map[int][]int64{1: {300}})
	b := budget.New(500)
	r := p.paying(100, b, 0, lane.Lane{Number: 1})
	defer r.Release()
	require.False(t, r.Next())
	require.Equal(t, fault.Exhausted, fault.KindOf(r.Err()))
	require.Zero(t, b.Used())
}
