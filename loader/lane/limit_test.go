package lane_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/lane"
)

// TestLimits ends two lanes, of 5 and of 4 rows, after each number of rows.
//
// spec: endpoint-10, endpoint-13
func TestLimits(t *testing.T) {
	t.Parallel()
	all := []int64{0, 1, 2, 1000, 1001, 1002, 3, 4, 1003}
	for _, c := range []struct {
		limit, given int64
		uneven       bool
		at           []lane.Position
		opened       int
	}{
		{1, 1, true, []lane.Position{{Row: 1}, {}}, 1},
		{2, 2, true, []lane.Position{{Range: 1}, {}}, 1},
		{3, 3, true, []lane.Position{{Range: 1, Row: 1}, {}}, 2},
		{4, 3, true, []lane.Position{{Range: 1, Row: 1}, {Row: 1}}, 3},
		{6, 3, false, []lane.Position{{Range: 1, Row: 1}, {Row: 3}}, 3},
		{7, 4, true, []lane.Position{{Range: 1, Row: 2}, {Row: 3}}, 3},
		{9, 6, false, []lane.Position{{Range: 2}, {Range: 1}}, 3},
		{50, 6, false, []lane.Position{{Range: 2}, {Range: 1}}, 3},
	} {
		p := world(t, map[int][]int64{0: {2, 3}, 1: {4}})
		r := lane.New(context.Background(), lane.Options{
			Lanes: []lane.Lane{{Number: 0, Ranges: []int64{2, 3}}, {Number: 1, Ranges: []int64{4}}},
			Rows:  3, Steps: lane.Unknown, Limit: c.limit, Open: p.open,
			Layout: lane.Layout{Schema: schema, Columns: []lane.Column{{Index: 0, Field: lane.Plain}, {Index: 1, Field: 0}}},
		})
		batches, at := drain(t, r)
		var got []int64
		for _, b := range batches {
			got = append(got, b...)
		}
		require.Equal(t, all[:min(int(c.limit), len(all))], got)
		done := r.Progress()
		require.Equal(t, c.given, done.PerLane, "limit %d", c.limit)
		require.Equal(t, c.uneven, done.Uneven, "limit %d", c.limit)
		require.Equal(t, c.at, at[len(at)-1], "limit %d", c.limit)
		require.Len(t, p.opened, c.opened, "limit %d: nothing is opened after the last row", c.limit)
	}
}
