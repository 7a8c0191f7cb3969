package lane_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/lane"
)

// everyReader returns a reader of some of the steps of lanes.
func (p *ranges) everyReader(q, steps int64, known bool, every lane.Every, lanes ...lane.Lane) *lane.Reader {
	for i := range lanes {
		lanes[i].Ranges, lanes[i].Windows = nil, p.windowsOf(lanes[i].Number)
		for _, n := range p.rows[lanes[i].Number] {
			if !known {
				n = lane.Unknown
			}
			lanes[i].Ranges = append(lanes[i].Ranges, n)
		}
	}
	return lane.New(context.Background(), lane.Options{
		Lanes: lanes, Rows: q, Steps: steps, Every: every, Open: p.open,
		Layout: lane.Layout{Schema: schema, Columns: []lane.Column{{Index: 0, Field: lane.Plain}, {Index: 1, Field: 0}}},
	})
}

// TestWorkersTakeTurns: the batches of all DataLoader workers, in turn, are those of one that
// takes all steps, and all have its positions, in between and at the end.
//
// spec: step-1, step-3
func TestWorkersTakeTurns(t *testing.T) {
	t.Parallel()
	worlds := []map[int][]int64{
		{0: {9}, 1: {7}}, {0: {3, 0, 2, 0}, 2: {8}}, {0: {0}, 1: {0, 0}}, {0: {1, 1, 1, 1, 1, 1, 1, 1}, 1: {20}}, {5: {4, 4, 4}},
	}
	for _, rows := range worlds {
		for _, start := range []lane.Position{{}, {Row: 1}} { // of window 0
			for _, known := range []bool{true, false} {
				for _, q := range []int64{1, 3} {
					for _, steps := range []int64{lane.Unknown, 1, 2} {
						for _, of := range []int64{1, 2, 4} {
							for _, window := range []int64{0, 3} {
								turns{rows, start, known, q, steps, of, window}.take(t)
							}
						}
					}
				}
			}
		}
	}
}

// turns describes how workers take the steps of some lanes.
type turns struct {
	rows         map[int][]int64
	start        lane.Position // of the lanes, whose first range has that many rows
	known        bool
	q, steps, of int64
	window       int64 // size, if rows are permuted
}

func (x turns) take(t *testing.T) {
	t.Helper()
	p, steps := world(t, x.rows), x.steps
	p.window = x.window
	lanes := func() (all []lane.Lane) {
		for number := range 6 {
			if ranges, ok := x.rows[number]; ok {
				one := lane.Lane{Number: number}
				if ranges[0] > x.start.Row {
					one.Start = x.start
				}
				all = append(all, one)
				for steps > 0 && !hasRows(ranges, steps*x.q+one.Start.Row) {
					steps-- // the lanes must have these steps
				}
			}
		}
		return all
	}
	lanes()
	whole := p.everyReader(x.q, steps, x.known, lane.Every{}, lanes()...)
	want, at := drain(t, whole)
	done := whole.Progress()
	require.Zero(t, done.Skipped)
	var left int64
	for _, b := range want {
		left += int64(len(b))
	}
	got := make([][]int64, len(want))
	for step := range x.of {
		r := p.everyReader(x.q, steps, x.known, lane.Every{Step: step, Of: x.of}, lanes()...)
		batches, positions := drain(t, r)
		given := int64(0)
		for i, b := range batches {
			number := step + int64(i)*x.of
			require.Less(t, number, int64(len(want)))
			got[number] = b
			given += int64(len(b))
			require.Equal(t, at[number], positions[i])
		}
		what := fmt.Sprintf("%v from %v, %d rows of each lane, known %v, windows of %d, %d steps, every %d of %d", x.rows, x.start, x.q, x.known, x.window, steps, step, x.of)
		part := r.Progress()
		require.Equal(t, done.At, part.At, what)
		require.Equal(t, done.Consumed, part.Consumed, what)
		require.Equal(t, done.PerLane, part.PerLane, what)
		require.Equal(t, done.Steps, part.Steps, what)
		require.EqualValues(t, len(batches), part.Batches, what)
		require.Equal(t, left-given, part.Skipped, what)
	}
	for i := range want {
		require.Equal(t, want[i], got[i])
	}
}

