package lane_test

import (
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/lane"
)

// paying makes a reader whose batches a budget pays for.
func (p *ranges) paying(q int64, b *budget.Budget, limit int64, lanes ...lane.Lane) *lane.Reader {
	for i := range lanes {
		lanes[i].Ranges = p.rows[lanes[i].Number]
	}
	return lane.New(context.Background(), lane.Options{
		Lanes: lanes, Rows: q, Steps: lane.Unknown, Schema: schema, Open: p.open, Memory: &batch.Pool{}, Budget: b, MaxBytes: limit,
		Columns: []lane.Column{{Index: 0, Field: lane.Plain}, {Index: 1, Field: 0}},
	})
}

// TestBatchesArePaidFor: a batch is reserved as long as somebody holds it, with
// no less than it takes.
//
// spec: wire-9
func TestBatchesArePaidFor(t *testing.T) {
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

// TestPassedBatchesArePaidFor: a batch of a thousand rows is cut of many batches of
// its ranges, which it pays for as long as it holds them.
//
// spec: wire-9
func TestPassedBatchesArePaidFor(t *testing.T) {
	t.Parallel()
	p := world(t, map[int][]int64{1: {700, 300}})
	p.cut = 50
	b := budget.New(1 << 20)
	r := p.paying(1000, b, 0, lane.Lane{Number: 1})
	require.True(t, r.Next())
	require.NoError(t, r.Err())
	passed := int64(0)
	for i, given := range p.sizes {
		if i < 19 { // the last one is its range's
			passed += given.rows
		}
		if i != 13 && i < 19 { // the last ones of ranges have dictionaries that those pay for
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

// TestBatchesBeyondTheLimit are refused before their memory is taken.
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
	require.ErrorContains(t, r.Err(), "a batch of 200 rows takes 4096 bytes, more than the limit of 2500 (max_batch_bytes)")
	require.Contains(t, fault.As(r.Err()).Remedy, "batch_rows of at most 90")
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
