package stream_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// storedRow is a training row by its split and its number there.
type storedRow struct {
	split int
	row   int64
}

// windowOfRow is a window, among those of all lanes.
type windowOfRow struct {
	lane, run int
	window    int64
}

// windowsOfPlan derives the window of each stored row from docs/spec/order.md, without the code under test: it lists
// the rows of each run, cuts the list into parts, turns each part to where it begins, and cuts it into blocks.
func windowsOfPlan(p *plan.Plan) map[storedRow]windowOfRow {
	windows := map[storedRow]windowOfRow{}
	for number, l := range p.Lanes {
		for at, run := 0, 0; at < len(l.Ranges); run++ {
			first, before := l.Ranges[at], p.Splits[l.Ranges[at].Split].Bucket
			var ranges []plan.Range
			for ; at < len(l.Ranges); at++ {
				one := l.Ranges[at]
				whole := one.To-one.From == p.Splits[one.Split].Rows
				if one != first && whole && p.Splits[one.Split].Bucket != before {
					break
				}
				before = p.Splits[one.Split].Bucket
				ranges = append(ranges, one)
			}
			slices.SortFunc(ranges, func(a, b plan.Range) int {
				return cmp.Or(compareStored(p.Splits[a.Split], p.Splits[b.Split]), cmp.Compare(a.From, b.From))
			})
			var rows []storedRow
			for _, one := range ranges {
				for row := one.From; row < one.To; row++ {
					rows = append(rows, storedRow{one.Split, row})
				}
			}
			count := (len(rows) + int(p.Rows.ShuffleWindow) - 1) / int(p.Rows.ShuffleWindow)
			for part, of := range divided(rows, int(p.Rows.ShuffleParts)) {
				if len(of) == 0 {
					continue
				}
				text := fmt.Sprintf("%d %d %d %q", 1, p.Rows.Seed, p.Rows.Epoch, []string{"part", p.Splits[first.Split].ID, strconv.FormatInt(first.From, 10), strconv.Itoa(part)})
				sum := sha256.Sum256([]byte(text))
				start := binary.BigEndian.Uint64(sum[:8]) % uint64(len(of))
				for window, block := range divided(slices.Concat(of[start:], of[:start]), count) {
					for _, row := range block {
						windows[row] = windowOfRow{number, run, int64(window)}
					}
				}
			}
		}
	}
	return windows
}

// compareStored orders the splits of one partition spec as they are stored: by partition values, nulls last, then by the
// digits of the bucket, the null bucket last, and by the first file.
func compareStored(a, b plan.Split) int {
	for i := range a.Partition {
		x, y := a.Partition[i], b.Partition[i]
		order := cmp.Compare(fmt.Sprintf("%020v", x), fmt.Sprintf("%020v", y))
		switch {
		case x == nil && y == nil:
			continue
		case x == nil:
			return 1
		case y == nil:
			return -1
		}
		if order != 0 {
			return order
		}
	}
	digits := func(s plan.Split) (of []int) {
		if s.Bucket.Null() {
			return []int{s.Bucket.Of}
		}
		for rest, left, prime := s.Bucket.ID, s.Bucket.Of, 2; left > 1; prime++ {
			for ; left%prime == 0; left, rest = left/prime, rest/prime {
				of = append(of, rest%prime)
			}
		}
		return of
	}
	of, with := a.Files[0], b.Files[0]
	return cmp.Or(slices.Compare(digits(a), digits(b)), cmp.Compare(of.File.Sequence, with.File.Sequence), cmp.Compare(of.File.Location, with.File.Location), cmp.Compare(of.From, with.From))
}

// divided divides a list into parts, the first of which have one element more.
func divided[E any](list []E, parts int) [][]E {
	out := make([][]E, parts)
	for i := range out {
		n := len(list) / (parts - i)
		if len(list)%(parts-i) > 0 {
			n++
		}
		out[i], list = list[:n], list[n:]
	}
	return out
}

// storedRows returns the rows of each split of a query's plan, as they are stored, by the split's id.
func storedRows(t *testing.T, c *scenario.Made, q dataset.Query) map[string][]row {
	t.Helper()
	q.Shuffle, q.ShuffleWindow, q.ShuffleParts, q.Dataset, q.Lanes, q.BatchRows = dataset.ShuffleSplits, 0, 0, "d", 1, 0
	rows := itemsOf(t, c, q)
	p, err := c.Loader().Plan(t.Context(), q)
	require.NoError(t, err)
	stored := map[string][]row{}
	for _, r := range p.Lanes[0].Ranges {
		stored[p.Splits[r.Split].ID] = rows[:r.To-r.From]
		rows = rows[r.To-r.From:]
	}
	require.Empty(t, rows)
	return stored
}

// windowsOf returns the windows of a full read of one lane, in order, each with its rows as they are stored.
func windowsOf(t *testing.T, c *scenario.Made, q dataset.Query) [][]row {
	t.Helper()
	q.Dataset = "d"
	stored := storedRows(t, c, q)
	p, err := c.Loader().Plan(t.Context(), q)
	require.NoError(t, err)
	type place struct {
		windowOfRow
		storedRow
	}
	var places []place
	for at, window := range windowsOfPlan(p.Plan) {
		places = append(places, place{window, at})
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.window, b.window), compareStored(p.Splits[a.split], p.Splits[b.split]), cmp.Compare(a.row, b.row))
	})
	var windows [][]row
	for i, one := range places {
		if i == 0 || places[i-1].windowOfRow != one.windowOfRow {
			windows = append(windows, nil)
		}
		windows[len(windows)-1] = append(windows[len(windows)-1], stored[p.Splits[one.split].ID][one.row])
	}
	return windows
}