func hasRows(ranges []int64, n int64) bool {
	for _, rows := range ranges {
		n -= rows
	}
	return n <= 0
}

// TestSkippedRangesAreNotOpened: ranges of known size that belong to the steps of others are
// skipped, and others start at the first row that is used.
//
// spec: step-4
func TestSkippedRangesAreNotOpened(t *testing.T) {
	t.Parallel()
	p := world(t, map[int][]int64{0: {2, 3, 10, 4, 1}})
	got, _ := drain(t, p.everyReader(2, lane.Unknown, true, lane.Every{Step: 3, Of: 4}, lane.Lane{Number: 0}))
	require.Equal(t, [][]int64{{6, 7}, {14, 15}}, got)
	require.Equal(t, []string{"0.2+1", "0.3+0"}, p.opened[:2])
	require.NotContains(t, p.opened, "0.4+0")

	p = world(t, map[int][]int64{0: {2, 3, 10}})
	got, _ = drain(t, p.everyReader(2, lane.Unknown, false, lane.Every{Step: 3, Of: 4}, lane.Lane{Number: 0}))
	require.Equal(t, [][]int64{{6, 7}, {14}}, got)
	require.Equal(t, []string{"0.0+0", "0.1+0", "0.2+0"}, p.opened, "ranges of unknown size are read")
}

// TestOtherRowsThanCounted: a lane that has a different number of rows than were counted ends
// the stream as soon as that is detected.
//
// spec: step-11
func TestOtherRowsThanCounted(t *testing.T) {
	t.Parallel()
	for _, every := range []lane.Every{{}, {Step: 1, Of: 2}, {Step: 2, Of: 3}} {
		for name, test := range map[string]struct {
			left  []int64
			steps int64
			bad   int // lane; -1: none
		}{
			"as counted":                      {[]int64{9, 7}, lane.Unknown, -1},
			"fewer":                           {[]int64{9, 8}, lane.Unknown, 1},
			"more":                            {[]int64{8, 7}, lane.Unknown, 0},
			"far more":                        {[]int64{1, 7}, lane.Unknown, 0},
			"none at all":                     {[]int64{9, 0}, lane.Unknown, 1},
			"as counted, of three steps":      {[]int64{9, 7}, 3, -1},
			"more rows after the last step":   {[]int64{6, 7}, 3, 0},
			"too few for the last step":       {[]int64{9, 8}, 4, 1},
			"a difference that is never read": {[]int64{12, 7}, 3, -1},
		} {
			for _, known := range []bool{true, false} {
				p := world(t, map[int][]int64{0: {9}, 1: {5, 2}})
				r := p.counted(every, test.steps, known, test.left)
				for r.Next() {
				}
				if test.bad < 0 {
					require.NoError(t, r.Err(), name)
				} else {
					require.EqualError(t, r.Err(), fmt.Sprintf("lane %d", test.bad), name)
				}
				r.Release()
			}
		}
	}
}

// counted returns a reader of lanes 0 and 1, of which rows were counted.
func (p *ranges) counted(every lane.Every, steps int64, known bool, left []int64) *lane.Reader {
	lanes := []lane.Lane{{Number: 0}, {Number: 1}}
	for i := range lanes {
		for _, n := range p.rows[i] {
			if !known {
				n = lane.Unknown
			}
			lanes[i].Ranges = append(lanes[i].Ranges, n)
		}
	}
	return lane.New(context.Background(), lane.Options{
		Lanes: lanes, Rows: 2, Steps: steps, Every: every, Open: p.open,
		Counted: lane.Counted{Left: left, Differs: func(lane int) error { return fault.New(fault.Invalid, "lane %d", lane) }},
		Layout:  lane.Layout{Schema: schema, Columns: []lane.Column{{Index: 0, Field: lane.Plain}, {Index: 1, Field: 0}}},
	})
}
