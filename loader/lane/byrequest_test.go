package lane_test

import (
	"context"
	"fmt"
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

// keyed is a range with one batch, whose only column is the key of requests: one of the
// given number of bytes for each pair of rows.
func keyed(mem memory.Allocator, rows, keyBytes int) lane.Sequence {
	sc := arrow.NewSchema([]arrow.Field{{Name: "request_id", Type: arrow.BinaryTypes.String}}, nil)
	given := false
	return lane.AsStored(batch.FromFunc(sc, func() (arrow.RecordBatch, error) {
		if given {
			return nil, nil //nolint:nilnil // the end of a stream
		}
		given = true
		b := array.NewRecordBuilder(mem, sc)
		defer b.Release()
		for i := range rows {
			b.Field(0).(*array.StringBuilder).Append(fmt.Sprintf("%0*d", keyBytes, i/2))
		}
		return b.NewRecordBatch(), nil
	}, nil))
}

// TestBoundariesOfRequestsAreReserved counts requests within a budget. The count reserves a
// byte for each row of a batch and the key of its last row, and fails if the budget lacks
// room for either.
func TestBoundariesOfRequestsAreReserved(t *testing.T) {
	t.Parallel()
	const rows, keyBytes, offsets = 4000, 700, 2 * arrow.Int32SizeBytes
	const needed = int64(rows + keyBytes + offsets)
	for _, c := range []struct {
		limit int64
		fits  bool
	}{{1 << 20, true}, {needed, true}, {needed - 1, false}, {rows, false}, {rows - 1, false}} {
		mem := memory.NewCheckedAllocator(batch.Default())
		b := budget.New(c.limit)
		of := keyed(mem, rows, keyBytes)
		requests, err := lane.CountRequests(t.Context(), of, []int{0}, b)
		of.Release()
		if c.fits {
			require.NoError(t, err)
			require.EqualValues(t, rows/2, requests)
			require.Equal(t, needed, b.Peak())
		} else {
			require.Equal(t, fault.Exhausted, fault.KindOf(err), "a budget of %d bytes", c.limit)
			require.ErrorContains(t, err, "the boundaries of requests")
			require.Contains(t, fault.As(err).Remedy, "batch_requests")
		}
		require.Zero(t, b.Used())
		mem.AssertSize(t, 0)
	}
}

// TestStreamsOfRequestsReserveBoundaries reads batches of requests: the stream keeps the
// boundaries of requests reserved, besides the batch, until its range ends.
func TestStreamsOfRequestsReserveBoundaries(t *testing.T) {
	t.Parallel()
	const rows, keyBytes, offsets = 4000, 700, 2 * arrow.Int32SizeBytes
	mem := memory.NewCheckedAllocator(batch.Default())
	b := budget.New(1 << 24)
	r := lane.New(t.Context(), lane.Options{
		Lanes: []lane.Lane{{Ranges: []int64{lane.Unknown}}}, Rows: rows / 4, Request: []int{0}, Steps: lane.Unknown,
		Open: func(context.Context, int, lane.Position) (lane.Sequence, error) {
			return keyed(mem, rows, keyBytes), nil
		},
		Budget: b,
		Layout: lane.Layout{Schema: arrow.NewSchema([]arrow.Field{{Name: "request_id", Type: arrow.BinaryTypes.String}}, nil), Columns: []lane.Column{{Index: 0, Field: lane.Plain}}},
	})
	require.True(t, r.Next())
	require.EqualValues(t, rows/2, r.RecordBatch().NumRows())
	require.Equal(t, int64(rows+keyBytes+offsets)+r.RecordBatch().(*batch.Charged).Bytes(), b.Used())
	require.True(t, r.Next(), "the rest")
	require.False(t, r.Next())
	require.NoError(t, r.Err())
	r.Release()
	require.Zero(t, b.Used())
	mem.AssertSize(t, 0)
}
